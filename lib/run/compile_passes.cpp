// SPDX-License-Identifier: Apache-2.0
// Passes -> kernels.
#include <motley/error.h>

#include <algorithm>
#include <numeric>

#include "kernels/operands.h"
#include "run/compiler.h"

namespace motley {

namespace {

bool overlap(const Box& a, const Box& b) { return volume(intersect(a, b)) > 0; }

View reordered(const View& v, const std::vector<int>& order) {
  View out{v.buffer, v.element, {}, {}};
  for (int d : order) {
    out.strides.push_back(d < 0 ? 0 : v.strides[static_cast<std::size_t>(d)]);
    out.extents.push_back(d < 0 ? 1 : v.extents[static_cast<std::size_t>(d)]);
  }
  return out;
}

}  // namespace

int Compiler::writer_index(int p) const {
  const auto& all = writers_[static_cast<std::size_t>(pass(p).writes.tensor)];
  return static_cast<int>(std::find(all.begin(), all.end(), p) - all.begin());
}

// Copies and broadcasts that are one of several terms, or that feed messages, are read where their source lies.
bool Compiler::is_view(int p) const { return motley::is_view(pass(p)); }

bool Compiler::direct(int p) {
  if (auto known = direct_.find(p); known != direct_.end()) return known->second;
  bool& answer = direct_[p];
  answer = false;
  const Pass& it = pass(p);
  const TensorPlan& plan = plan_of(it.writes.tensor);
  const Box mine = operand_box(it.writes, work_of(p).box);
  const int k = writer_index(p), bias = bias_of(p);
  std::vector<int> whole{k};
  if (bias >= 0) whole.push_back(writer_index(bias));
  std::sort(whole.begin(), whole.end());
  bool good = plan.leaves_in_blocks == 0;
  for (const BoxMessage& m : plan.first) {
    const bool has = std::find(m.writers.begin(), m.writers.end(), k) != m.writers.end();
    if (m.from == rank_) good = good && (has ? m.writers == whole : !overlap(m.box, mine));  // another writer's term lies apart
    if (m.to == rank_ && overlap(m.box, mine)) good = good && m.from == rank_ && has;
  }
  if (together_at(it.writes.tensor).home >= 0 || plan.arrives_in_blocks > 0)  // what others write there is not overwritten
    good = good && std::any_of(plan.tiles.begin(), plan.tiles.end(), [&](const Held& tile) { return tile.rank == rank_ && contains(tile.box, mine); });
  return direct_[p] = good;
}

int Compiler::bias_of(int p) {
  const Pass& it = pass(p);
  if (it.kind != PassKind::forward || (it.op != KernelOp::conv2d && it.op != KernelOp::dense)) return -1;
  const auto& writers = writers_[static_cast<std::size_t>(it.writes.tensor)];
  if (writers.size() != 2) return -1;
  const int other = writers[0] == p ? writers[1] : writers[0];
  if (!is_view(other) || !works(other) || tensor(pass(other).reads[0].tensor).role != TensorRole::parameter) return -1;
  const Box mine = operand_box(it.writes, work_of(p).box);
  if (!contains(operand_box(pass(other).writes, work_of(other).box), mine)) return -1;
  std::vector<int> both{writer_index(p), writer_index(other)};
  std::sort(both.begin(), both.end());
  for (const BoxMessage& m : plan_of(it.writes.tensor).first) {
    if (m.from == rank_ && m.writers != both) return -1;
    if (m.to == rank_ && m.from != rank_ && overlap(m.box, mine)) return -1;
  }
  return other;
}

int Compiler::activation_after(int t, const Box& box) {
  const auto& readers = readers_[static_cast<std::size_t>(t)];
  if (readers.size() != 1 || std::find(all_.outputs.begin(), all_.outputs.end(), t) != all_.outputs.end()) return -1;
  const int p = readers.front();
  const Pass& it = pass(p);
  if (it.op != KernelOp::fold || it.fold != FoldKind::activation || !works(p)) return -1;
  if (operand_box(it.reads[0], work_of(p).box) != box || operand_box(it.writes, work_of(p).box) != box || !direct(p)) return -1;
  const TensorPlan& plan = plan_of(t);
  for (const auto* hop : {&plan.second, &plan.third})
    for (const BoxMessage& m : *hop)
      if (m.from != m.to && (m.from == rank_ || m.to == rank_)) return -1;
  return p;
}

View Compiler::output_view(int p, const Box& box) {
  const Pass& it = pass(p);
  const int t = it.writes.tensor;
  if (direct(p)) return main_view(t, box);
  std::vector<Contribution>& terms = terms_[p];
  if (terms.empty())
    for (const Box& b : plan_of(t).leaves_in_blocks > 0 ? leaving_blocks(data_, p, rank_) : std::vector<Box>{operand_box(it.writes, work_of(p).box)})
      terms.push_back({b, fresh_view("partial sum of " + it.name, t, b)});
  const auto at = std::find_if(terms.begin(), terms.end(), [&](const Contribution& c) { return contains(c.box, box); });
  check(at != terms.end(), "a part of a result lies in one of its blocks");
  return view_of(out_.buffers[static_cast<std::size_t>(at->view.buffer)], at->view.buffer, box);
}

void Compiler::emit_kernel(KernelSpec spec, std::vector<Place> operands, const std::string& name, bool moves) {
  enter(operands.back().buffer);
  out_.steps.push_back({RunKernel{std::move(spec), std::move(operands), name, moves}});
}

void Compiler::emit_copy(const View& from, const View& to, DType dtype, const std::string& name) {
  emit_kernel(fold_of(FoldKind::copy, dtype, {from, to}), {{from.buffer, from.element}, {to.buffer, to.element}}, name, true);
}

bool Compiler::is_aligned(const View& view) const {
  const Index at = view.element * static_cast<Index>(bytes_of(out_.buffers[static_cast<std::size_t>(view.buffer)].dtype));
  return !data_.on_device[static_cast<std::size_t>(rank_)] || at % kDeviceAlignment == 0;
}

Place Compiler::dense(const View& view, const std::vector<int>& order, Format format, const std::string& name) {
  const View v = reordered(view, order);
  if (is_dense(v, format) && is_aligned(v)) return {v.buffer, v.element};
  const DType dtype = out_.buffers[static_cast<std::size_t>(v.buffer)].dtype;
  const int made = temp("dense " + name, dtype, v.extents, format);
  emit_copy(v, dense_view(made, format, v.extents), dtype, "reorder for " + name);
  return {made, 0};
}

std::pair<Place, View> Compiler::dense_result(const View& view, const std::vector<int>& order, Format format, const std::string& name) {
  const View v = reordered(view, order);
  if (is_dense(v, format) && is_aligned(v)) return {{v.buffer, v.element}, View{}};
  const int made = temp("dense " + name, data_.dtype, v.extents, format);
  return {{made, 0}, dense_view(made, format, v.extents)};
}

void Compiler::emit_pass(int p) {
  const Pass& it = pass(p);
  const int t = it.writes.tensor;
  const Box box = operand_box(it.writes, work_of(p).box);
  const bool takes = (it.op == KernelOp::conv2d || it.op == KernelOp::dense) && it.kind == PassKind::forward;
  const int bias = takes ? bias_of(p) : -1;
  if (bias >= 0) taken_.insert(bias);
  const std::vector<BoxMessage>& sums = plan_of(t).first;
  const bool local = std::none_of(sums.begin(), sums.end(), [&](const BoxMessage& m) { return m.from != m.to && (m.from == rank_ || m.to == rank_); });
  const bool alone = bias >= 0 || writers_[static_cast<std::size_t>(t)].size() == 1;
  const int next = takes && alone && local && direct(p) ? activation_after(t, box) : -1;
  if (next >= 0) {
    taken_.insert(next);
    inside_.insert(t);
  }
  const auto parts = parts_of(data_, p, rank_);
  check(parts.has_value(), "blocks end where kernels can be cut");
  for (const WorkPart& part : *parts) emit_part(p, part, bias, next);
}

// One part, or all of a pass: the bias goes with the first, the activation with the last of those that are added to one result.
void Compiler::emit_part(int p, const WorkPart& part, int bias, int next) {
  const Pass& it = pass(p);
  const int t = next >= 0 ? pass(next).writes.tensor : it.writes.tensor;
  const Box box = operand_box(it.writes, part.box);
  std::vector<View> views;
  for (const PassOperand& o : it.reads) views.push_back(main_view(o.tensor, operand_box(o, part.box)));
  const View result = next >= 0 ? main_view(t, box) : output_view(p, box);
  KernelSpec spec = kernel_of(all_, it, part.box, data_.dtype, data_.formats);
  if (next >= 0) spec.y_format = format_of(t);
  View bias_view;
  if (bias >= 0 && part.first) {
    const Pass& b = pass(bias);
    Box of;  // the bias's dims inside this part's result
    for (int i : b.reads[0].indices) {
      auto at = std::find(b.writes.indices.begin(), b.writes.indices.end(), i);
      of.push_back(box[static_cast<std::size_t>(at - b.writes.indices.begin())]);
    }
    bias_view = main_view(b.reads[0].tensor, of);
    spec.bias = true;
  }
  const bool adds = !part.first, inside = it.op == KernelOp::conv2d && it.kind == PassKind::forward && is_dense(result, format_of(t)) && is_aligned(result) &&
                                          !data_.on_device[static_cast<std::size_t>(rank_)];
  const Activation activation = next >= 0 && part.last ? pass(next).activation : Activation::none;
  spec.accumulate = adds && inside;
  if (!adds || inside) spec.activation = next >= 0 ? activation : spec.activation;
  views.push_back(!adds || inside ? result : fresh_view("block of " + it.name, t, box));
  const View made = views.back(), *b = spec.bias ? &bias_view : nullptr;
  if (!it.ties.empty())
    emit_ties(p, views);
  else if (it.op == KernelOp::fold)
    emit_fold(p, part.box, views);
  else if (it.op == KernelOp::dense)
    emit_dense(p, std::move(spec), views, b);
  else
    emit_window(p, std::move(spec), views, b);
  if (made.buffer == result.buffer) return;
  KernelSpec add = fold_of(FoldKind::add, dtype_of(t), {result, made, result});
  add.activation = activation;
  emit_kernel(std::move(add), {{result.buffer, result.element}, {made.buffer, made.element}, {result.buffer, result.element}}, "blocks of " + it.name);
}

void Compiler::emit_fold(int p, const std::vector<Range>& work, const std::vector<View>& views) {
  const Pass& it = pass(p);
  std::vector<std::vector<int>> dims;
  for (const PassOperand& o : it.reads) dims.push_back(o.indices);
  dims.push_back(it.writes.indices);
  std::vector<Place> places;
  for (const View& v : views) places.push_back({v.buffer, v.element});
  KernelSpec spec = kernel_of(all_, it, work, data_.dtype, data_.formats);
  lay_along(spec, views, dims);
  emit_kernel(std::move(spec), std::move(places), it.name);
}

void Compiler::emit_window(int p, KernelSpec spec, const std::vector<View>& views, const View* bias) {
  const Pass& it = pass(p);
  std::vector<PassOperand> operands = it.reads;
  operands.push_back(it.writes);
  // Dims of an operand in the order of its roles: x[n c h w], w[f c r s], y[n f p q] (pools: y[n c p q]).
  auto order = [&](const PassOperand& o) {
    const auto& role = it.roles;
    auto has = [&](int index) { return index >= 0 && std::find(o.indices.begin(), o.indices.end(), index) != o.indices.end(); };
    std::vector<int> roles;
    if (has(role[5]))
      roles = {role[4], role[1], role[5], role[6]};
    else if (has(role[2]))
      roles = {role[0], role[1], role[2], role[3]};
    else if (role.size() > 9 && has(role[9]))
      roles = {role[0], role[1], role[9], role[10]};
    else
      roles = {role[0], role[4] >= 0 ? role[4] : role[1], role[7], role[8]};
    std::vector<int> dims;
    for (int r : roles) {
      auto at = std::find(o.indices.begin(), o.indices.end(), r);
      dims.push_back(r < 0 || at == o.indices.end() ? -1 : static_cast<int>(at - o.indices.begin()));
    }
    return dims;
  };
  const std::vector<OperandUse> uses = operands_of(spec);  // a bias behind what is read
  std::vector<Place> places;
  for (std::size_t k = 0; k + 1 < operands.size(); k++)
    places.push_back(dense(views[k], order(operands[k]), uses[k].format, it.name));
  if (bias != nullptr) places.push_back(dense(*bias, {0}, Format::plain, it.name));
  const std::vector<int> result_order = order(operands.back());
  const auto [place, made] = dense_result(views.back(), result_order, uses.back().format, it.name);
  places.push_back(place);
  emit_kernel(std::move(spec), std::move(places), it.name);
  if (made.buffer >= 0) emit_copy(made, reordered(views.back(), result_order), data_.dtype, "reorder after " + it.name);
}

void Compiler::emit_dense(int p, KernelSpec spec, const std::vector<View>& views, const View* bias) {
  const Pass& it = pass(p);
  // Positions among (reads.., writes) of x, w, y.
  const std::size_t x = it.kind == PassKind::backward_data ? 2 : 0, w = it.kind == PassKind::backward_filter ? 2 : 1, y = 3 - x - w;
  std::vector<PassOperand> operands = it.reads;
  operands.push_back(it.writes);
  // Indices of `of` that `also` has, outermost in `of`'s memory first.
  auto shared = [&](std::size_t of, std::size_t also) {
    std::vector<int> out;
    for (int i : operands[of].indices)
      if (const auto& a = operands[also].indices; std::find(a.begin(), a.end(), i) != a.end()) out.push_back(i);
    auto stride = [&](int index) {
      const auto& all = operands[of].indices;
      return views[of].strides[static_cast<std::size_t>(std::find(all.begin(), all.end(), index) - all.begin())];
    };
    std::stable_sort(out.begin(), out.end(), [&](int a, int b) { return stride(a) > stride(b); });
    return out;
  };
  const std::vector<int> kept = shared(x, y), contracted = shared(x, w), made = shared(w, y);
  auto order = [&](std::size_t k) {
    std::vector<int> indices = k == w ? made : kept, dims;
    const std::vector<int>& tail = k == y ? made : contracted;
    indices.insert(indices.end(), tail.begin(), tail.end());
    for (int i : indices)
      dims.push_back(static_cast<int>(std::find(operands[k].indices.begin(), operands[k].indices.end(), i) - operands[k].indices.begin()));
    return dims;
  };
  std::vector<Place> places;
  for (std::size_t k = 0; k < 2; k++) places.push_back(dense(views[k], order(k), Format::plain, it.name));
  if (bias != nullptr) {  // the made indices in the order chosen for w
    const Pass& b = pass(bias_of(p));
    std::vector<int> dims;
    for (int i : made) {
      const std::string& name = it.indices[static_cast<std::size_t>(i)].name;
      for (std::size_t d = 0; d < b.reads[0].indices.size(); d++)
        if (b.indices[static_cast<std::size_t>(b.reads[0].indices[d])].name == name) dims.push_back(static_cast<int>(d));
    }
    places.push_back(dense(*bias, dims, Format::plain, it.name));
  }
  const auto [place, result] = dense_result(views[2], order(2), Format::plain, it.name);
  places.push_back(place);
  emit_kernel(std::move(spec), std::move(places), it.name);
  if (result.buffer >= 0) emit_copy(result, reordered(views[2], order(2)), data_.dtype, "reorder after " + it.name);
}

void Compiler::emit_updates() {
  for (std::size_t i = 0; i < out_.slices.size(); i++) {
    Slice& s = out_.slices[i];
    const auto at = std::find(all_.parameters.begin(), all_.parameters.end(), s.tensor) - all_.parameters.begin();
    const int gradient = all_.parameter_gradients[static_cast<std::size_t>(at)];
    const View g = main_view(gradient, s.box);
    std::vector<int> order(s.box.size());
    std::iota(order.begin(), order.end(), 0);
    const Place place = dense(g, order, s.box.size() < 3 ? Format::plain : format_of(s.tensor), "update of " + s.name);
    out_.slices[i].gradient = g.buffer;
    emit_kernel(sgd_kernel(std::get<Sgd>(all_.optimizer), volume(out_.slices[i].box), data_.dtype), {place, {out_.slices[i].velocity, 0}, {out_.slices[i].value, 0}},
                "update of " + out_.slices[i].name);
  }
}

}  // namespace motley
