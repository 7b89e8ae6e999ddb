// SPDX-License-Identifier: Apache-2.0
// max_pool2d, avg_pool2d: x[n c h w] -> y[n c p q]; windows h~r->p, w~s->q. The gradient finds the maximum's winner again from x:
// only x and dy are kept or sent.
#include <algorithm>

#include "base/at.h"
#include "graph/ops/windows.h"

namespace motley {

namespace {

WindowIndices pool_indices(const Slides& slides, const Shape& read) {
  std::vector<Dim> others;
  for (const Dim& d : read.dims())
    if (d.name != slides[0].name(WindowEnd::read) && d.name != slides[1].name(WindowEnd::read)) others.push_back(d);
  return window_indices(others[0], others.size() > 1 ? others[1] : Dim{}, slides, Dim{});
}

class Pool2d final : public Op {
 public:
  Pool2d(KernelOp op, Slides slides) : op_(op), slides_(std::move(slides)) {}

  void forward(Lowering& to, const Node& node) const override {
    Pass& p = pool_pass(to, node, "forward", op_, PassKind::forward, slides_, to.value(node.inputs[0]), to.value(node));
    if (op_ == KernelOp::max_pool2d) p.combine = Combine::max;
  }

  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]);
    if (!to.wants_gradient(x)) return;
    const int dy = to.gradient(to.value(node)), dx = to.gradient(x);
    Pass& p = pool_pass(to, node, "backward_data", op_, PassKind::backward_data, slides_, dx, dy);
    if (op_ == KernelOp::max_pool2d) p.reads.push_back({x, add_reach(p, p.writes.indices)});
  }

 private:
  // Finding a winner needs its whole window: x's rows and columns become separate indices from dx's, and extend as far as the
  // windows do.
  static std::vector<int> add_reach(Pass& p, std::vector<int> x_at) {
    for (std::size_t i = 0; i < 2; i++) {
      Window window = p.windows[i];
      const PassIndex read = at(p.indices, window.read);
      std::replace(x_at.begin(), x_at.end(), window.read, static_cast<int>(p.indices.size()));
      window.read = static_cast<int>(p.indices.size());
      p.indices.push_back({"reach:" + read.name, read.size});
      p.windows.push_back(window);
      p.roles.push_back(window.read);
      p.whole.push_back(window.read);
    }
    return x_at;
  }

  KernelOp op_;
  Slides slides_;
};

// Refuses windows over padding alone, which have no mean or maximum.
void refuse_padding_alone(const Slide& s, Index before, Index after) {
  if (std::max(before, after) >= s.window)
    throw UserError("padding " + std::to_string(std::max(before, after)) + " on \"" + s.dim +
                    "\" is not smaller than the window's extent of " + std::to_string(s.window) +
                    ": some windows would cover only padding, and have no mean and no maximum");
}

Tensor pool(const Tensor& x, const Pool2dOptions& o, KernelOp op, const std::string& kind) {
  auto graph = GraphNodes::graph_of({x});
  const Extent2 stride = o.stride == Extent2{0} ? o.window : o.stride;
  const auto slides = slides_of(x, {o.over, o.window, stride, {}, o.padding});
  if (o.padding.kind == Padding::Kind::sizes) {
    refuse_padding_alone(slides[0], o.padding.top, o.padding.bottom);
    refuse_padding_alone(slides[1], o.padding.left, o.padding.right);
  }
  std::vector<Dim> dims;
  for (const Dim& d : x.shape().dims())
    dims.push_back(d.name == slides[0].dim ? Dim{d.name, slides[0].out} : d.name == slides[1].dim ? Dim{d.name, slides[1].out} : d);
  return graph->add(kind, o.name, std::make_shared<Pool2d>(op, slides), {x}, Shape(dims));
}

}  // namespace

Pass& pool_pass(Lowering& to, const Node& node, const std::string& what, KernelOp op, PassKind kind, const Slides& slides, int read,
                int made) {
  const WindowIndices window = pool_indices(slides, to.tensor(read).shape);
  const PassOperand before{read, window_operand(window, to.tensor(read).shape, slides, WindowEnd::read)},
      after{made, window_operand(window, to.tensor(made).shape, slides, WindowEnd::made)};
  Pass& p = to.pass(node, what, op, kind);
  p.indices = window.indices;
  p.windows = window.windows;
  p.roles = window.roles;
  p.reads = {kind == PassKind::forward ? before : after};
  p.writes = kind == PassKind::forward ? after : before;
  return p;
}

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& o) {
  return pool(x, o, KernelOp::max_pool2d, "max_pool2d");
}
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& o) {
  return pool(x, o, KernelOp::avg_pool2d, "avg_pool2d");
}

}  // namespace motley
