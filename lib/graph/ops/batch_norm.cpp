// SPDX-License-Identifier: Apache-2.0
// y = (x - mean) / sqrt(variance + epsilon) * weight + bias per value of one dim, over the whole batch whatever the cut; an
// inference reads running statistics instead (Ioffe and Szegedy, arXiv 1502.03167).
#include "graph/ops/norms.h"
#include "graph/ops/shapes.h"

namespace motley {

Tensor batch_norm(const Tensor& x, const BatchNormOptions& o) {
  if (o.of.name.empty() && x.shape().rank() < 2)
    throw UserError("batch_norm normalises per value of its input's second dim; \"" + x.name() + "\" has " +
                    std::to_string(x.shape().rank()) + ", name another one with `of`");
  const std::string of = o.of.name.empty() ? x.shape()[1].name : dim_of("batch_norm", x, o.of.name, "of").name;
  NormForm form{.affine = {of}, .epsilon = o.epsilon, .running = true, .momentum = o.momentum};
  for (const Dim& d : x.shape().dims())
    if (d.name != of) form.over.push_back(d.name);
  return normalised("batch_norm", x, form, o.name);
}

static const LayerKind kKind("batch_norm", 1,
                             {{"of", "the dim that is normalised per value; default: its input's second", LayerKey::Kind::names},
                              {"momentum", "part of a step's statistics in the running ones", LayerKey::Kind::number, 0.1, 0, 1},
                              epsilon_key(1e-5)},
                             [](const LayerArguments& l) {
                               BatchNormOptions o{
                                   .momentum = l.numbers.at("momentum"), .epsilon = l.numbers.at("epsilon"), .name = l.name};
                               const std::vector<std::string>& of = l.names.at("of");
                               if (of.size() > 1)
                                 throw UserError("batch_norm normalises per value of one dim; `of` names " +
                                                 std::to_string(of.size()));
                               if (!of.empty()) o.of = {of.front(), 0};
                               return batch_norm(l.in(), o);
                             });

}  // namespace motley
