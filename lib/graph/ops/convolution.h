// SPDX-License-Identifier: Apache-2.0
// What conv2d and conv_transpose2d share: x[n c h w], w[f c r s], y[n f p q] and the passes over them; windows h~r->p, w~s->q. By
// groups: w[f i r s], i the channel in its group; a third window c~i->f, whose stride and extent are a group's channels, shared by
// its filters.
#pragma once
#include "graph/ops/windows.h"

namespace motley {

struct Convolution {
  Dim c{}, f{};
  Slides slides{};
  Index groups = 1;
  WeightOptions weight{};
  bool bias = true;

  int weight_of(Lowering& to, const Node& node) const;
  int bias_of(Lowering& to, const Node& node, const Dim& dim) const;
  // y = conv(x, w); dx = the gradient of x; dw = that of w. Each of tensors of these shapes.
  void forward(Lowering& to, const Node& node, const std::string& what, int x, int w, int y) const;
  void data(Lowering& to, const Node& node, const std::string& what, int dy, int w, int dx) const;
  void filter(Lowering& to, const Node& node, const std::string& what, int x, int dy, int dw) const;
};

// What an op reads (`in`, or the dim before the slid-over ones) and what it makes. UserError: they do not fit x or each other.
struct Channels {
  Dim in{}, out{};
};
Channels channels_of(const std::string& op, const Tensor& x, const Slides& slides, const Dim& in, const Dim& out, Index groups);

}  // namespace motley
