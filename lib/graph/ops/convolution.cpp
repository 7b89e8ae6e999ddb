// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/convolution.h"

namespace motley {

namespace {

// A pass over three tensors, and the positions of their dims.
struct Roles3 {
  Pass& pass;
  std::vector<int> x{}, w{}, y{};
};

Dim in_group(const Convolution& form) {
  return form.groups > 1 ? Dim{"window-" + form.c.name, form.c.size / form.groups} : form.c;
}

// x and y: tensors of their shapes.
Roles3 add_pass(Lowering& to, const Node& node, const Convolution& form, const std::string& what, PassKind kind, int x, int y) {
  const Shape read = to.tensor(x).shape, made = to.tensor(y).shape;
  Dim n;
  for (const Dim& d : read.dims())
    if (d.name != form.c.name && d.name != form.slides[0].dim && d.name != form.slides[1].dim) n = d;
  WindowIndices window = window_indices(n, form.c, form.slides, form.f);
  if (form.groups > 1) {
    const int tap = static_cast<int>(window.indices.size());
    const Dim group = in_group(form);
    window.indices.push_back({group.name, group.size});
    window.windows.push_back({window.roles[1], window.roles[4], tap, group.size, 0, 1, form.f.size / form.groups});
    window.roles.push_back(tap);
  }
  const std::vector<int>& role = window.roles;
  Roles3 out{to.pass(node, what, KernelOp::conv2d, kind),
             window_operand(window, read, form.slides, WindowEnd::read),
             {role[4], form.groups > 1 ? role[9] : role[1], role[5], role[6]},
             window_operand(window, made, form.slides, WindowEnd::made)};
  out.pass.indices = std::move(window.indices);
  out.pass.windows = std::move(window.windows);
  out.pass.roles = std::move(window.roles);
  return out;
}

}  // namespace

int Convolution::weight_of(Lowering& to, const Node& node) const {
  return to.weight(
      node, weight,
      Shape{f, in_group(*this), {"window-" + slides[0].dim, slides[0].window}, {"window-" + slides[1].dim, slides[1].window}});
}

int Convolution::bias_of(Lowering& to, const Node& node, const Dim& dim) const {
  return to.parameter(node, "bias", Shape{dim}, Initial::bias, Decays::no);
}

void Convolution::forward(Lowering& to, const Node& node, const std::string& what, int x, int w, int y) const {
  const Roles3 at = add_pass(to, node, *this, what, PassKind::forward, x, y);
  at.pass.reads = {{x, at.x}, {w, at.w}};
  at.pass.writes = {y, at.y};
}

void Convolution::data(Lowering& to, const Node& node, const std::string& what, int dy, int w, int dx) const {
  const Roles3 at = add_pass(to, node, *this, what, PassKind::backward_data, dx, dy);
  at.pass.reads = {{dy, at.y}, {w, at.w}};
  at.pass.writes = {dx, at.x};
}

void Convolution::filter(Lowering& to, const Node& node, const std::string& what, int x, int dy, int dw) const {
  const Roles3 at = add_pass(to, node, *this, what, PassKind::backward_filter, x, dy);
  at.pass.reads = {{x, at.x}, {dy, at.y}};
  at.pass.writes = {dw, at.w};
  if (groups > 1) at.pass.whole = {at.pass.roles[1]};  // with a part of the channels, the written part of dw would not be a box
}

Channels channels_of(const std::string& op, const Tensor& x, const Slides& slides, const Dim& in, const Dim& out, Index groups) {
  if (x.shape().rank() != 4)
    throw UserError(op + " takes tensors of 4 dims; \"" + x.name() + "\" has " + std::to_string(x.shape().rank()));
  const std::string name = in.name.empty() ? other_dims(x, slides).back() : in.name;
  const Channels dims{x.shape()[x.shape().position(name)], out};
  if (name == slides[0].dim || name == slides[1].dim) throw UserError(op + " cannot contract \"" + name + "\": it slides over it");
  if (out.name.empty()) throw UserError(op + " needs `out`: the name and number of its filters");
  if (x.shape().has(out.name)) throw UserError("`out` may not be a dim that the input has: \"" + out.name + "\"");
  if (groups < 1) throw UserError("`groups` is " + std::to_string(groups) + "; expected at least 1");
  for (const Dim* d : {&dims.in, &dims.out})
    if (d->size % groups != 0)
      throw UserError("`groups` is " + std::to_string(groups) + ", which does not divide the " + std::to_string(d->size) +
                      " of \"" + d->name + "\"; every group has as many channels, and as many filters");
  return dims;
}

}  // namespace motley
