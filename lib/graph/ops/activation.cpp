// SPDX-License-Identifier: Apache-2.0
// y = activation(x), elementwise; dx = dy * activation'(x), computed from y.
#include <array>

#include "base/at.h"
#include "graph/activate.h"
#include "graph/nodes.h"

namespace motley {

namespace {

class ActivationOp final : public Op {
 public:
  explicit ActivationOp(Activation activation) : activation_(activation) {}

  void forward(Lowering& to, const Node& node) const override {
    Pass& p = copy_pass(to, node, "forward", to.value(node.inputs[0]), to.value(node));
    p.fold = FoldKind::activation;
    p.activation = activation_;
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), y = to.value(node);
    if (!to.wants_gradient(x)) return;
    const int dy = to.gradient(y), dx = to.gradient(x);
    Pass& p = copy_pass(to, node, "backward_data", dy, dx);
    p.fold = FoldKind::activation_gradient;
    p.activation = activation_;
    p.reads.push_back({y, p.reads[0].indices});
  }

 private:
  Activation activation_;
};

}  // namespace

Tensor activation_of(const Tensor& x, Activation activation, const std::string& name) {
  static constexpr std::array kinds{"identity", "relu", "sigmoid", "tanh", "elu"};
  return GraphNodes::graph_of({x})->add(at(kinds, activation), name, std::make_shared<ActivationOp>(activation), {x}, x.shape());
}

Tensor relu(const Tensor& x, const NameOption& o) {
  return activation_of(x, Activation::relu, o.name);
}
Tensor sigmoid(const Tensor& x, const NameOption& o) {
  return activation_of(x, Activation::sigmoid, o.name);
}
Tensor tanh(const Tensor& x, const NameOption& o) {
  return activation_of(x, Activation::tanh, o.name);
}
Tensor elu(const Tensor& x, const NameOption& o) {
  return activation_of(x, Activation::elu, o.name);
}

}  // namespace motley
