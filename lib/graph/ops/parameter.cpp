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
  const WeightOptions* weight() const override { return &weight_; }
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
  const WeightOptions weight = nodes_->weight_of({.initial = o.initial, .deviation = o.deviation});
  if (shape.rank() == 0) throw UserError("parameter needs a shape: one dim at least");
  nodes_->declare(shape.dims());
  return nodes_->add("parameter", o.name, std::make_shared<Parameter>(weight), {}, shape);
}

static const LayerKind kParameterKind("parameter", 0, {{"shape", "its dims and their sizes", LayerKey::Kind::dims}},
                                      [](const LayerArguments& l) {
                                        if (!l.weight.layer.empty())
                                          throw UserError("a parameter has a weight of its own; leave `weight` out");
                                        return l.graph->parameter(
                                            Shape(l.dims.at("shape")),
                                            {.initial = l.weight.initial, .deviation = l.weight.deviation, .name = l.name});
                                      },
                                      {.weight = WeightOptions{.initial = ParameterOptions{}.initial,
                                                               .deviation = ParameterOptions{}.deviation}});

}  // namespace motley
