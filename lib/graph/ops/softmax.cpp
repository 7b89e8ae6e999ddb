// SPDX-License-Identifier: Apache-2.0
// e = exp(x - m), y = e / s over one dim, m = max of x, s = sum of e; dx = y (dy - sum of dy y). Over a cut dim only the passes'
// small results are sent, never x. Storing e costs less than computing it twice (bench/norms).
#include "graph/compiled.h"
#include "graph/layer_kind.h"
#include "graph/nodes.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

Formula exponential() {  // x m
  return formula({exp(operand(0) - operand(1))});
}
Formula output() {  // e s
  return formula({operand(0) / operand(1)});
}
Formula softmax_gradient() {  // y dy sum
  return formula({operand(0) * (operand(1) - operand(2))});
}
const Compiled kSoftmaxCompiled({exponential(), output(), product(), softmax_gradient()});
const Compiled kSoftmaxRows(std::vector<RowFormula>{
    {exponential(), {1}}, {output(), {1}}, {product(), {}, true}, {softmax_gradient(), {2}}});

class Softmax final : public Op {
 public:
  explicit Softmax(std::string over) : over_(std::move(over)) {}
  void forward(Lowering& to, const Node& node) const override {
    to.refuse_micro_batches(node, over_);
    const int x = to.value(node.inputs[0]), max = to.inner(node, "max", kept(node)), sum = to.inner(node, "sum", kept(node));
    map_pass(to, node, "max", {x}, max, {}).combine = Combine::max;
    const int e = to.inner(node, "exponential", node.shape);
    map_pass(to, node, "exponential", {x, max}, e, exponential());
    map_pass(to, node, "sum", {e}, sum, {});
    map_pass(to, node, "forward", {e, sum}, to.value(node), output());
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), y = to.value(node);
    if (!to.wants_gradient(x)) return;
    const int dy = to.gradient(y), sum = to.inner(node, "sum_g", kept(node));
    map_pass(to, node, "sum_g", {dy, y}, sum, product());
    map_pass(to, node, "backward_data", {y, dy, sum}, to.gradient(x), softmax_gradient());
  }

 private:
  Shape kept(const Node& node) const {
    std::vector<Dim> dims;
    for (const Dim& d : node.shape.dims())
      if (d.name != over_) dims.push_back(d);
    return Shape(dims);
  }
  std::string over_;
};

}  // namespace

Tensor softmax(const Tensor& x, const SoftmaxOptions& o) {
  floats_only("softmax", x);
  if (x.shape().rank() < 2)
    throw UserError("softmax needs a dim besides the one that it is computed over; \"" + x.name() + "\" has at most one");
  const std::string over = o.over.name.empty() ? x.shape().dims().back().name : dim_of("softmax", x, o.over.name, "over").name;
  return GraphNodes::graph_of({x})->add("softmax", o.name, std::make_shared<Softmax>(over), {x}, x.shape());
}

static const LayerKind kSoftmaxKind("softmax", 1,
                                    {{"over", "the dim along which the results sum to 1; default: its input's last",
                                      LayerKey::Kind::names}},
                                    [](const LayerArguments& l) {
                                      const std::vector<std::string>& over = l.names.at("over");
                                      if (over.size() > 1)
                                        throw UserError("softmax is over one dim; `over` names " + std::to_string(over.size()));
                                      return softmax(l.in(), {.over = over.empty() ? Dim{} : Dim{over.front(), 0}, .name = l.name});
                                    });

}  // namespace motley
