// SPDX-License-Identifier: Apache-2.0
#include "plan/kernel_of.h"

#include <motley/error.h>

#include <algorithm>

#include "base/at.h"
#include "kernels/operands.h"
#include "plan/infer_required.h"

namespace motley {

namespace {

Index extent(const Box& work, int index) {
  return index < 0 ? 1 : at(work, index).size();
}

// Padding of the local window at the low and the high end, where work's read rows start at h0, its made rows at p0, its taps at r0.
std::pair<Index, Index> local_padding(const Window& w, const Box& work) {
  const Range h = at(work, w.read), p = at(work, w.made), r = at(work, w.tap);
  const Index before = h.begin - (p.begin * w.stride - w.before + r.begin * w.dilation);
  const Index after = (p.size() - 1) * w.stride + (r.size() - 1) * w.dilation + 1 - before - h.size();
  return {before, after};
}

// Real rows of the read end that the window covers beyond work's rows, at the low and the high end.
std::pair<Index, Index> halo_of(const Pass& pass, const Window& w, const Box& work) {
  const Range h = at(work, w.read);
  const Range reach = reach_of(w, at(work, w.made), at(pass.indices, w.tap).size, at(pass.indices, w.read).size);
  return {std::max<Index>(0, h.begin - reach.begin), std::max<Index>(0, reach.end - h.end)};
}

// Channels and filters of one group; with several groups these are whole.
void by_groups(Roles& e, const Window& channels, const Box& work) {
  const Range f = at(work, channels.made);
  e.c = extent(work, channels.tap);
  if (f.size() > 0) e.g = (f.end - 1) / channels.share - f.begin / channels.share + 1;
  e.f = f.size() / e.g;
  check(e.g * e.c == extent(work, channels.read) && (e.g == 1 || (e.f == channels.share && f.begin % channels.share == 0)),
        "a kernel has one group, or whole ones");
}

void window_kernel(KernelSpec& spec, const Pass& pass, const Box& work) {
  const std::vector<int>& here = pass.roles;
  Roles& e = spec.roles;
  e.n = extent(work, here[0]);
  e.c = extent(work, here[1]);
  e.h = extent(work, here[2]);
  e.w = extent(work, here[3]);
  e.f = extent(work, here[4]);
  e.r = extent(work, here[5]);
  e.s = extent(work, here[6]);
  e.p = extent(work, here[7]);
  e.q = extent(work, here[8]);
  const auto [top, bottom] = local_padding(pass.windows[0], work);
  const auto [left, right] = local_padding(pass.windows[1], work);
  spec.padding = {top, bottom, left, right};
  spec.stride = {pass.windows[0].stride, pass.windows[1].stride};
  spec.dilation = {pass.windows[0].dilation, pass.windows[1].dilation};
  if (const Window* channels = channel_window(pass)) by_groups(e, *channels, work);
  if (pass.op == KernelOp::conv2d) return;
  const auto [above, below] = halo_of(pass, pass.windows[0], work);
  const auto [before, after] = halo_of(pass, pass.windows[1], work);
  spec.halo = {above, below, before, after};
}

// dense: indices are kept (in x and y), contracted (in x and w), made (in w and y), or in all three: one product for each of their
// values.
void dense_kernel(KernelSpec& spec, const Pass& pass, const Box& work) {
  std::vector<int> uses(pass.indices.size(), 0);
  auto mark = [&](const PassOperand& o, int bit) {
    for (int i : o.indices) at(uses, i) |= bit;
  };
  const PassOperand &a = pass.reads[0], &b = pass.reads[1], &c = pass.writes;
  const PassOperand& x = pass.kind == PassKind::backward_data ? c : a;
  const PassOperand& w = pass.kind == PassKind::backward_filter ? c : b;
  const PassOperand& y = pass.kind == PassKind::forward ? c : pass.kind == PassKind::backward_data ? a : b;
  mark(x, 1);
  mark(w, 2);
  mark(y, 4);
  for (std::size_t i = 0; i < uses.size(); i++) {
    check(uses[i] == 3 || uses[i] >= 5, "an index of a dense pass is in two of its three operands, or in all");
    const Index size = work[i].size();
    if (uses[i] == 7) spec.roles.g *= size;
    if (uses[i] == 5) spec.roles.n *= size;
    if (uses[i] == 3) spec.roles.c *= size;
    if (uses[i] == 6) spec.roles.f *= size;
  }
}

void attention_kernel(KernelSpec& spec, const Pass& pass, const Box& work) {
  const int queries = pass.roles[0], keys = pass.roles[1], head = pass.roles[2];
  spec.roles.n = extent(work, queries);
  spec.roles.f = extent(work, keys);
  spec.roles.c = extent(work, head);
  spec.scale = pass.scale;
  spec.causal = pass.causal;
  spec.made = pass.made;
  if (pass.causal) spec.origin = {at(work, queries).begin, at(work, keys).begin};
  const std::size_t operands = pass.kind == PassKind::forward ? 3 : 6;
  const PassOperand* mask = pass.reads.size() > operands ? &pass.reads[operands] : nullptr;
  Index share = 1;
  for (int i : pass.reads[0].indices) {
    if (i == queries || i == head) continue;
    const Index size = extent(work, i);
    spec.roles.g *= size;
    spec.heads = std::max<Index>(1, size);  // the last head index: side by side
    const bool in_mask = mask != nullptr && std::find(mask->indices.begin(), mask->indices.end(), i) != mask->indices.end();
    check(!in_mask || share == 1, "heads that share a row of the mask are next to each other");
    if (!in_mask) share *= size;
  }
  if (mask != nullptr) spec.share = std::max<Index>(1, share);
}

std::vector<Box> by_borders(const OwnPart& own, const Box& work) {
  std::vector<Box> out{work};
  for (const Index border : own.borders) {
    const Range last = at(out.back(), own.of);
    if (border <= last.begin || border >= last.end) continue;
    out.push_back(out.back());
    for (const int i : {own.of, own.terms}) {
      at(out[out.size() - 2], i).end = border;
      at(out.back(), i).begin = border;
    }
  }
  return out;
}

}  // namespace

std::vector<Box> kernel_boxes(const Pass& pass, const Box& work) {
  if (pass.own.of >= 0) return by_borders(pass.own, work);
  if (channel_window(pass) == nullptr) return {work};
  const Window& channels = *channel_window(pass);
  const Range c = at(work, channels.read), f = at(work, channels.made), tap = at(work, channels.tap);
  if (c.size() == 0 || f.size() == 0 || tap.size() == 0) return {work};
  std::vector<Box> out;
  const Index size = channels.stride, first = f.begin / channels.share, last = (f.end - 1) / channels.share;
  bool after_whole = false;
  for (Index g = first; g <= last; g++) {
    const Range filters = intersect(f, {g * channels.share, (g + 1) * channels.share}),
                in = intersect(intersect({c.begin - g * size, c.end - g * size}, tap), {0, size});
    check(in.size() > 0, "a part of a group's filters reads some of its channels");
    const bool whole = filters.size() == channels.share && in.size() == size;
    if (!whole || !after_whole) {
      out.push_back(work);
      at(out.back(), channels.read).begin = in.begin + g * size;
      at(out.back(), channels.made).begin = filters.begin;
      at(out.back(), channels.tap) = in;
    }
    at(out.back(), channels.read).end = in.end + g * size;
    at(out.back(), channels.made).end = filters.end;
    after_whole = whole;
  }
  return out;
}

Box operand_box(const PassOperand& operand, const Box& work) {
  Box box;
  for (int i : operand.indices) box.push_back(at(work, i));
  return box;
}

KernelSpec kernel_of(const Passes& passes, const Pass& pass, const Box& work, DType dtype, const std::vector<Format>& formats) {
  check(work.size() == pass.indices.size(), "a work box has one range per index");
  KernelSpec spec;
  spec.op = pass.op;
  spec.pass = pass.kind;
  spec.dtype = dtype;
  auto format_of = [&](const PassOperand& o) { return at(formats, o.tensor); };
  std::vector<const PassOperand*> operands;
  for (const PassOperand& o : pass.reads) operands.push_back(&o);
  operands.push_back(&pass.writes);
  if (pass.op != KernelOp::map && at(passes.tensors, pass.reads[0].tensor).dtype == DType::bf16 && dtype == DType::f32) {
    spec.dtype = DType::bf16;
    if (!is_pool(pass.op)) spec.result = dtype_of(at(passes.tensors, pass.writes.tensor), dtype);
  }
  if (pass.op == KernelOp::conv2d) {
    window_kernel(spec, pass, work);
    const std::size_t x = pass.kind == PassKind::backward_data ? 2 : 0, w = pass.kind == PassKind::backward_filter ? 2 : 1;
    spec.x_format = format_of(*operands[x]);
    spec.w_format = format_of(*operands[w]);
    spec.y_format = format_of(*operands[3 - x - w]);
    return spec;
  }
  if (is_pool(pass.op)) {
    window_kernel(spec, pass, work);
    const bool forward = pass.kind == PassKind::forward;
    spec.x_format = format_of(forward ? *operands.front() : *operands.back());
    spec.y_format = format_of(forward ? *operands.back() : *operands.front());
    return spec;
  }
  if (pass.op == KernelOp::dense) {
    dense_kernel(spec, pass, work);
    return spec;
  }
  if (pass.op == KernelOp::attention) {
    attention_kernel(spec, pass, work);
    return spec;
  }
  spec.formula = pass.formula;
  spec.scale = pass.scale;
  if (pass.own.of >= 0) {
    const auto terms = static_cast<double>(std::max<Index>(1, extent(work, pass.own.terms))),
               elements = terms * static_cast<double>(pass.own.per_value);
    spec.scale *= (elements > 1 ? elements / (elements - 1) : 1) / terms;
  }
  if (!pass.index_maps.empty()) {  // a copy; its extents are those of the result
    std::vector<Index> extents;
    for (int i : pass.writes.indices) extents.push_back(at(work, i).size());
    const std::vector<Index> dense = strides_of(format_of(pass.writes), extents);
    spec.extents = extents;
    const DType copied = dtype_of(at(passes.tensors, pass.writes.tensor), dtype);
    spec.operands = {{copied, dense}, {copied, dense}};
    return spec;
  }
  if (reads_position(pass.formula, -1))
    for (std::size_t i = 0; i < work.size(); i++)
      spec.origin.push_back(reads_position(pass.formula, static_cast<int>(i)) ? work[i].begin : 0);
  bool reduces = false;
  for (std::size_t i = 0; i < work.size(); i++) {
    spec.extents.push_back(work[i].size());
    const auto& made = pass.writes.indices;
    reduces = reduces || std::find(made.begin(), made.end(), static_cast<int>(i)) == made.end();
  }
  spec.combine = reduces ? pass.combine : Combine::set;
  for (std::size_t k = 0; k < operands.size(); k++) {
    const StepTensor& t = at(passes.tensors, operands[k]->tensor);
    MapOperand o{dtype_of(t, dtype), std::vector<Index>(work.size(), 0)};
    std::vector<Index> extents;
    for (int i : operands[k]->indices) extents.push_back(at(work, i).size());
    const std::vector<Index> dense = strides_of(format_of(*operands[k]), extents);
    for (std::size_t d = 0; d < extents.size(); d++) at(o.strides, operands[k]->indices[d]) = dense[d];
    spec.operands.push_back(std::move(o));
  }
  return spec;
}

MadeTogether made_together(const Passes& passes, int pass) {
  const Pass& one = at(passes.passes, pass);
  MadeTogether out{pass, 1, one.made};
  if (one.op != KernelOp::attention) return out;
  const auto joins = [&](int other) {
    if (other < 0 || other >= static_cast<int>(passes.passes.size())) return false;
    const Pass& it = at(passes.passes, other);
    if (it.op != one.op || it.kind != one.kind || it.reads != one.reads) return false;
    out.made |= it.made;
    out.count++;
    return true;
  };
  while (joins(out.first - 1)) out.first--;
  while (joins(out.first + out.count)) {
  }
  return out;
}

TimedKernel timed_kernel_of(const Passes& passes, int pass, const Box& work, DType dtype, const std::vector<Format>& formats) {
  const Pass& one = at(passes.passes, pass);
  if (one.op != KernelOp::attention || extent(work, one.roles[1]) < at(one.indices, one.roles[1]).size)
    return {kernel_of(passes, one, work, dtype, formats)};
  const MadeTogether all = made_together(passes, pass);
  TimedKernel out{kernel_of(passes, at(passes.passes, all.first), work, dtype, formats), all.count};
  out.spec.made = all.made;
  return out;
}

KernelSpec map_kernel(Formula formula, DType dtype, std::vector<Index> extents, std::vector<std::vector<Index>> strides) {
  KernelSpec spec;
  spec.op = KernelOp::map;
  spec.formula = std::move(formula);
  if (dtype != DType::bf16) spec.dtype = dtype;
  spec.extents = std::move(extents);
  for (auto& s : strides) spec.operands.push_back({dtype, std::move(s)});
  return spec;
}

KernelSpec sum_kernel(DType dtype, std::vector<Index> extents, std::vector<std::vector<Index>> strides) {
  KernelSpec spec = map_kernel({}, dtype, std::move(extents), std::move(strides));
  spec.summands = static_cast<Index>(spec.operands.size()) - 1;
  return spec;
}

KernelSpec elements_kernel(Formula formula, DType dtype, Index elements, const std::vector<DType>& operands) {
  KernelSpec spec = map_kernel(std::move(formula), dtype, {elements}, {});
  for (const DType one : operands) spec.operands.push_back({one, {1}});
  return spec;
}

}  // namespace motley
