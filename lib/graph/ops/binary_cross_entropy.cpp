// SPDX-License-Identifier: Apache-2.0
// For logit x and label y, with e = exp(-|x|): loss = max(x, 0) - x y + log(1 + e); dx = (p - y) g, p = 1 / (1 + exp(-x)). The loss
// of a label that is almost reached is not rounded to 0, and nothing overflows.
#include "graph/compiled.h"
#include "graph/nodes.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

Value small(const Value& x) {  // exp(-|x|)
  return exp(select(x < 0.0, x, -x));
}
Formula loss() {  // x y
  const Value x = operand(0), y = operand(1);
  return formula({select(x < 0.0, -(x * y), x * (1.0 - y)) + log1p(small(x))});
}
Formula logistic_gradient() {  // x y g
  const Value x = operand(0), y = operand(1), e = small(x);
  return formula({select(x < 0.0, (1.0 - y) * e - y, (1.0 - y) - y * e) / (1.0 + e) * operand(2)});
}
Formula label_gradient() {  // x g
  return formula({-(operand(0) * operand(1))});
}
const Compiled kBinaryCrossEntropyCompiled({loss(), logistic_gradient(), label_gradient()});

class BinaryCrossEntropy final : public Op {
 public:
  int label_input() const override { return 1; }
  void forward(Lowering& to, const Node& node) const override {
    map_pass(to, node, "forward", {to.value(node.inputs[0]), to.value(node.inputs[1])}, to.value(node), loss());
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), y = to.value(node.inputs[1]), g = to.gradient(to.value(node));
    if (to.wants_gradient(x)) map_pass(to, node, "backward_data", {x, y, g}, to.gradient(x), logistic_gradient());
    if (to.wants_gradient(y)) map_pass(to, node, "backward_label", {x, g}, to.gradient(y), label_gradient());
  }
};

}  // namespace

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& labels, const NameOption& o) {
  auto graph = GraphNodes::graph_of({logits, labels});
  check_float_labels("binary_cross_entropy", logits, labels);
  return graph->add("binary_cross_entropy", o.name, std::make_shared<BinaryCrossEntropy>(), {logits, labels}, logits.shape());
}

}  // namespace motley
