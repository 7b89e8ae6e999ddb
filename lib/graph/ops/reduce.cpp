// SPDX-License-Identifier: Apache-2.0
// sum, mean over dims, and the global average pool: y = scale * sum of x; dx = scale * broadcast(dy).
#include <algorithm>

#include "graph/nodes.h"

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

enum class Mean : std::uint8_t { no, yes };

Tensor reduce(const Tensor& x, const std::vector<Dim>& over, const std::string& kind, const std::string& name, Mean mean) {
  auto graph = GraphNodes::graph_of({x});
  for (const Dim& d : over) x.shape().position(d.name);
  std::vector<Dim> kept;
  Index count = 1;
  for (const Dim& d : x.shape().dims()) {
    const bool gone = over.empty() || std::any_of(over.begin(), over.end(), [&](const Dim& o) { return o.name == d.name; });
    if (gone)
      count *= d.size;
    else
      kept.push_back(d);
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
