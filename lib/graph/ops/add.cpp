// SPDX-License-Identifier: Apache-2.0
// y = a + b + ...: one tensor with one writer per operand; an operand is repeated along the dims that it lacks.
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
  const Tensor* all = &summands.front();  // has all dims
  for (const Tensor& t : summands)
    if (t.shape().rank() > all->shape().rank()) all = &t;
  for (const Tensor& t : summands)
    for (const Dim& d : t.shape().dims()) {
      if (!all->shape().has(d.name)) {
        const bool as_many = t.shape().rank() == all->shape().rank();  // then each lacks a dim of the other
        std::string missing = d.name;
        for (const Dim& its : all->shape().dims())
          if (as_many && !t.shape().has(its.name)) missing = its.name;
        throw UserError("\"" + t.name() + "\" and \"" + all->name() + "\" cannot be added: their dims differ (\"" + missing +
                        "\")");
      }
      if (all->shape().size_of(d.name) != d.size)
        throw UserError("\"" + all->name() + "\" and \"" + t.name() + "\" cannot be added: \"" + d.name + "\" has the size " +
                        std::to_string(all->shape().size_of(d.name)) + " in one and " + std::to_string(d.size) + " in the other");
    }
  return graph->add("add", o.name, std::make_shared<Add>(), summands, all->shape());
}
Tensor add(const Tensor& a, const Tensor& b, const NameOption& o) {
  return add(std::vector<Tensor>{a, b}, o);
}

}  // namespace motley
