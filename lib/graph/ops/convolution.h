// SPDX-License-Identifier: Apache-2.0
// Shared by conv2d and conv_transpose2d: x[n c h w], w[f c r s], y[n f p q] and the passes over them; windows h~r->p, w~s->q. With
// groups: w[f i r s], i the channel within its group; and a third window c~i->f, whose stride and extent are the number of channels
// in a group, shared by the group's filters.
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
  // y = conv(x, w); dx = the gradient of x; dw = the gradient of w, for tensors of these shapes.
  void forward(Lowering& to, const Node& node, const std::string& what, int x, int w, int y) const;
  void data(Lowering& to, const Node& node, const std::string& what, int dy, int w, int dx) const;
  void filter(Lowering& to, const Node& node, const std::string& what, int x, int dy, int dw) const;
};

// The dim that an op contracts (`in`, or the dim before those of `over`) and the dim that it makes. UserError: they do not fit x or
// each other.
struct Channels {
  Dim in{}, out{};
};
Channels channels_of(const std::string& op, const Tensor& x, const Slides& slides, const Dim& in, const Dim& out, Index groups);

}  // namespace motley
