// SPDX-License-Identifier: Apache-2.0
// Nodes -> passes.
#include <algorithm>

#include "base/at.h"
#include "graph/nodes.h"
#include "kernels/value.h"

namespace motley {

int Passes::find(const std::string& name) const {
  for (std::size_t i = 0; i < tensors.size(); i++)
    if (tensors[i].name == name) return static_cast<int>(i);
  return -1;
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
std::string to_text(const Shape& shape) {
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
    throw UserError("accumulate: \"" + node.layer + "\" is over \"" + over +
                    "\", and would see the samples of one micro-batch at a time: another network; take the batch in one piece");
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
    throw UserError("\"" + node.layer + "\" takes the weight of \"" + o.layer + "\", whose dims are " + to_text(its) +
                    "; its own would be " + to_text(shape));
  return id;
}

void Lowering::numbers_below(int tensor, Index below, std::optional<Index> ignored) {
  StepTensor& t = at(out_.tensors, tensor);
  if (t.below > 0 && t.ignored != ignored)
    throw UserError("\"" + t.name + "\" holds numbers of which the ops that read it ignore different ones; give each an input");
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
    if (node.op) node.op->forward(*this, node);
  }
  if (losses.empty()) return;
  for (const int loss : losses) {
    const StepTensor last = at(out_.tensors, at(values_, loss));
    add({"gradient of " + last.name, last.shape, DType::f32, TensorRole::seed, last.layer, at(values_, loss)});
  }
  for (std::size_t i = n; i-- > 0;) {
    if (!needed_[i] || !trains_[i]) continue;
    const Node& node = graph.nodes[i];
    if (by_name_.contains("gradient of " + at(out_.tensors, values_[i]).name)) node.op->backward(*this, node);
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

namespace {

bool is_plain_copy(const Passes& all, const Pass& p) {
  if (!is_plain_map(p) || p.combine != Combine::add) return false;
  const StepTensor &from = at(all.tensors, p.reads[0].tensor), &to = at(all.tensors, p.writes.tensor);
  return from.shape == to.shape && from.dtype == to.dtype;
}

// Writers before readers, otherwise the old order.
void sort_passes(std::vector<Pass>& passes) {
  std::vector<Pass> sorted;
  std::vector<bool> done(passes.size(), false);
  auto ready = [&](const Pass& p) {
    for (std::size_t k = 0; k < passes.size(); k++)
      if (!done[k] && &passes[k] != &p)
        for (const PassOperand& in : p.reads)
          if (in.tensor == passes[k].writes.tensor) return false;
    return true;
  };
  while (sorted.size() < passes.size()) {
    std::size_t next = 0;
    while (next < passes.size() && (done[next] || !ready(passes[next]))) next++;
    check(next < passes.size(), "passes have no cycle");
    done[next] = true;
    sorted.push_back(passes[next]);
  }
  passes = std::move(sorted);
}

}  // namespace

void merge_copies(Passes& all, const std::vector<std::string>& keep) {
  std::vector<Pass>& passes = all.passes;
  auto kept = [&](int t) {
    return std::find(all.outputs.begin(), all.outputs.end(), t) != all.outputs.end() ||
           std::find(keep.begin(), keep.end(), at(all.tensors, t).name) != keep.end() ||
           (at(all.tensors, t).role != TensorRole::activation && at(all.tensors, t).role != TensorRole::gradient);
  };
  auto adds = [&](int t) {  // is it made by passes whose results are added
    const std::vector<int> writers = all.writers_of(t);
    return !writers.empty() &&
           std::all_of(writers.begin(), writers.end(), [&](int w) { return at(passes, w).combine == Combine::add; });
  };
  for (std::size_t i = 0; i < passes.size();) {
    if (!is_plain_copy(all, passes[i])) {
      i++;
      continue;
    }
    const int source = passes[i].reads[0].tensor, result = passes[i].writes.tensor;
    std::size_t readers = 0;
    for (const Pass& q : passes)
      for (const PassOperand& in : q.reads) readers += in.tensor == source ? 1U : 0U;
    const auto& result_tensor = at(all.tensors, result);
    const bool same_layer = at(all.tensors, source).layer == result_tensor.layer;
    if (all.writers_of(result).size() == 1 && !kept(result) && (result_tensor.role == TensorRole::gradient || same_layer)) {
      // A lone copy: read its source instead.
      passes.erase(passes.begin() + static_cast<std::ptrdiff_t>(i));
      for (Pass& q : passes)
        for (PassOperand& in : q.reads)
          if (in.tensor == result) in.tensor = source;
    } else if (readers == 1 && !kept(source) && adds(source)) {
      // One of several partial sums: the source's writers write the sum directly.
      passes.erase(passes.begin() + static_cast<std::ptrdiff_t>(i));
      for (Pass& q : passes)
        if (q.writes.tensor == source) q.writes.tensor = result;
    } else {
      i++;
      continue;
    }
    i = 0;
  }
  sort_passes(passes);
}

}  // namespace motley
