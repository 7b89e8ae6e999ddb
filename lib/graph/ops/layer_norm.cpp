// SPDX-License-Identifier: Apache-2.0
// y = (x - mean) / sqrt(variance + epsilon) * weight + bias over some dims of each sample (Ba, Kiros, Hinton, arXiv 1607.06450).
#include "graph/ops/norms.h"
#include "graph/ops/shapes.h"

namespace motley {

Tensor layer_norm(const Tensor& x, const LayerNormOptions& o) {
  NormForm form{.epsilon = o.epsilon};
  check_dims("layer_norm", x, o.over, "over");
  for (const Dim& d : o.over) form.over.push_back(d.name);
  if (form.over.empty() && x.shape().rank() > 0) form.over.push_back(x.shape().dims().back().name);
  form.affine = form.over;
  return normalised("layer_norm", x, form, o.name);
}

static const LayerKind kLayerNormKind("layer_norm", 1,
                                      {over_key("the dims that are normalised together; default: its input's last"),
                                       epsilon_key(1e-5)},
                                      [](const LayerArguments& l) {
                                        LayerNormOptions o{.epsilon = l.numbers.at("epsilon"), .name = l.name};
                                        for (const std::string& dim : l.names.at("over")) o.over.push_back({dim, 0});
                                        return layer_norm(l.in(), o);
                                      });

}  // namespace motley
