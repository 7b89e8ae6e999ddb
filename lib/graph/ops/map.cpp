// SPDX-License-Identifier: Apache-2.0
// y = formula(t0, t1, ...), element by element; a tensor is repeated along the dims that it lacks, and its gradient is summed over
// them. dt of each is dy times the formula's derivative.
#include "graph/ops/map.h"

#include "graph/layer_kind.h"
#include "graph/map_formula.h"
#include "graph/nodes.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

class Map final : public Op {
 public:
  explicit Map(MapFormula formula) : formula_(std::move(formula)) {}
  void forward(Lowering& to, const Node& node) const override {
    std::vector<int> all;
    for (const int x : node.inputs) all.push_back(to.value(x));
    map_pass(to, node, "forward", all, to.value(node), formula_.value);
  }
  void backward(Lowering& to, const Node& node) const override {
    const int dy = to.gradient(to.value(node));
    for (std::size_t k = 0; k < node.inputs.size(); k++) {
      const int x = to.value(node.inputs[k]);
      if (to.wants_gradient(x)) backward_of(to, node, k, dy, to.gradient(x));
    }
  }

 private:
  void backward_of(Lowering& to, const Node& node, std::size_t k, int dy, int dx) const {
    const MapGradient& g = formula_.gradients[k];
    const std::string what = "backward_data " + std::to_string(k);
    if (g.zero) return static_cast<void>(copy_pass(to, node, what, dy, dx, 0.0));
    std::vector<int> reads;
    for (const int i : g.reads) reads.push_back(to.value(at(node.inputs, i)));
    if (!g.apart) {
      reads.insert(reads.begin(), dy);
      return static_cast<void>(map_pass(to, node, what, reads, dx, g.formula));
    }
    const int slope = to.inner(node, "slope_" + std::to_string(k), node.shape);
    map_pass(to, node, "slope " + std::to_string(k), reads, slope, g.formula);
    map_pass(to, node, what, {dy, slope}, dx, product());
  }

  MapFormula formula_;
};

}  // namespace

Tensor map_as(const std::string& op, const std::string& formula, const std::vector<Tensor>& x, const std::string& name) {
  MapFormula its = parse_map(formula, x.size());
  auto graph = GraphNodes::graph_of(x);
  for (const Tensor& t : x) floats_only(op, t);
  const Shape shape = with_all_dims("combined", x).shape();
  return graph->add(op, name, std::make_shared<Map>(std::move(its)), x, shape);
}

Tensor map(const std::string& formula, const std::vector<Tensor>& x, const NameOption& o) {
  return map_as("map", formula, x, o.name);
}

static const LayerKind kMapKind("map", 1,
                                {{.name = "formula",
                                  .doc = "of its tensors t0, t1, ..., as \"t0 * tanh(softplus(t0))\": docs/own_ops.md",
                                  .kind = LayerKey::Kind::formula,
                                  .required = true}},
                                [](const LayerArguments& l) { return map(l.words.at("formula"), l.x, {l.name}); },
                                {.most = kMostOperands});

}  // namespace motley
