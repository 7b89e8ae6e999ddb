// SPDX-License-Identifier: Apache-2.0
// x times the standard normal distribution function at x (Hendrycks and Gimpel, arXiv 1606.08415, eq. 1). A model file's layer may
// choose the tanh of gelu_tanh.cpp instead of erf.
#include "graph/layer_kind.h"
#include "graph/pointwise.h"

namespace motley {

static const Pointwise kGelu("gelu", [](const Value& x) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  return 0.5 * x * (1.0 + erf(kSqrtHalf * x));
});

Tensor gelu(const Tensor& x, const NameOption& o) {
  return kGelu(x, o.name);
}

static const LayerKind kGeluKind(
    "gelu", 1,
    {{.name = "approximate",
      .doc = "tanh: the approximation by tanh, as in GPT-2; none: by erf; \"activation\": \"gelu_tanh\" is the former",
      .kind = LayerKey::Kind::word,
      .words = {"none", "tanh"}}},
    [](const LayerArguments& l) {
      return l.words.at("approximate") == "tanh" ? gelu_tanh(l.in(), {l.name}) : gelu(l.in(), {l.name});
    });

}  // namespace motley
