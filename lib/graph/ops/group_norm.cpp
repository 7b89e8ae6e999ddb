// SPDX-License-Identifier: Apache-2.0
// y = (x - mean) / sqrt(variance + epsilon) * weight + bias per sample and group of one dim's values, weight and bias per value (Wu
// and He, arXiv 1803.08494).
#include "graph/ops/norms.h"

namespace motley {

Tensor group_norm(const Tensor& x, const GroupNormOptions& o) {
  const Dim of = normalised_dim("group_norm", x, o.of);
  const std::string samples = GraphNodes::samples_of(x).name;
  if (of.name == samples)
    throw UserError("group_norm normalises each sample separately: `of` cannot be \"" + of.name + "\", which counts them");
  if (o.groups < 1 || of.size % o.groups != 0)
    throw UserError("`groups` is " + std::to_string(o.groups) + "; expected a number that divides the " + std::to_string(of.size) +
                    " of \"" + of.name + "\"");
  NormForm form{.affine = {of.name}, .epsilon = o.epsilon, .grouped = of.name, .groups = o.groups};
  for (const Dim& d : x.shape().dims())
    if (d.name != of.name && d.name != samples) form.over.push_back(d.name);
  return normalised("group_norm", x, form, o.name);
}

static const LayerKind kGroupNormKind(
    "group_norm", 1,
    {{.name = "groups",
      .doc = "number of groups of consecutive values of `of`; each group is normalised separately",
      .kind = LayerKey::Kind::whole,
      .least = 1,
      .most = 1e12,
      .required = true},
     {"of", "the dim whose values are grouped; default: its input's second", LayerKey::Kind::names},
     epsilon_key(1e-5)},
    [](const LayerArguments& l) {
      return group_norm(l.in(), {.groups = static_cast<Index>(l.numbers.at("groups")),
                                 .of = named_dim("group_norm", l.names.at("of")),
                                 .epsilon = l.numbers.at("epsilon"),
                                 .name = l.name});
    });

}  // namespace motley
