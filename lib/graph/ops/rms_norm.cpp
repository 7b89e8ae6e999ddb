// SPDX-License-Identifier: Apache-2.0
// y = x / sqrt(mean of x^2 + epsilon) * weight over some dims of each sample (Zhang and Sennrich, arXiv 1910.07467).
#include "graph/ops/norms.h"
#include "graph/ops/shapes.h"

namespace motley {

Tensor rms_norm(const Tensor& x, const RmsNormOptions& o) {
  NormForm form{.centered = false, .epsilon = o.epsilon};
  check_dims("rms_norm", x, o.over, "over");
  for (const Dim& d : o.over) form.over.push_back(d.name);
  if (form.over.empty() && x.shape().rank() > 0) form.over.push_back(x.shape().dims().back().name);
  form.affine = form.over;
  return normalised("rms_norm", x, form, o.name);
}

static const LayerKind kRmsNormKind("rms_norm", 1,
                                    {over_key("the dims that are normalised together; default: its input's last"),
                                     epsilon_key(RmsNormOptions{}.epsilon)},
                                    [](const LayerArguments& l) {
                                      RmsNormOptions o{.epsilon = l.numbers.at("epsilon"), .name = l.name};
                                      for (const std::string& dim : l.names.at("over")) o.over.push_back({dim, 0});
                                      return rms_norm(l.in(), o);
                                    });

}  // namespace motley
