// SPDX-License-Identifier: Apache-2.0
// y = a + b + ...: one tensor with one writer per operand; an operand is repeated along the dims that it lacks.
#include "graph/nodes.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

class Add final : public Op {
 public:
  void forward(Lowering& to, const Node& node) const override {
    for (std::size_t i = 0; i < node.inputs.size(); i++)
      copy_pass(to, node, "forward " + std::to_string(i), to.value(node.inputs[i]), to.value(node));
  }
  void backward(Lowering& to, const Node& node) const override {
    for (std::size_t i = 0; i < node.inputs.size(); i++) {
      const int x = to.value(node.inputs[i]);
      if (!to.wants_gradient(x)) continue;
      const int dy = to.gradient(to.value(node)), dx = to.gradient(x);
      copy_pass(to, node, "backward_data " + std::to_string(i), dy, dx);
    }
  }
};

}  // namespace

Tensor add(const std::vector<Tensor>& summands, const NameOption& o) {
  auto graph = GraphNodes::graph_of(summands);
  const Shape shape = with_all_dims("added", summands).shape();
  return graph->add("add", o.name, std::make_shared<Add>(), summands, shape);
}
Tensor add(const Tensor& a, const Tensor& b, const NameOption& o) {
  return add(std::vector<Tensor>{a, b}, o);
}

}  // namespace motley
