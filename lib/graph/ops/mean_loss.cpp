// SPDX-License-Identifier: Apache-2.0
// loss = mean of f(x, y); dx = f'(x, y) g / elements.
#include "graph/ops/mean_loss.h"

#include "graph/nodes.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

Formula value_of(const MeanLoss& loss) {  // x y
  return formula({loss.of(operand(0), operand(1))});
}
Formula gradient_of(const MeanLoss& loss) {  // x y g
  return formula({loss.slope(operand(0), operand(1)) * operand(2)});
}

class MeanLossOp final : public Op {
 public:
  MeanLossOp(const MeanLoss& loss, double scale) : value_(value_of(loss)), gradient_(gradient_of(loss)), scale_(scale) {}
  int label_input() const override { return 1; }
  void forward(Lowering& to, const Node& node) const override {
    map_pass(to, node, "forward", {to.value(node.inputs[0]), to.value(node.inputs[1])}, to.value(node), value_, scale_);
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), y = to.value(node.inputs[1]), g = to.gradient(to.value(node));
    if (to.wants_gradient(x)) map_pass(to, node, "backward_data", {x, y, g}, to.gradient(x), gradient_, scale_);
    if (to.wants_gradient(y)) map_pass(to, node, "backward_label", {y, x, g}, to.gradient(y), gradient_, scale_);
  }

 private:
  Formula value_, gradient_;
  double scale_;
};

}  // namespace

std::vector<Formula> formulas_of(const MeanLoss& loss) {
  return {value_of(loss), gradient_of(loss)};
}

Tensor mean_loss(const std::string& op, const Tensor& x, const Tensor& labels, const std::string& name, const MeanLoss& loss) {
  auto graph = GraphNodes::graph_of({x, labels});
  check_float_labels(op, x, labels);
  const double scale = 1.0 / static_cast<double>(x.shape().elements());
  return graph->add(op, name, std::make_shared<MeanLossOp>(loss, scale), {x, labels}, Shape{});
}

}  // namespace motley
