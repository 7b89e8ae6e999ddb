// SPDX-License-Identifier: Apache-2.0
// loss = mean of (x - y)^2; dx = 2 (x - y) g / elements.
#include "graph/compiled.h"
#include "graph/nodes.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

Formula squared() {  // x y
  const Value off = operand(0) - operand(1);
  return formula({off * off});
}
Formula squared_gradient() {  // x y g
  return formula({2.0 * (operand(0) - operand(1)) * operand(2)});
}
const Compiled kMeanSquaredErrorCompiled({squared(), squared_gradient()});

class MeanSquaredError final : public Op {
 public:
  explicit MeanSquaredError(double scale) : scale_(scale) {}
  int label_input() const override { return 1; }
  void forward(Lowering& to, const Node& node) const override {
    map_pass(to, node, "forward", {to.value(node.inputs[0]), to.value(node.inputs[1])}, to.value(node), squared(), scale_);
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), y = to.value(node.inputs[1]), g = to.gradient(to.value(node));
    if (to.wants_gradient(x)) map_pass(to, node, "backward_data", {x, y, g}, to.gradient(x), squared_gradient(), scale_);
    if (to.wants_gradient(y)) map_pass(to, node, "backward_label", {y, x, g}, to.gradient(y), squared_gradient(), scale_);
  }

 private:
  double scale_;
};

}  // namespace

Tensor mean_squared_error(const Tensor& x, const Tensor& labels, const NameOption& o) {
  auto graph = GraphNodes::graph_of({x, labels});
  check_float_labels("mean_squared_error", x, labels);
  const double scale = 1.0 / static_cast<double>(x.shape().elements());
  return graph->add("mean_squared_error", o.name, std::make_shared<MeanSquaredError>(scale), {x, labels}, Shape{});
}

}  // namespace motley
