// SPDX-License-Identifier: Apache-2.0
// y = (x - mean) / sqrt(variance + epsilon) * weight + bias per value of one dim, over the whole batch whatever the cut; an
// inference reads running statistics instead (Ioffe and Szegedy, arXiv 1502.03167).
#include "graph/ops/norms.h"

namespace motley {

Tensor batch_norm(const Tensor& x, const BatchNormOptions& o) {
  const std::string of = normalised_dim("batch_norm", x, o.of).name;
  const std::string samples = GraphNodes::samples_of(x).name;
  if (of == samples)
    throw UserError("batch_norm: `of` names \"" + of +
                    "\", which counts the samples; statistics are taken over the samples: name another dim");
  NormForm form{.affine = {of}, .epsilon = o.epsilon, .running = true, .momentum = o.momentum};
  form.local = o.local;
  for (const Dim& d : x.shape().dims())
    if (d.name != of && !(o.local && d.name == samples)) form.over.push_back(d.name);
  return normalised("batch_norm", x, form, o.name);
}

static const LayerKind kBatchNormKind(
    "batch_norm", 1,
    {{"of", "the channel dim, each of whose values has its own statistics; default: its input's second", LayerKey::Kind::names},
     {"momentum", "weight of a step's statistics in the running statistics", LayerKey::Kind::number, 0.1, 0, 1},
     epsilon_key(1e-5),
     {"statistics",
      "global: over the whole batch whatever the cut; local: over the samples of each device, so that the result depends on the "
      "cut",
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
