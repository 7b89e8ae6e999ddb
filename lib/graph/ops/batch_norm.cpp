// SPDX-License-Identifier: Apache-2.0
// y = (x - mean) / sqrt(variance + epsilon) * weight + bias per value of one dim, over the whole batch whatever the cut; an
// inference reads running statistics instead (Ioffe and Szegedy, arXiv 1502.03167).
#include "graph/ops/norms.h"

namespace motley {

Tensor batch_norm(const Tensor& x, const BatchNormOptions& o) {
  const std::string of = normalised_dim("batch_norm", x, o.of).name;
  const std::string samples = GraphNodes::samples_of(x).name;
  if (of == samples)
    throw UserError("batch_norm: `of` names \"" + of + "\", which counts the samples; statistics are over them: name another dim");
  NormForm form{.affine = {of}, .epsilon = o.epsilon, .running = true, .momentum = o.momentum};
  form.local = o.local;
  for (const Dim& d : x.shape().dims())
    if (d.name != of && !(o.local && d.name == samples)) form.over.push_back(d.name);
  return normalised("batch_norm", x, form, o.name);
}

static const LayerKind kKind(
    "batch_norm", 1,
    {{"of", "the dim that is normalised per value; default: its input's second", LayerKey::Kind::names},
     {"momentum", "part of a step's statistics in the running ones", LayerKey::Kind::number, 0.1, 0, 1},
     epsilon_key(1e-5),
     {"statistics",
      "over the whole batch whatever the cut, or over the samples that each device has: another cut is then "
      "another network",
      LayerKey::Kind::word,
      0,
      0,
      0,
      {"global", "local"}}},
    [](const LayerArguments& l) {
      return batch_norm(l.in(), {.of = named_dim("batch_norm", l.names.at("of")),
                                 .momentum = l.numbers.at("momentum"),
                                 .epsilon = l.numbers.at("epsilon"),
                                 .local = l.words.at("statistics") == "local",
                                 .name = l.name});
    });

}  // namespace motley
