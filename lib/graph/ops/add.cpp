// SPDX-License-Identifier: Apache-2.0
// y = a + b + ...: one tensor with one writer per operand.
#include "graph/nodes.h"

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
  const Tensor& first = summands.front();
  for (const Tensor& t : summands) {
    for (const Dim& d : first.shape().dims()) {
      if (!t.shape().has(d.name) || t.shape().rank() != first.shape().rank())
        throw UserError("\"" + t.name() + "\" and \"" + first.name() + "\" cannot be added: their dims differ (\"" + d.name +
                        "\")");
      if (t.shape().size_of(d.name) != d.size)
        throw UserError("\"" + t.name() + "\" and \"" + first.name() + "\" cannot be added: \"" + d.name + "\" has the size " +
                        std::to_string(t.shape().size_of(d.name)) + " in one and " + std::to_string(d.size) + " in the other");
    }
  }
  return graph->add("add", o.name, std::make_shared<Add>(), summands, first.shape());
}
Tensor add(const Tensor& a, const Tensor& b, const NameOption& o) {
  return add(std::vector<Tensor>{a, b}, o);
}

}  // namespace motley
