// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum: g' = factor g + weight_decay w; v = momentum v + g'; w -= learning_rate v. Nesterov:
// w -= learning_rate (g' + momentum v) (Sutskever et al., "On the importance of initialization and momentum in deep learning",
// 2013).
#include <motley/error.h>

#include "graph/compiled.h"
#include "graph/optimizers.h"

namespace motley {

namespace {

Formula update_of(double momentum, double weight_decay, bool nesterov = false) {
  const Value g = operand(2), v = operand(3), w = operand(4);
  const Value slope = gradient_factor() * g + weight_decay * w, velocity = momentum * v + slope;
  return formula({velocity, w - learning_rate() * (nesterov ? slope + momentum * velocity : velocity)});
}

const Compiled kCompiled({update_of(0.5, 0.25), update_of(0.5, 0), update_of(0, 0.25), update_of(0, 0), update_of(0.5, 0.25, true),
                          update_of(0.5, 0, true)});

const OptimizerKind kKind("sgd",
                          {{"momentum", "fraction of the previous update that is kept", Sgd{}.momentum, 1},
                           {"weight_decay", "times the parameter, added to its gradient", Sgd{}.weight_decay},
                           {.name = "nesterov", .doc = "whether the momentum looks ahead", .flag = true}},
                          [](double rate, const std::vector<double>& values) -> Optimizer {
                            return Sgd{.learning_rate = rate,
                                       .momentum = values[0],
                                       .weight_decay = values[1],
                                       .nesterov = values[2] != 0};
                          });

}  // namespace

Optimizer::Optimizer(const Sgd& sgd)
    : kind("sgd"),
      learning_rate(sgd.learning_rate),
      slots{"velocity"},
      update(update_of(sgd.momentum, sgd.weight_decay, sgd.nesterov)) {
  if (sgd.nesterov && !(sgd.momentum > 0)) throw UserError("nesterov needs a momentum above 0");
}

}  // namespace motley
