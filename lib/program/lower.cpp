// SPDX-License-Identifier: Apache-2.0
// Passes -> kernels, and the points where tensors move.
#include "program/lowerer.h"

#include <motley/error.h>

#include <algorithm>
#include <numeric>

#include "graph/gradient_sum.h"
#include "graph/update_form.h"
#include "kernels/operands.h"
#include "program/compile.h"

namespace motley {

namespace {

View reordered(const View& v, const std::vector<int>& order) {
  View out{v.buffer, v.element, {}, {}};
  for (int d : order) {
    out.strides.push_back(d < 0 ? 0 : at(v.strides, d));
    out.extents.push_back(d < 0 ? 1 : at(v.extents, d));
  }
  return out;
}

}  // namespace

Draft lower(const LocalPlan& plan, Fusions* fusions) {
  Draft draft(plan);
  draft.fusions = fusions;
  Lowerer(draft).run();
  return draft;
}

void Lowerer::run() {
  const auto count = static_cast<int>(plan_.passes().passes.size());
  std::set<int> filled;  // parameters
  for (int p = 0; p < count; p++) {
    draft_.turn = p;
    const int t = plan_.pass(p).writes.tensor;
    for (int w : plan_.writers(t))  // on some ranks the kernel adds its bias itself: it comes before the kernel on all
      for (const PassOperand& o : plan_.pass(w).reads)
        if ((w == p || plan_.is_view(w)) && plan_.tensor(o.tensor).role == TensorRole::parameter && filled.insert(o.tensor).second)
          if (const MovedTogether* m = plan_.together(o.tensor); m == nullptr || m->tensors.front() == o.tensor) {
            draft_.once = plan_.once(o.tensor);
            emit_move({.tensors = {o.tensor}, .only_fill = true}, m);
          }
    draft_.once = plan_.once(t);
    draft_.pass = p;
    if (plan_.works(p) && !fused_.contains(p) && !plan_.is_view(p)) emit_pass(p);
    draft_.pass = -1;
    if (plan_.writers(t).back() != p) continue;
    if (const MovedTogether* m = plan_.together(t); m == nullptr || m->tensors.back() == t)
      emit_move({.tensors = {t}, .inside_kernel = inside_.contains(t)}, m);
  }
  draft_.turn = count;
  draft_.once = false;
  if (plan_.passes().trains) emit_updates();
}

void Lowerer::emit_move(Move move, const MovedTogether* together) {
  if (together != nullptr) move.tensors = together->tensors;
  draft_.add(std::move(move));
}

Place Lowerer::dense(const View& view, const std::vector<int>& order, Format format, const std::string& name) {
  const View v = reordered(view, order);
  if (is_dense(v, format) && draft_.is_aligned(v)) return {v.buffer, v.element};
  const DType dtype = draft_.buffer(v.buffer).dtype;
  const int made = draft_.temporary("dense " + name, dtype, v.extents, format);
  draft_.copy(v, dense_view(made, format, v.extents), "reorder for " + name);
  return {made, 0};
}

std::pair<Place, View> Lowerer::dense_result(const View& view, const std::vector<int>& order, Format format,
                                             const std::string& name) {
  const View v = reordered(view, order);
  if (is_dense(v, format) && draft_.is_aligned(v)) return {{v.buffer, v.element}, View{}};
  const int made = draft_.temporary("dense " + name, draft_.buffer(v.buffer).dtype, v.extents, format);
  return {{made, 0}, dense_view(made, format, v.extents)};
}

void Lowerer::emit_pass(int p) {
  const Pass& it = plan_.pass(p);
  const int t = it.writes.tensor;
  const Box box = operand_box(it.writes, plan_.work_of(p).box);
  if (const auto early = made_early_.find(p); early != made_early_.end())  // the place that other ranks read is free now
    return draft_.copy(early->second, draft_.output_view(p, box), "made early: " + it.name);
  const bool takes = (it.op == KernelOp::conv2d || it.op == KernelOp::dense) && it.kind == PassKind::forward;
  const int bias = takes ? plan_.bias_of(p) : -1;
  if (bias >= 0) fused_.insert(bias);
  const auto sums = plan_.messages_of(t, 0);
  const bool local = std::all_of(sums.begin(), sums.end(), [](const BoxMessage* m) { return m->from == m->to; });
  const bool alone = bias >= 0 || plan_.writers(t).size() == 1;
  const auto parts = parts_of(plan_.data(), p, plan_.rank());
  check(parts.has_value(), "tiles end where kernels can be cut");
  int next = takes && alone && local && plan_.direct(p) ? plan_.activation_after(t, box) : -1;
  if (next >= 0 && plan_.dtype_of(plan_.pass(next).writes.tensor) != plan_.dtype_of(t)) next = -1;
  if (next >= 0 && parts->size() == 1 && !takes_epilogue(p, parts->front(), bias, next)) next = -1;
  if (next >= 0) {
    fused_.insert(next);
    inside_.insert(t);
  }
  for (const WorkPart& part : *parts) emit_part(p, part, bias, next);
}

// This pass of attention and the following ones that make other results of the same operands.
std::vector<int> Lowerer::made_with(int p) const {
  const MadeTogether all = made_together(plan_.passes(), p);
  const auto whole = [&](int pass) { return parts_of(plan_.data(), pass, plan_.rank())->size() == 1; };
  std::vector<int> out{p};
  for (int next = p + 1; next < all.first + all.count && whole(p); next++)
    if (plan_.works(next) && plan_.work_of(next).box == plan_.work_of(p).box && whole(next)) out.push_back(next);
  return out;
}

// False: the plan keeps the activation as a separate kernel.
bool Lowerer::takes_epilogue(int p, const WorkPart& whole, int bias, int next) {
  const Pass& activation = plan_.pass(next);
  KernelSpec spec = kernel_of(plan_.passes(), plan_.pass(p), whole.box, plan_.data().dtype, plan_.data().formats);
  spec.y_format = plan_.format_of(activation.writes.tensor);
  spec.bias = bias >= 0;
  Fusion fusion{{spec},
                {spec, kernel_of(plan_.passes(), activation, plan_.work_of(next).box, plan_.data().dtype, plan_.data().formats)}};
  fusion.fused[0].epilogue = activation.formula;
  if (is_apart(plan_.data(), plan_.rank(), fusion.fused[0], draft_.fusions)) return false;
  return draft_.fusions == nullptr || draft_.fusions->take(std::move(fusion));
}

// One part, or all, of a pass: the bias is added with the first part, the activation applied with the last of those that are added
// to one result.
void Lowerer::emit_part(int p, const WorkPart& part, int bias, int next) {
  const Pass& it = plan_.pass(p);
  const int t = next >= 0 ? plan_.pass(next).writes.tensor : it.writes.tensor;
  const Box box = operand_box(it.writes, part.box);
  std::vector<View> views;
  for (const PassOperand& o : it.reads) views.push_back(draft_.view(o.tensor, Stored::As::reader, operand_box(o, part.box)));
  const View result = next >= 0 ? draft_.view(t, Stored::As::made, box) : draft_.output_view(p, box);
  KernelSpec spec = kernel_of(plan_.passes(), it, part.box, plan_.data().dtype, plan_.data().formats);
  if (next >= 0) spec.y_format = plan_.format_of(t);
  View bias_view;
  if (bias >= 0 && part.first) {
    const Pass& b = plan_.pass(bias);
    Box of;  // the bias's dims inside this part's result
    for (int i : b.reads[0].indices) {
      auto found = std::find(b.writes.indices.begin(), b.writes.indices.end(), i);
      of.push_back(at(box, found - b.writes.indices.begin()));
    }
    bias_view = draft_.view(b.reads[0].tensor, Stored::As::reader, of);
    spec.bias = true;
  }
  const bool adds = !part.first, inside = it.op == KernelOp::conv2d && it.kind == PassKind::forward &&
                                          is_dense(result, plan_.format_of(t)) && draft_.is_aligned(result) && !plan_.on_device();
  const Formula epilogue = next >= 0 && part.last ? plan_.pass(next).formula : Formula{};
  spec.accumulate = adds && inside;
  if (!adds || inside) spec.epilogue = epilogue;
  views.push_back(!adds || inside ? result : draft_.fresh_view("tile of " + it.name, t, box));
  const View made = views.back(), *b = spec.bias ? &bias_view : nullptr;
  if (!it.index_maps.empty())
    emit_index_maps(p, views);
  else if (it.op == KernelOp::map)
    emit_map(p, part.box, views);
  else if (it.op == KernelOp::dense)
    emit_dense(p, std::move(spec), views, b);
  else if (it.op == KernelOp::attention) {
    const std::vector<int> passes = made_with(p);
    for (std::size_t k = 1; k < passes.size(); k++) {
      const Pass& other = plan_.pass(passes[k]);
      spec.made |= other.made;
      const Box made_box = operand_box(other.writes, part.box);
      const bool shown = plan_.shared(other.writes.tensor).is_shared();
      views.push_back(shown ? draft_.fresh_view(other.name + " made early", other.writes.tensor, made_box)
                            : draft_.output_view(passes[k], made_box));
      shown ? static_cast<void>(made_early_.emplace(passes[k], views.back())) : static_cast<void>(fused_.insert(passes[k]));
    }
    emit_attention(passes, std::move(spec), views);
  } else
    emit_window(p, std::move(spec), views, b);
  if (made.buffer == result.buffer) return;
  KernelSpec add = sum_of(plan_.dtype_of(t), {result, made, result});
  add.formula = epilogue;
  draft_.kernel(std::move(add), {{result.buffer, result.element}, {made.buffer, made.element}, {result.buffer, result.element}},
                "tiles of " + it.name);
}

void Lowerer::emit_map(int p, const Box& work, const std::vector<View>& views) {
  const Pass& it = plan_.pass(p);
  std::vector<std::vector<int>> dims;
  for (const PassOperand& o : it.reads) dims.push_back(o.indices);
  dims.push_back(it.writes.indices);
  std::vector<Place> places;
  for (const View& v : views) places.push_back({v.buffer, v.element});
  KernelSpec spec = kernel_of(plan_.passes(), it, work, plan_.data().dtype, plan_.data().formats);
  lay_along(spec, views, dims);
  draft_.kernel(std::move(spec), std::move(places), it.name);
}

void Lowerer::emit_window(int p, KernelSpec spec, const std::vector<View>& views, const View* bias) {
  const Pass& it = plan_.pass(p);
  std::vector<PassOperand> operands = it.reads;
  operands.push_back(it.writes);
  // Dims of an operand in the order of its roles: x[n c h w], w[f c r s], y[n f p q] (pools: y[n c p q]).
  auto order = [&](const PassOperand& o) {
    const auto& role = it.roles;
    auto has = [&](int index) { return index >= 0 && std::find(o.indices.begin(), o.indices.end(), index) != o.indices.end(); };
    std::vector<int> roles;
    if (has(role[5]))
      roles = {role[4], channel_window(it) != nullptr ? role[9] : role[1], role[5], role[6]};
    else if (has(role[2]))
      roles = {role[0], role[1], role[2], role[3]};
    else if (role.size() > 9 && has(role[9]))
      roles = {role[0], role[1], role[9], role[10]};
    else
      roles = {role[0], role[4] >= 0 ? role[4] : role[1], role[7], role[8]};
    std::vector<int> dims;
    for (int r : roles) {
      auto found = std::find(o.indices.begin(), o.indices.end(), r);
      dims.push_back(r < 0 || found == o.indices.end() ? -1 : static_cast<int>(found - o.indices.begin()));
    }
    return dims;
  };
  const std::vector<OperandUse> uses = operands_of(spec);  // the bias comes after the other inputs
  std::vector<Place> places;
  for (std::size_t k = 0; k + 1 < operands.size(); k++)
    places.push_back(dense(views[k], order(operands[k]), uses[k].format, it.name));
  if (bias != nullptr) places.push_back(dense(*bias, {0}, Format::plain, it.name));
  const std::vector<int> result_order = order(operands.back());
  const auto [place, made] = dense_result(views.back(), result_order, uses.back().format, it.name);
  places.push_back(place);
  draft_.kernel(std::move(spec), std::move(places), it.name);
  if (made.buffer >= 0) draft_.copy(made, reordered(views.back(), result_order), "reorder after " + it.name);
}

void Lowerer::emit_dense(int p, KernelSpec spec, const std::vector<View>& views, const View* bias) {
  const Pass& it = plan_.pass(p);
  // Positions among (reads.., writes) of x, w, y.
  const std::size_t x = it.kind == PassKind::backward_data ? 2 : 0, w = it.kind == PassKind::backward_filter ? 2 : 1, y = 3 - x - w;
  std::vector<PassOperand> operands = it.reads;
  operands.push_back(it.writes);
  auto has = [&](std::size_t k, int index) {
    const auto& a = operands[k].indices;
    return std::find(a.begin(), a.end(), index) != a.end();
  };
  // Indices of `of` that `also` has, and that the third operand has or does not have (by_third), outermost in `of`'s memory first.
  auto shared = [&](std::size_t of, std::size_t also, bool by_third) {
    std::vector<int> out;
    for (int i : operands[of].indices)
      if (has(also, i) && has(3 - of - also, i) == by_third) out.push_back(i);
    auto stride = [&](int index) {
      const auto& all = operands[of].indices;
      return at(views[of].strides, std::find(all.begin(), all.end(), index) - all.begin());
    };
    std::stable_sort(out.begin(), out.end(), [&](int a, int b) { return stride(a) > stride(b); });
    return out;
  };
  const std::vector<int> batch = shared(x, y, true), kept = shared(x, y, false), contracted = shared(x, w, false),
                         made = shared(w, y, false);
  auto order = [&](std::size_t k) {
    std::vector<int> indices = batch, dims;
    for (const std::vector<int>& more : {k == w ? made : kept, k == y ? made : contracted})
      indices.insert(indices.end(), more.begin(), more.end());
    for (int i : indices)
      dims.push_back(
          static_cast<int>(std::find(operands[k].indices.begin(), operands[k].indices.end(), i) - operands[k].indices.begin()));
    return dims;
  };
  std::vector<Place> places;
  for (std::size_t k = 0; k < 2; k++) places.push_back(dense(views[k], order(k), Format::plain, it.name));
  if (bias != nullptr) {  // the made indices in the order chosen for w
    const Pass& b = plan_.pass(plan_.bias_of(p));
    std::vector<int> dims;
    for (int i : made) {
      const std::string& name = at(it.indices, i).name;
      for (std::size_t d = 0; d < b.reads[0].indices.size(); d++)
        if (at(b.indices, b.reads[0].indices[d]).name == name) dims.push_back(static_cast<int>(d));
    }
    places.push_back(dense(*bias, dims, Format::plain, it.name));
  }
  const auto [place, result] = dense_result(views[2], order(2), Format::plain, it.name);
  places.push_back(place);
  draft_.kernel(std::move(spec), std::move(places), it.name);
  if (result.buffer >= 0) draft_.copy(result, reordered(views[2], order(2)), "reorder after " + it.name);
}

// views: what the passes read, then their results.
void Lowerer::emit_attention(const std::vector<int>& passes, KernelSpec spec, const std::vector<View>& views) {
  const Pass& it = plan_.pass(passes.front());
  std::vector<int> rows;
  for (int i : it.reads[0].indices)
    if (i != it.roles[0] && i != it.roles[2]) rows.push_back(i);
  const int heads = rows.back(), head = it.roles[2];
  rows.pop_back();
  // Dims of an operand: batch, queries or keys, heads, the size of a head; operands without the last one have heads before queries.
  const auto order = [&](const PassOperand& o) {
    std::vector<int> dims;
    const auto take = [&](int index) {
      const auto found = std::find(o.indices.begin(), o.indices.end(), index);
      if (found != o.indices.end()) dims.push_back(static_cast<int>(found - o.indices.begin()));
    };
    for (int i : rows) take(i);
    const bool has_head = std::find(o.indices.begin(), o.indices.end(), head) != o.indices.end();
    if (!has_head) take(heads);
    for (int i : {it.roles[0], it.roles[1]}) take(i);
    if (has_head) take(heads), take(head);
    return dims;
  };
  std::vector<Place> places;
  for (std::size_t k = 0; k < it.reads.size(); k++) places.push_back(dense(views[k], order(it.reads[k]), Format::plain, it.name));
  std::vector<std::pair<View, View>> copies;
  for (std::size_t k = 0; k < passes.size(); k++) {
    const View& result = views[it.reads.size() + k];
    const std::vector<int> dims = order(plan_.pass(passes[k]).writes);
    const auto [place, made] = dense_result(result, dims, Format::plain, it.name);
    places.push_back(place);
    if (made.buffer >= 0) copies.emplace_back(made, reordered(result, dims));
  }
  draft_.kernel(std::move(spec), std::move(places), it.name);
  for (const auto& [from, to] : copies) draft_.copy(from, to, "reorder after " + it.name);
}

void Lowerer::emit_updates() {
  std::vector<Slice>& slices = draft_.program.slices;
  const DType dtype = plan_.data().dtype;
  struct Gradient {
    View where{};   // as the passes made it
    Place dense{};  // only the slice: in place, or a copy
  };
  std::vector<Gradient> gradients;
  auto format_of = [&](const Slice& s) { return s.box.size() < 3 ? Format::plain : plan_.format_of(s.tensor); };
  draft_.turn = plan_.sum_turn();
  for (Slice& s : slices) {
    const auto found =
        std::find(plan_.passes().parameters.begin(), plan_.passes().parameters.end(), s.tensor) - plan_.passes().parameters.begin();
    const int gradient = at(plan_.passes().parameter_gradients, found);
    if (gradient < 0) {  // frozen
      gradients.emplace_back();
      continue;
    }
    const View g = draft_.view(gradient, Stored::As::reader, s.box);
    std::vector<int> order(s.box.size());
    std::iota(order.begin(), order.end(), 0);
    gradients.push_back({g, dense(g, order, format_of(s), "update of " + s.name)});
    s.gradient = g.buffer;
    const Statistic* statistic = plan_.passes().statistic(s.tensor);
    if (s.sum >= 0 && !(statistic != nullptr && statistic->momentum == 0))  // else its sum is 0
      draft_.kernel(elements_kernel(statistic != nullptr ? add_value(statistic->momentum) : add_gradient(), dtype, volume(s.box),
                                    {DType::f64, dtype, DType::f64}),
                    {{s.sum, 0}, gradients.back().dense, {s.sum, 0}}, "sum of the gradients of " + s.name, Purpose::update);
  }
  draft_.turn = plan_.combine_turn();
  for (std::size_t i = 0; i < slices.size(); i++) {
    const Slice& s = slices[i];
    const auto& [where, place] = gradients[i];
    if (s.sum >= 0) {
      draft_.kernel(elements_kernel(take_gradient(), dtype, volume(s.box), {DType::f64, DType::f64, dtype}),
                    {{s.sum, 0}, {s.sum, 0}, place}, "gradient of " + s.name, Purpose::update);
      if (place.buffer != where.buffer)  // for readers of gradients
        draft_.copy(dense_view(place.buffer, format_of(s), where.extents), where, "gradient of " + s.name);
    }
    if (plan_.passes().clips) draft_.program.norms.push_back(plan_.passes().is_trained(s.tensor) ? norm_of(s, place) : -1);
  }
  draft_.turn = plan_.update_turn();
  for (std::size_t i = 0; i < slices.size(); i++) {
    const Slice& s = slices[i];
    if (const Statistic* statistic = plan_.passes().statistic(s.tensor))
      emit_moved(s, *statistic, gradients[i].dense);
    else if (s.gradient >= 0)
      emit_update(static_cast<int>(i), gradients[i].dense);
  }
  draft_.turn = plan_.move_turn();
  for (std::size_t i = 0; i < slices.size() && draft_.program.directs; i++)
    if (plan_.passes().is_trained(slices[i].tensor)) emit_move_along(static_cast<int>(i));
}

// With a momentum of 1 the formula does not read the statistic's old value.
void Lowerer::emit_moved(const Slice& s, const Statistic& statistic, const Place& to) {
  const DType dtype = plan_.data().dtype;
  const Formula formula = s.sum >= 0 ? moved_by_sum(statistic.momentum, draft_.program.micro_batches) : moved(statistic.momentum);
  std::vector<Place> operands{to, {s.value, 0}, {s.value, 0}};
  operands.erase(operands.begin() + operand_count(formula), operands.end() - 1);
  draft_.kernel(elements_kernel(formula, dtype, volume(s.box), std::vector<DType>(operands.size(), dtype)), operands,
                "update of " + s.name, Purpose::update);
}

void Lowerer::emit_elements(const Slice& s, Elements of, const std::string& what) {
  const DType dtype = plan_.data().dtype;
  const auto inputs = static_cast<std::size_t>(operand_count(of.formula));
  std::vector<Place> places = of.scalars;
  places.insert(places.end(), of.its.begin(), of.its.end());
  places.resize(inputs);
  std::vector<DType> types(of.scalars.size(), DType::f64);
  types.resize(inputs, dtype);
  for (const Place& result : of.results) {
    places.push_back(result);
    types.push_back(at(draft_.program.buffers, result.buffer).dtype);
  }
  KernelSpec spec = elements_kernel(std::move(of.formula), dtype, volume(s.box), types);
  for (std::size_t k = 0; k < of.scalars.size(); k++) spec.operands[k].strides = {0};
  spec.combine = of.combine;
  if (of.combine != Combine::set) spec.operands.back().strides = {0};
  draft_.kernel(std::move(spec), std::move(places), what, Purpose::update);
}

// In the order in which an update's formulas read them.
std::vector<Place> Lowerer::update_scalar_places(int slice) const {
  const Passes& passes = plan_.passes();
  const int buffer = draft_.program.scalars;
  const Index common = update_scalars(passes.optimizer, passes.averages) - kOwnScalars, own = common + kOwnScalars * slice;
  std::vector<Place> out{{buffer, own}, {buffer, 0}, {buffer, own + 1}};
  for (Index k = 1; k < common; k++) out.push_back({buffer, k});
  return out;
}

// Updates in place. With an optimizer that has a direction: the slots, and the squared norms.
void Lowerer::emit_update(int slice, const Place& gradient) {
  const Slice& s = at(draft_.program.slices, slice);
  UpdateForm form = update_form(plan_.passes().optimizer, plan_.passes().averages);
  const std::size_t own = plan_.passes().optimizer.slots.size();
  std::vector<Place> kept;  // slots, parameter
  for (const int slot : s.slots) kept.push_back({slot, 0});
  kept.push_back({s.value, 0});
  const bool directs = draft_.program.directs;
  const std::vector<Place> slots(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(own));
  const std::vector<Place>& written = directs ? slots : kept;
  std::vector<Place> its = written;
  its.insert(its.begin(), gradient);
  emit_elements(s, {std::move(form.update), update_scalar_places(slice), its, written}, "update of " + s.name);
  if (!directs) return;
  its = slots;
  its.push_back(kept.back());
  const Index first = 2 * Index{slice};
  emit_elements(s, {square(), {}, {kept.back()}, {{draft_.program.lengths, first}}, Combine::add}, "norm of " + s.name);
  emit_elements(s, {std::move(form.squared), update_scalar_places(slice), its, {{draft_.program.lengths, first + 1}}, Combine::add},
                "norm of the direction of " + s.name);
}

void Lowerer::emit_move_along(int slice) {
  const Slice& s = at(draft_.program.slices, slice);
  Elements of{update_form(plan_.passes().optimizer, plan_.passes().averages).move, update_scalar_places(slice)};
  of.scalars.push_back({draft_.program.ratios, slice});
  for (const int slot : s.slots) of.its.push_back({slot, 0});
  if (plan_.passes().averages) of.results.push_back(of.its.back());
  of.its.push_back({s.value, 0});
  of.results.push_back({s.value, 0});
  emit_elements(s, std::move(of), "move of " + s.name);
}

// The sum of the squares of a slice's gradient, as a buffer.
int Lowerer::norm_of(const Slice& s, const Place& gradient) {
  const DType dtype = plan_.data().dtype;
  const int made = draft_.add_buffer("squared norm of the gradient of " + s.name, DType::f64, {}, Format::plain);
  KernelSpec spec = map_kernel(square(), dtype, {volume(s.box)}, {{1}, {0}});
  spec.operands.back().dtype = DType::f64;
  spec.combine = Combine::add;
  draft_.kernel(std::move(spec), {gradient, {made, 0}}, "norm of " + s.name);
  return made;
}

}  // namespace motley
