// SPDX-License-Identifier: Apache-2.0
// flatten: x[n, d1, d2, ..] -> y[n, flat], flat row-major over d1, d2, ... A cut of flat at multiples of d2*.. is one of d1.
#include "graph/nodes.h"

namespace motley {

namespace {

class Flatten final : public Op {
 public:
  void forward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), y = to.value(node);
    Pass& p = pass(to, node, to.tensor(x).shape, "forward", PassKind::forward);
    p.reads = {{x, x_at(to.tensor(x).shape)}};
    p.writes = {y, {0, p.flat}};
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]);
    if (!to.wants_gradient(x)) return;
    const int dy = to.gradient(to.value(node)), dx = to.gradient(x);
    Pass& p = pass(to, node, to.tensor(x).shape, "backward_data", PassKind::backward_data);
    p.reads = {{dy, {0, p.flat}}};
    p.writes = {dx, x_at(to.tensor(x).shape)};
  }

 private:
  static std::vector<int> x_at(const Shape& x) {
    std::vector<int> out;
    for (std::size_t i = 0; i < x.rank(); i++) out.push_back(static_cast<int>(i));
    return out;
  }
  static Pass& pass(Lowering& to, const Node& node, const Shape& x, const std::string& what, PassKind kind) {
    Pass& p = to.pass(node, what, KernelOp::fold, kind);
    p.indices = indices_of(x);
    for (std::size_t i = 1; i < x.rank(); i++) p.merged.push_back(static_cast<int>(i));
    p.flat = static_cast<int>(p.indices.size());
    p.indices.push_back({node.shape[1].name, node.shape[1].size});
    return p;
  }
};

}  // namespace

Tensor flatten(const Tensor& x, const std::string& into, const NameOption& o) {
  auto graph = GraphNodes::graph_of({x});
  if (x.shape().rank() < 2) throw UserError("flatten needs a tensor of at least 2 dims; \"" + x.name() + "\" has " + std::to_string(x.shape().rank()));
  if (x.shape().has(into)) throw UserError("`out` may not be a dim that the input has: \"" + into + "\"");
  Index size = 1;
  for (std::size_t i = 1; i < x.shape().rank(); i++) size *= x.shape()[i].size;
  const Dim flat{into, size};
  graph->declare(flat);
  return graph->add("flatten", o.name, std::make_shared<Flatten>(), {x}, Shape{x.shape()[0], flat});
}

}  // namespace motley
