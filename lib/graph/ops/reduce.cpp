// SPDX-License-Identifier: Apache-2.0
// sum, mean over dims, and the global average pool: y = scale * sum of x; dx = scale * broadcast(dy). A mean of losses some of
// which are ignored: y = sum of x / k; dx = broadcast(dy / k), k = number of losses that count, at least 1.
#include <algorithm>

#include "graph/compiled.h"
#include "graph/nodes.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

class Reduce final : public Op {
 public:
  explicit Reduce(double scale) : scale_(scale) {}
  void forward(Lowering& to, const Node& node) const override {
    copy_pass(to, node, "forward", to.value(node.inputs[0]), to.value(node), scale_);
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]);
    if (!to.wants_gradient(x)) return;
    const int dy = to.gradient(to.value(node)), dx = to.gradient(x);
    copy_pass(to, node, "backward_data", dy, dx, scale_);
  }

 private:
  double scale_;
};

Formula counts(Index ignored) {  // label
  return formula({select(matches(integer(0), whole(static_cast<int>(ignored))), 0.0, 1.0)});
}
Formula quotient() {  // x k
  return formula({operand(0) / select(operand(1) < 1.0, 1.0, operand(1))});
}
const Compiled kReduceCompiled({counts(7), quotient()});

// The mean of x over the elements whose labels count.
class MeanOfCounted final : public Op {
 public:
  MeanOfCounted(Index ignored, double repeated) : ignored_(ignored), repeated_(repeated) {}
  int label_input() const override { return 1; }
  void forward(Lowering& to, const Node& node) const override {
    const int count = to.inner(node, "count", node.shape, DType::f64);
    map_pass(to, node, "count", {to.value(node.inputs[1])}, count, counts(ignored_), repeated_).all_samples = true;
    map_pass(to, node, "forward", {to.value(node.inputs[0]), count}, to.value(node), quotient());
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), count = to.inner(node, "count", node.shape, DType::f64);
    if (to.wants_gradient(x)) map_pass(to, node, "backward_data", {to.gradient(to.value(node)), count}, to.gradient(x), quotient());
  }

 private:
  Index ignored_;
  double repeated_;  // number of elements that share a label
};

enum class Mean : std::uint8_t { no, yes };

Tensor reduce(const Tensor& x, const std::vector<Dim>& over, const std::string& kind, const std::string& name, Mean mean) {
  auto graph = GraphNodes::graph_of({x});
  check_dims(kind, x, over, "over");
  std::vector<Dim> kept;
  Index count = 1;
  for (const Dim& d : x.shape().dims()) {
    const bool gone = over.empty() || std::any_of(over.begin(), over.end(), [&](const Dim& o) { return o.name == d.name; });
    if (gone)
      count *= d.size;
    else
      kept.push_back(d);
  }
  if (const Node& made = GraphNodes::node(x); mean == Mean::yes && made.op && made.op->ignored()) {
    const Tensor labels = GraphNodes::input_of(x, made.op->label_input());
    double repeated = 1;
    for (const Dim& d : x.shape().dims())
      if (!Shape(kept).has(d.name) && !labels.shape().has(d.name)) repeated *= static_cast<double>(d.size);
    return graph->add(kind, name, std::make_shared<MeanOfCounted>(*made.op->ignored(), repeated), {x, labels}, Shape(kept));
  }
  const double scale = mean == Mean::yes ? 1.0 / static_cast<double>(std::max<Index>(count, 1)) : 1.0;
  return graph->add(kind, name, std::make_shared<Reduce>(scale), {x}, Shape(kept));
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<Dim>& over, const NameOption& o) {
  return reduce(x, over, "sum", o.name, Mean::no);
}
Tensor mean(const Tensor& x, const std::vector<Dim>& over, const NameOption& o) {
  return reduce(x, over, "mean", o.name, Mean::yes);
}

Tensor global_avg_pool2d(const Tensor& x, const Pool2dOptions& o) {
  const Shape& shape = x.shape();
  std::vector<Dim> over{o.over[0], o.over[1]};
  if (over[0].name.empty() && over[1].name.empty()) {
    if (shape.rank() < 3)
      throw UserError("global_avg_pool2d needs a tensor of 3 or 4 dims; \"" + x.name() + "\" has " + std::to_string(shape.rank()));
    over = {shape[shape.rank() - 2], shape[shape.rank() - 1]};
  }
  return reduce(x, over, "global_avg_pool2d", o.name, Mean::yes);
}

}  // namespace motley
