// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum: g' = factor g + weight_decay w; v = momentum v + g'; w -= learning_rate v. Nesterov:
// w -= learning_rate (g' + momentum v) (Sutskever et al., "On the importance of initialization and momentum in deep learning",
// 2013).
#include <motley/error.h>

#include "graph/compiled.h"
#include "graph/optimizers.h"
#include "graph/update_form.h"

namespace motley {

namespace {

const std::vector<OptimizerKey>& keys_of_sgd() {
  static const std::vector<OptimizerKey> list{
      {"momentum", "fraction of the previous update that is kept", Sgd{}.momentum, 1},
      {"weight_decay", "factor of the parameter that is added to its gradient", Sgd{}.weight_decay},
      {.name = "nesterov", .doc = "whether the momentum is that of Nesterov", .most = 1, .flag = true}};
  return list;
}

Formula update_of(double momentum, bool nesterov) {
  const Value g = operand(3), v = operand(4), w = operand(5);
  const Value slope = gradient_factor() * g + weight_decay() * w, velocity = momentum * v + slope;
  return formula({velocity, w - learning_rate() * (nesterov ? slope + momentum * velocity : velocity)});
}

const Compiled kSgdCompiled(formulas_of({Sgd{.momentum = 0.5}, Sgd{}, Sgd{.momentum = 0.5, .nesterov = true}}));

const OptimizerKind kSgdKind("sgd", keys_of_sgd(), [](double rate, const std::vector<double>& values, Decay decay) -> Optimizer {
  return Sgd{.learning_rate = rate, .momentum = values[0], .weight_decay = values[1], .nesterov = values[2] != 0, .decay = decay};
});

}  // namespace

Optimizer::Optimizer(const Sgd& sgd)
    : kind("sgd"),
      learning_rate(sgd.learning_rate),
      weight_decay(sgd.weight_decay),
      decay(sgd.decay),
      slots{"velocity"},
      update(update_of(sgd.momentum, sgd.nesterov)) {
  check_values(kind, learning_rate, keys_of_sgd(), {sgd.momentum, sgd.weight_decay, sgd.nesterov ? 1.0 : 0.0});
  if (sgd.nesterov && !(sgd.momentum > 0)) throw UserError("nesterov needs a momentum above 0");
}

}  // namespace motley
