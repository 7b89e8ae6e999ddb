// SPDX-License-Identifier: Apache-2.0
#include "plan/infer_required.h"

#include "base/at.h"
#include "plan/index_maps.h"

namespace motley {

namespace {

Index floor_div(Index a, Index b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

// Outputs whose windows overlap the rows `read`.
Range touch(const Window& w, Range read, Index taps, Index size) {
  if (read.size() == 0) return {0, 0};
  const Index low = -floor_div(-(read.begin + w.before - w.dilation * (taps - 1)), w.stride);  // rounded up
  return intersect({low * w.share, (floor_div(read.end - 1 + w.before, w.stride) + 1) * w.share}, {0, size});
}

}  // namespace

Range reach_of(const Window& w, Range made, Index taps, Index size) {
  if (made.size() == 0) return {0, 0};
  const Index first = made.begin / w.share, last = (made.end - 1) / w.share;
  return intersect({first * w.stride - w.before, last * w.stride - w.before + w.dilation * (taps - 1) + 1}, {0, size});
}

void infer_required(const Pass& pass, Box& work) {
  auto of = [&](int i) -> Range& { return at(work, i); };
  auto size = [&](int i) { return at(pass.indices, i).size; };
  for (int round = 0; round < 2; round++)
    for (const Window& w : pass.windows) {
      of(w.made) = intersect(of(w.made), touch(w, of(w.read), size(w.tap), size(w.made)));
      Range reach = reach_of(w, of(w.made), size(w.tap), size(w.read));
      const bool last = of(w.made).size() > 0 && of(w.made).end == size(w.made);
      if (pass.op == KernelOp::conv2d && last && size(w.read) - reach.end < w.stride) reach.end = size(w.read);
      of(w.read) = intersect(of(w.read), reach);
    }
  infer_index_maps(pass, work);
  if (pass.own.of >= 0) of(pass.own.terms) = of(pass.own.of);
  if (pass.op == KernelOp::attention && of(pass.roles[2]).size() > 0)
    of(pass.roles[2]) = {0, size(pass.roles[2])};  // scores need all of it
}

}  // namespace motley
