// SPDX-License-Identifier: Apache-2.0
// y = a * b, where b, the one with fewer dims, is broadcast over the dims that it lacks; da = dy b, db = sum of dy a.
#include "graph/compiled.h"
#include "graph/layer_kind.h"
#include "graph/nodes.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

const Compiled kMulCompiled({product()});

class Mul final : public Op {
 public:
  void forward(Lowering& to, const Node& node) const override {
    map_pass(to, node, "forward", {to.value(node.inputs[0]), to.value(node.inputs[1])}, to.value(node), product());
  }
  void backward(Lowering& to, const Node& node) const override {
    for (std::size_t i = 0; i < 2; i++) {
      const int x = to.value(node.inputs[i]), other = to.value(node.inputs[1 - i]);
      if (to.wants_gradient(x))
        map_pass(to, node, "backward_data " + std::to_string(i), {to.gradient(to.value(node)), other}, to.gradient(x), product());
    }
  }
};

}  // namespace

Tensor mul(const Tensor& a, const Tensor& b, const NameOption& o) {
  auto graph = GraphNodes::graph_of({a, b});
  floats_only("mul", a);
  floats_only("mul", b);
  if (b.shape().rank() > a.shape().rank()) return mul(b, a, o);
  for (const Dim& d : b.shape().dims()) {
    if (!a.shape().has(d.name))
      throw UserError("\"" + a.name() + "\" cannot be multiplied by \"" + b.name() + "\": it lacks its dim \"" + d.name +
                      "\"; one of the two has all dims of the other");
    if (a.shape().size_of(d.name) != d.size)
      throw UserError("\"" + a.name() + "\" and \"" + b.name() + "\" cannot be multiplied: \"" + d.name + "\" has the size " +
                      std::to_string(a.shape().size_of(d.name)) + " in one and " + std::to_string(d.size) + " in the other");
  }
  return graph->add("mul", o.name, std::make_shared<Mul>(), {a, b}, a.shape());
}

static const LayerKind kMulKind("mul", 2, {}, [](const LayerArguments& l) { return mul(l.x[0], l.x[1], {l.name}); });

}  // namespace motley
