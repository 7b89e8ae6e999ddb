// SPDX-License-Identifier: Apache-2.0
// Nodes -> passes.
#include <algorithm>
#include <set>

#include "base/at.h"
#include "graph/layer_error.h"
#include "graph/nodes.h"
#include "kernels/value.h"

namespace motley {

int Passes::find(const std::string& name) const {
  for (std::size_t i = 0; i < tensors.size(); i++)
    if (tensors[i].name == name) return static_cast<int>(i);
  return -1;
}

bool Passes::is_trained(int parameter) const {
  return statistic(parameter) == nullptr && !at(tensors, parameter).frozen;
}

std::vector<int> Passes::writers_of(int tensor) const {
  std::vector<int> out;
  for (std::size_t i = 0; i < passes.size(); i++)
    if (passes[i].writes.tensor == tensor) out.push_back(static_cast<int>(i));
  return out;
}

const Statistic* Passes::statistic(int parameter) const {
  const auto found =
      std::find_if(statistics.begin(), statistics.end(), [&](const Statistic& s) { return s.parameter == parameter; });
  return found == statistics.end() ? nullptr : &*found;
}

int Passes::logits() const {
  for (const Pass& p : passes)
    for (std::size_t k = 1; k < p.reads.size(); k++)
      if (at(tensors, p.reads[k].tensor).role == TensorRole::label) return p.reads.front().tensor;
  return -1;
}

bool is_pointwise(const Pass& p) {
  return p.op == KernelOp::map && !p.formula.code.empty() && p.reads.size() == 1 && p.scale == 1.0 && p.index_maps.empty() &&
         result_count(p.formula) == 1 && !reads_position(p.formula, -1) && p.reads[0].indices == p.writes.indices &&
         p.writes.indices.size() == p.indices.size();
}

bool is_plain_map(const Pass& p) {
  return p.op == KernelOp::map && p.formula.code.empty() && p.scale == 1.0 && p.index_maps.empty() && p.own.of < 0;
}

namespace {

// "[out 4, in 3]"
std::string shape_text(const Shape& shape) {
  std::string out;
  for (const Dim& d : shape.dims()) out += (out.empty() ? "" : ", ") + d.name + " " + std::to_string(d.size);
  return "[" + out + "]";
}

}  // namespace

Lowering::Lowering(const GraphNodes& graph, const std::vector<int>& outputs, bool trains, Index micro_batches)
    : batch_(graph.batch()), micro_batches_(micro_batches) {
  out_.trains = trains;
  const std::size_t n = graph.nodes.size();
  values_.assign(n, -1);
  needed_.assign(n, false);
  trains_.assign(n, false);
  for (int o : outputs) at(needed_, o) = true;
  for (std::size_t i = n; i-- > 0;)
    if (needed_[i])
      for (int in : graph.nodes[i].inputs) at(needed_, in) = true;
  for (std::size_t i = 0; i < n; i++) {
    const Node& node = graph.nodes[i];
    trains_[i] = node.op && (node.op->has_parameters() ||
                             std::any_of(node.inputs.begin(), node.inputs.end(), [&](int in) { return bool(at(trains_, in)); }));
  }
}

void Lowering::refuse_micro_batches(const Node& node, const std::string& over) const {
  if (micro_batches_ > 1 && over == batch_)
    throw UserError(
        "accumulate: \"" + node.layer + "\" is computed over \"" + over +
        "\" and would see the samples of one micro-batch at a time, which is another network; leave \"accumulate\" out");
}

int Lowering::add(StepTensor tensor) {
  auto [here, fresh] = by_name_.emplace(tensor.name, static_cast<int>(out_.tensors.size()));
  if (!fresh)
    if (const StepTensor& its = at(out_.tensors, here->second); its.layer != tensor.layer)
      throw UserError("two tensors would be called \"" + tensor.name + "\", of the layers \"" + its.layer + "\" and \"" +
                      tensor.layer + "\"; give one of the layers another name");
  if (fresh) out_.tensors.push_back(std::move(tensor));
  return here->second;
}

int Lowering::parameter(const Node& node, const std::string& suffix, const Shape& shape, Initial initial, Decays decays) {
  StepTensor tensor{node.layer + "." + suffix, shape, DType::f32, TensorRole::parameter, node.layer, -1, initial};
  tensor.decays = decays == Decays::yes;
  return add_parameter(std::move(tensor));
}

int Lowering::weight(const Node& node, const WeightOptions& o, const Shape& shape) {
  const std::string& layer = o.layer.empty() ? node.layer : o.layer;
  const Initial initial = o.initial == InitialWeights::normal  ? Initial::normal
                          : o.initial == InitialWeights::zeros ? Initial::zeros
                          : o.initial == InitialWeights::ones  ? Initial::ones
                                                               : Initial::weight;
  StepTensor tensor{layer + ".weight", shape, DType::f32, TensorRole::parameter, layer, -1, initial};
  if (initial == Initial::normal) tensor.deviation = o.deviation;
  const int id = add_parameter(std::move(tensor));
  if (const Shape& its = at(out_.tensors, id).shape; its != shape)
    throw UserError("\"" + node.layer + "\" shares the weight of \"" + o.layer + "\", whose dims are " + shape_text(its) +
                    "; expected " + shape_text(shape));
  if (node.layer != layer)
    if (auto& others = at(out_.tensors, id).shared_by; std::find(others.begin(), others.end(), node.layer) == others.end())
      others.push_back(node.layer);
  return id;
}

void Lowering::numbers_below(int tensor, Index below, std::optional<Index> ignored) {
  StepTensor& t = at(out_.tensors, tensor);
  if (t.below > 0 && t.ignored != ignored)
    throw UserError("\"" + t.name + "\" is read by ops that ignore different values of it; give each of them its own input");
  t.below = t.below == 0 ? below : std::min(t.below, below);
  t.ignored = ignored;
}

int Lowering::add_parameter(StepTensor tensor) {
  const int id = add(std::move(tensor));
  if (std::find(out_.parameters.begin(), out_.parameters.end(), id) == out_.parameters.end()) out_.parameters.push_back(id);
  wants_.insert(id);
  return id;
}

int Lowering::statistic(const Node& node, const std::string& suffix, const Shape& shape, Initial initial, double momentum) {
  const int id = add({node.layer + "." + suffix, shape, DType::f32, TensorRole::parameter, node.layer, -1, initial});
  if (std::find(out_.parameters.begin(), out_.parameters.end(), id) != out_.parameters.end()) return id;
  out_.parameters.push_back(id);
  if (out_.trains) out_.statistics.push_back({id, momentum});
  return id;
}

int Lowering::inner(const Node& node, const std::string& suffix, const Shape& shape, DType dtype) {
  return add({node.layer + "." + suffix, shape, dtype, TensorRole::activation, node.layer, -1});
}

int Lowering::key(const Node& node, const Shape& shape) {
  return add({node.layer + ".key", shape, DType::i32, TensorRole::key, node.layer, -1});
}

bool Lowering::wants_gradient(int tensor) const {
  return wants_.contains(tensor);
}

int Lowering::gradient(int tensor) {
  const StepTensor& t = at(out_.tensors, tensor);
  const TensorRole role = t.role == TensorRole::parameter ? TensorRole::parameter_gradient : TensorRole::gradient;
  return add({"gradient of " + t.name, t.shape, DType::f32, role, t.layer, tensor});
}

Pass& Lowering::pass(const Node& node, const std::string& what, KernelOp op, PassKind kind) {
  Pass p;
  p.name = node.name + " " + what;
  p.layer = node.layer;
  p.op = op;
  p.kind = kind;
  out_.passes.push_back(std::move(p));
  return out_.passes.back();
}

namespace {
template <class Work>
void in_layer(const Node& node, Work&& work) {
  try {
    work();
  } catch (const UserError& e) {
    throw LayerError(node.layer, e.what());
  }
}
}  // namespace

void Lowering::lower(const GraphNodes& graph, const std::vector<int>& losses) {
  const std::size_t n = graph.nodes.size();
  std::set<int> labels;
  for (const Node& node : graph.nodes)
    if (node.op && node.op->label_input() >= 0) labels.insert(at(node.inputs, node.op->label_input()));
  for (std::size_t i = 0; i < n; i++) {
    if (!needed_[i]) continue;
    const Node& node = graph.nodes[i];
    const TensorRole role = node.op ? TensorRole::activation : labels.contains(node.id) ? TensorRole::label : TensorRole::input;
    values_[i] = add({node.name, node.shape, node.dtype, role, node.layer, -1});
    if (trains_[i]) wants_.insert(values_[i]);
    if (node.op) in_layer(node, [&] { node.op->forward(*this, node); });
  }
  if (losses.empty()) return;
  for (const int loss : losses) {
    const StepTensor last = at(out_.tensors, at(values_, loss));
    add({"gradient of " + last.name, last.shape, DType::f32, TensorRole::seed, last.layer, at(values_, loss)});
  }
  for (std::size_t i = n; i-- > 0;) {
    if (!needed_[i] || !trains_[i]) continue;
    const Node& node = graph.nodes[i];
    if (by_name_.contains("gradient of " + at(out_.tensors, values_[i]).name))
      in_layer(node, [&] { node.op->backward(*this, node); });
  }
}

std::vector<PassIndex> indices_of(const Shape& shape) {
  std::vector<PassIndex> out;
  for (const Dim& d : shape.dims()) out.push_back({d.name, d.size});
  return out;
}

std::vector<int> indices_in(const std::vector<PassIndex>& indices, const Shape& shape) {
  std::vector<int> out;
  for (const Dim& d : shape.dims()) {
    auto found = std::find_if(indices.begin(), indices.end(), [&](const PassIndex& i) { return i.name == d.name; });
    check(found != indices.end(), "a map's operand has only indices of the map");
    out.push_back(static_cast<int>(found - indices.begin()));
  }
  return out;
}

Pass& copy_pass(Lowering& to, const Node& node, const std::string& what, int from, int into, double scale) {
  const Shape source = to.tensor(from).shape, result = to.tensor(into).shape;
  Pass& p = to.pass(node, what, KernelOp::map, PassKind::forward);
  p.indices = indices_of(result);
  for (const Dim& d : source.dims())
    if (!result.has(d.name)) p.indices.push_back({d.name, d.size});
  p.reads = {{from, indices_in(p.indices, source)}};
  p.writes = {into, indices_in(p.indices, result)};
  p.scale = scale;
  return p;
}

Pass& map_pass(Lowering& to, const Node& node, const std::string& what, const std::vector<int>& from, int into, Formula formula,
               double scale) {
  Pass& p = to.pass(node, what, KernelOp::map, PassKind::forward);
  p.indices = indices_of(to.tensor(into).shape);
  for (const int t : from)
    for (const Dim& d : to.tensor(t).shape.dims())
      if (std::none_of(p.indices.begin(), p.indices.end(), [&](const PassIndex& i) { return i.name == d.name; }))
        p.indices.push_back({d.name, d.size});
  for (const int t : from) p.reads.push_back({t, indices_in(p.indices, to.tensor(t).shape)});
  p.writes = {into, indices_in(p.indices, to.tensor(into).shape)};
  p.formula = std::move(formula);
  p.scale = scale;
  const bool keeps = p.writes.indices.size() == p.indices.size();
  if (is_plain_map(p) && keeps && to.tensor(from.front()).dtype != to.tensor(into).dtype) p.formula = converted();
  return p;
}

Formula product() {
  return formula({operand(0) * operand(1)});
}

namespace {

bool is_plain_copy(const Passes& all, const Pass& p) {
  if (!is_plain_map(p) || p.combine != Combine::add) return false;
  const StepTensor &from = at(all.tensors, p.reads[0].tensor), &to = at(all.tensors, p.writes.tensor);
  return from.shape == to.shape && from.dtype == to.dtype;
}

// Writers before readers, otherwise the old order.
void sort_passes(Passes& all) {
  std::vector<Pass>& passes = all.passes;
  std::vector<std::vector<int>> writers(all.tensors.size()), waiting(passes.size());  // of each pass: those that read its result
  for (std::size_t k = 0; k < passes.size(); k++) at(writers, passes[k].writes.tensor).push_back(static_cast<int>(k));
  std::vector<int> before(passes.size(), 0);  // number of passes that must come first
  std::set<int> ready;
  for (std::size_t k = 0; k < passes.size(); k++) {
    std::set<int> first;
    for (const PassOperand& in : passes[k].reads)
      for (int w : at(writers, in.tensor)) first.insert(w);
    first.erase(static_cast<int>(k));
    for (int w : first) at(waiting, w).push_back(static_cast<int>(k));
    before[k] = static_cast<int>(first.size());
    if (before[k] == 0) ready.insert(static_cast<int>(k));
  }
  std::vector<Pass> sorted;
  sorted.reserve(passes.size());
  while (!ready.empty()) {
    const int next = *ready.begin();
    ready.erase(ready.begin());
    sorted.push_back(std::move(at(passes, next)));
    for (int k : at(waiting, next))
      if (--at(before, k) == 0) ready.insert(k);
  }
  check(sorted.size() == passes.size(), "passes have no cycle");
  passes = std::move(sorted);
}

// The readers and writers of each tensor, kept up to date while copies are removed: a deep network has tens of thousands of passes.
class CopyMerger {
 public:
  CopyMerger(Passes& all, const std::vector<std::string>& keep)
      : all_(all), readers_(all.tensors.size()), writers_(all.tensors.size()), gone_(all.passes.size(), false) {
    const std::set<std::string> names(keep.begin(), keep.end());
    for (const StepTensor& t : all.tensors)
      kept_.push_back(names.contains(t.name) || (t.role != TensorRole::activation && t.role != TensorRole::gradient));
    for (int t : all.outputs) at(kept_, t) = true;
    for (std::size_t k = 0; k < all.passes.size(); k++) {
      at(writers_, all.passes[k].writes.tensor).push_back(static_cast<int>(k));
      for (const PassOperand& in : all.passes[k].reads) at(readers_, in.tensor).push_back(static_cast<int>(k));
      if (is_plain_copy(all, all.passes[k])) copies_.push_back(static_cast<int>(k));
    }
  }

  void run() {
    for (std::size_t i = 0; i < copies_.size();) {
      if (!read_source(copies_[i]) && !write_result(copies_[i])) {
        i++;
        continue;
      }
      copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
      i = 0;  // an earlier copy may be removable now
    }
    std::size_t k = 0;
    std::erase_if(all_.passes, [&](const Pass&) { return gone_[k++]; });
  }

 private:
  Pass& pass(int k) { return at(all_.passes, k); }
  void drop(int copy, int source, int result) {
    at(gone_, copy) = true;
    std::erase(at(readers_, source), copy);
    std::erase(at(writers_, result), copy);
  }

  // A copy that is the only writer of its result: the result's readers read its source instead.
  bool read_source(int copy) {
    const int source = pass(copy).reads[0].tensor, result = pass(copy).writes.tensor;
    const StepTensor& tensor = at(all_.tensors, result);
    if (at(writers_, result).size() != 1 || at(kept_, result) ||
        (tensor.role != TensorRole::gradient && at(all_.tensors, source).layer != tensor.layer))
      return false;
    drop(copy, source, result);
    for (int reader : at(readers_, result)) {
      for (PassOperand& in : pass(reader).reads)
        if (in.tensor == result) in.tensor = source;
      at(readers_, source).push_back(reader);
    }
    at(readers_, result).clear();
    return true;
  }

  // A copy that is one of several partial sums: the source's writers write the sum directly.
  bool write_result(int copy) {
    const int source = pass(copy).reads[0].tensor, result = pass(copy).writes.tensor;
    const std::vector<int>& made = at(writers_, source);
    if (at(readers_, source).size() != 1 || at(kept_, source) || made.empty() ||
        !std::all_of(made.begin(), made.end(), [&](int w) { return pass(w).combine == Combine::add; }))
      return false;
    drop(copy, source, result);
    for (int writer : made) {
      pass(writer).writes.tensor = result;
      at(writers_, result).push_back(writer);
    }
    at(writers_, source).clear();
    return true;
  }

  Passes& all_;
  std::vector<std::vector<int>> readers_, writers_;  // per tensor: passes; a pass that reads a tensor twice is listed twice
  std::vector<bool> gone_, kept_{};                  // per pass; per tensor
  std::vector<int> copies_{};                        // passes that copy, in order
};

}  // namespace

void merge_copies(Passes& all, const std::vector<std::string>& keep) {
  CopyMerger(all, keep).run();
  sort_passes(all);
}

}  // namespace motley
