// SPDX-License-Identifier: Apache-2.0
// A learned constant: y = w.
#include "graph/layer_kind.h"
#include "graph/nodes.h"

namespace motley {

namespace {

class Parameter final : public Op {
 public:
  explicit Parameter(WeightOptions weight) : weight_(std::move(weight)) {}
  bool has_parameters() const override { return true; }
  void forward(Lowering& to, const Node& node) const override {
    copy_pass(to, node, "forward", to.weight(node, weight_, node.shape), to.value(node));
  }
  void backward(Lowering& to, const Node& node) const override {
    copy_pass(to, node, "backward", to.gradient(to.value(node)), to.gradient(to.weight(node, weight_, node.shape)));
  }

 private:
  WeightOptions weight_;
};

}  // namespace

Tensor Graph::parameter(const Shape& shape, const ParameterOptions& o) {
  const WeightOptions weight{.initial = o.initial, .deviation = o.deviation};
  nodes_->check_weight(weight);
  if (shape.rank() == 0) throw UserError("parameter needs a shape: one dim at least");
  for (const Dim& d : shape.dims()) nodes_->declare(d);
  return nodes_->add("parameter", o.name, std::make_shared<Parameter>(weight), {}, shape);
}

static const LayerKind kKind("parameter", 0, {{"shape", "its dims and their sizes", LayerKey::Kind::dims}},
                             [](const LayerArguments& l) {
                               const WeightOptions weight = l.weight.value_or(
                                   WeightOptions{.initial = InitialWeights::normal, .deviation = ParameterOptions{}.deviation});
                               if (!weight.layer.empty())
                                 throw UserError("a parameter has a weight of its own; leave `weight` out");
                               return l.graph->parameter(
                                   Shape(l.dims.at("shape")),
                                   {.initial = weight.initial, .deviation = weight.deviation, .name = l.name});
                             },
                             {.weight = true});

}  // namespace motley
