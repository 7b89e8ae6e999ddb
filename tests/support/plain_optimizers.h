// SPDX-License-Identifier: Apache-2.0
// Optimizers by plain loops, and a network whose gradients are what is fed.
#pragma once
#include <motley/ops.h>
#include <motley/plan.h>
#include <motley/step.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/support/each_index.h"

namespace motley::law {

using Values = std::vector<double>;

inline double norm_of(const Values& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

// One parameter and what an optimizer keeps of it, by loops.
struct Plain {
  Values w{}, first{}, second{};
  void step(const Lamb& o, const Values& g, int t, bool decays) {
    first.resize(w.size()), second.resize(w.size());
    Values u;
    for (std::size_t i = 0; i < w.size(); i++) {
      first[i] = o.beta1 * first[i] + (1 - o.beta1) * g[i];
      second[i] = o.beta2 * second[i] + (1 - o.beta2) * g[i] * g[i];
      const double m = first[i] / (1 - std::pow(o.beta1, t)), v = second[i] / (1 - std::pow(o.beta2, t));
      u.push_back(m / (std::sqrt(v) + o.epsilon) + (decays ? o.weight_decay * w[i] : 0));
    }
    const double a = norm_of(w), b = norm_of(u), ratio = a > 0 && b > 0 ? a / b : 1;
    for (std::size_t i = 0; i < w.size(); i++) w[i] -= o.learning_rate * ratio * u[i];
  }
  void step(const AdamW& o, const Values& g, int t, bool decays) {
    first.resize(w.size()), second.resize(w.size());
    for (std::size_t i = 0; i < w.size(); i++) {
      if (decays) w[i] -= o.learning_rate * o.weight_decay * w[i];
      first[i] = o.beta1 * first[i] + (1 - o.beta1) * g[i];
      second[i] = o.beta2 * second[i] + (1 - o.beta2) * g[i] * g[i];
      w[i] -=
          o.learning_rate * first[i] / (1 - std::pow(o.beta1, t)) / (std::sqrt(second[i] / (1 - std::pow(o.beta2, t))) + o.epsilon);
    }
  }
  void step(const Adam& o, Values g, int t, bool decays) {
    for (std::size_t i = 0; i < w.size() && decays; i++) g[i] += o.weight_decay * w[i];
    step(AdamW{o.learning_rate, o.beta1, o.beta2, o.epsilon, 0}, g, t, false);
  }
  void step(const Sgd& o, const Values& g, int, bool decays) {
    first.resize(w.size());
    for (std::size_t i = 0; i < w.size(); i++) {
      const double slope = g[i] + (decays ? o.weight_decay * w[i] : 0);
      first[i] = o.momentum * first[i] + slope;
      w[i] -= o.learning_rate * (o.nesterov ? slope + o.momentum * first[i] : first[i]);
    }
  }
};

// Calls use(optimizer) for each kind.
template <class F>
void each_optimizer(Decay decay, F&& use) {
  use(Sgd{.learning_rate = 0.1, .momentum = 0.8, .weight_decay = 0.3, .decay = decay});
  use(Sgd{.learning_rate = 0.1, .momentum = 0.8, .weight_decay = 0.3, .nesterov = true, .decay = decay});
  use(Adam{.learning_rate = 0.1, .epsilon = 1e-2, .weight_decay = 0.3, .decay = decay});
  use(AdamW{.learning_rate = 0.1, .epsilon = 1e-2, .weight_decay = 0.3, .decay = decay});
  use(Lamb{.learning_rate = 0.1, .epsilon = 1e-2, .weight_decay = 0.3, .decay = decay});
  use(Lamb{.learning_rate = 0.1, .epsilon = 1e-2, .weight_decay = 0, .decay = decay});
}

// Two parameters whose gradients are what is fed.
inline constexpr Index kRows = 5, kCols = 7;
struct Fed {
  Graph graph{};
  Tensor x{}, y{}, out{}, other{}, loss{};
  explicit Fed(InitialWeights initial = InitialWeights::normal) {
    const Dim rows{"rows", kRows}, cols{"cols", kCols};
    x = graph.input("x", {rows, cols}), y = graph.input("y", {cols});
    const Tensor p = graph.parameter({rows, cols}, {.initial = initial, .deviation = 1, .name = "p"}),
                 q = graph.parameter({cols}, {.deviation = 0.1, .name = "q"});
    out = mul(x, p), other = mul(y, q);
    loss = add(sum(out), sum(other));
  }
};

// Values of a step's input by its global index.
inline ReadBox values(const std::string& name, const Shape& shape, int step) {
  return [stream = RandomStream(static_cast<std::uint64_t>(step), name), shape](const Box& box, std::span<std::byte> out) {
    std::size_t k = 0;
    for_each_index(box, [&](const std::vector<Index>& here) {
      const double value = 2 * stream.uniform(static_cast<std::uint64_t>(position_of(shape, here))) - 1;
      std::memcpy(out.data() + sizeof value * k++, &value, sizeof value);
    });
  };
}
inline Values all_values(const std::string& name, const Shape& shape, int step) {
  Values out(static_cast<std::size_t>(shape.elements()));
  values(name, shape, step)(whole(shape), std::as_writable_bytes(std::span(out)));
  return out;
}
inline std::map<std::string, ReadBox> feeds(const Fed& net, int step) {
  return {{"x", values("x", net.x.shape(), step)}, {"y", values("y", net.y.shape(), step)}};
}

inline LayoutRules fed_rules(int ranks, int way) {
  if (ranks == 1 || way == 2) return {};
  Sizes parts{{way == 0 ? 4 : 6, 1}};
  for (int r = 2; r < ranks; r++) parts.of.insert(parts.of.begin() + r % 2, 0);
  return {{way == 0 ? "rows" : "cols", "a", parts}};
}

}  // namespace motley::law
