// SPDX-License-Identifier: Apache-2.0
// y = 0 with probability `rate`, else x / (1 - rate) (Srivastava et al., JMLR 15, 2014); in an inference y = x. What is dropped is
// determined by seed, name, step and global index alone: the same bits for every layout, on every device. The gradient draws the
// same numbers again.
#include <cmath>

#include "base/interval.h"
#include "graph/compiled.h"
#include "graph/layer_kind.h"
#include "graph/nodes.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

// Formula of x and its sample's key; the positions along the dims other than the samples' are mixed in one after the other. The
// rate is a multiple of 2^-24, as are the numbers that it is compared with: rounding does not affect the decision.
Formula dropped(std::size_t rank, std::size_t samples, double rate) {
  Value random = integer(1);
  for (std::size_t d = 0; d < rank; d++)
    if (d != samples) random = mix(random, position(static_cast<int>(d)));
  const double least = std::round(rate * 0x1p24) * 0x1p-24;
  return formula({select(uniform(random) < least, 0.0, operand(0) * (1 / (1 - rate)))});
}

const Compiled kDropoutCompiled({dropped(1, 0, 0.1), dropped(2, 0, 0.1), dropped(3, 0, 0.1), dropped(4, 0, 0.1)});

class Dropout final : public Op {
 public:
  explicit Dropout(double rate) : rate_(rate) {}
  void forward(Lowering& to, const Node& node) const override {
    drop(to, node, "forward", to.value(node.inputs[0]), to.value(node));
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]);
    if (to.wants_gradient(x)) drop(to, node, "backward_data", to.gradient(to.value(node)), to.gradient(x));
  }

 private:
  void drop(Lowering& to, const Node& node, const std::string& what, int from, int into) const {
    if (!to.trains() || rate_ == 0) return static_cast<void>(copy_pass(to, node, what, from, into));
    const Dim samples = to.samples_of(node.shape);
    map_pass(to, node, what, {from, to.key(node, Shape{samples})}, into,
             dropped(node.shape.rank(), node.shape.position(samples.name), rate_));
  }
  double rate_;
};

}  // namespace

Tensor dropout(const Tensor& x, const DropoutOptions& o) {
  floats_only("dropout", x);
  require_within("dropout: rate", o.rate, {.least = 0, .most = 1, .below = true});
  if (x.shape().rank() == 0) throw UserError("dropout needs a tensor with dims; \"" + x.name() + "\" is a scalar");
  return GraphNodes::graph_of({x})->add("dropout", o.name, std::make_shared<Dropout>(o.rate), {x}, x.shape());
}

static const LayerKind kDropoutKind(
    "dropout", 1, {{"rate", "probability that an element becomes 0", LayerKey::Kind::number, 0.5, 0, 1, {}, false, true}},
    [](const LayerArguments& l) { return dropout(l.in(), {.rate = l.numbers.at("rate"), .name = l.name}); });

}  // namespace motley
