// SPDX-License-Identifier: Apache-2.0
/// @file
/// How parameters are updated.
#pragma once
#include <motley/formula.h>

#include <cstdint>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup network
/// @{

/// The parameters that weight decay takes from: all, or (weights) all but biases and those of norms. The op that declares a
/// parameter decides which it is.
enum class Decay : std::uint8_t { all, weights };

/// Stochastic gradient descent, as PyTorch's: `g' = g + weight_decay*w; v = momentum*v + g'` (v starts at 0); `w -=
/// learning_rate*v`; with nesterov `w -= learning_rate*(g' + momentum*v)`.
struct Sgd {
  double learning_rate = 0.01;  ///< step size of the update
  double momentum = 0.0;        ///< fraction of the previous update that is kept
  double weight_decay = 0.0;    ///< times the parameter, added to its gradient
  bool nesterov = false;        ///< whether the momentum looks ahead; needs one above 0
  Decay decay = Decay::all;     ///< whose decay
  bool operator==(const Sgd&) const = default;
};
/// Adam (Kingma and Ba, arXiv 1412.6980), as PyTorch's: `g' = g + weight_decay*w; m = beta1*m + (1-beta1)*g'; v = beta2*v +
/// (1-beta2)*g'^2`; `w -= learning_rate * m/(1-beta1^t) / (sqrt(v/(1-beta2^t)) + epsilon)` in step t.
struct Adam {
  double learning_rate = 1e-3;  ///< step size of the update
  double beta1 = 0.9;           ///< fraction of the mean gradient that is kept
  double beta2 = 0.999;         ///< fraction of the mean squared gradient that is kept
  double epsilon = 1e-8;        ///< added to the root
  double weight_decay = 0.0;    ///< times the parameter, added to its gradient
  Decay decay = Decay::all;     ///< whose decay
};
/// Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101), as PyTorch's: the gradient stays as it is, `w -=
/// learning_rate*weight_decay*w` besides.
struct AdamW {
  double learning_rate = 1e-3;  ///< step size of the update
  double beta1 = 0.9;           ///< fraction of the mean gradient that is kept
  double beta2 = 0.999;         ///< fraction of the mean squared gradient that is kept
  double epsilon = 1e-8;        ///< added to the root
  double weight_decay = 0.01;   ///< times learning rate and parameter, taken from the parameter
  Decay decay = Decay::all;     ///< whose decay
};
/// LAMB (You et al., arXiv 1904.00962, algorithm 2): m, v as Adam's of the plain gradient; `u = m/(1-beta1^t) /
/// (sqrt(v/(1-beta2^t)) + epsilon) + weight_decay*w`; `w -= learning_rate * r*u`, r the L2 norm of the complete parameter w divided
/// by that of its u, wherever their parts are; 1 where either is 0.
struct Lamb {
  double learning_rate = 1e-3;  ///< step size of the update
  double beta1 = 0.9;           ///< fraction of the mean gradient that is kept
  double beta2 = 0.999;         ///< fraction of the mean squared gradient that is kept
  double epsilon = 1e-6;        ///< added to the root
  double weight_decay = 0.01;   ///< times the parameter, added to what it moves by
  Decay decay = Decay::all;     ///< whose decay
};

/// How parameters are updated: any of the above. UserError: one of their values is not in its range (rates, decays and epsilon from
/// 0, a momentum to 1, beta1 and beta2 to below 1).
struct Optimizer {
  Optimizer(const Sgd& sgd = {});    ///< stochastic gradient descent
  Optimizer(const Adam& adam);       ///< Adam
  Optimizer(const AdamW& adamw);     ///< Adam, decoupled weight decay
  Optimizer(const Lamb& lamb);       ///< LAMB
  std::string kind{};                ///< "sgd", "adam", "adamw", "lamb"
  double learning_rate = 0;          ///< step size, before a schedule
  double weight_decay = 0;           ///< of the parameters that decay
  Decay decay = Decay::all;          ///< which these are
  std::vector<std::string> slots{};  ///< what it keeps per parameter, 0 at the start: "velocity"
  Formula scalars{};                 ///< of the step's number, from 1: what the update needs besides; no code: nothing
  /// Scalars learning rate, factor of the gradient, weight decay, those above; then gradient, slots, parameter -> slots, parameter.
  /// Where there is a direction -> slots alone.
  Formula update{};
  /// The scalars; then slots, parameter -> u, by which the parameter then moves: `w -= learning_rate * r*u`, r the norm of w by
  /// that of u, both of the complete parameter. No code: there is none.
  Formula direction{};
  bool operator==(const Optimizer&) const = default;
};

/// @}
}  // namespace motley
