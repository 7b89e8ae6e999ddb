// SPDX-License-Identifier: Apache-2.0
// Sequential minimal optimisation in loops, f64, dense, all samples at every iteration: what svm::train is compared with.
#pragma once
#include <motley/svm.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace motley::testing {

struct PlainSvm {
  std::vector<std::vector<double>> x{};  // [samples][features]
  std::vector<double> y{}, alpha{}, f{};
  svm::KernelFunction kernel{};
  double c = 1;
  Index iterations = 0;

  PlainSvm(const svm::Data& data, double positive, const svm::KernelFunction& function, double bound) : kernel(function), c(bound) {
    for (std::size_t s = 0; s < data.labels.size(); s++) {
      x.emplace_back(static_cast<std::size_t>(data.features), 0.0);
      for (Index e = data.offsets[s]; e < data.offsets[s + 1]; e++)
        x.back()[static_cast<std::size_t>(data.columns[static_cast<std::size_t>(e)])] = data.values[static_cast<std::size_t>(e)];
      y.push_back(data.labels[s] == positive ? 1 : -1);
      f.push_back(-y.back());
    }
    alpha.assign(y.size(), 0.0);
  }
  double product(std::size_t a, std::size_t b) const {
    double sum = 0;
    for (std::size_t k = 0; k < x[a].size(); k++) sum += x[a][k] * x[b][k];
    return sum;
  }
  double value(std::size_t a, std::size_t b) const {
    const double p = product(b, a);
    if (kernel.kind == svm::KernelKind::linear) return p;
    if (kernel.kind == svm::KernelKind::polynomial) return std::pow(kernel.gamma * p + kernel.coef0, kernel.degree);
    return std::exp(-kernel.gamma * std::max(0.0, product(a, a) + product(b, b) - 2 * p));
  }
  bool up(std::size_t k) const { return y[k] > 0 ? alpha[k] < c : alpha[k] > 0; }
  bool down(std::size_t k) const { return y[k] > 0 ? alpha[k] > 0 : alpha[k] < c; }
  double gap_of(const std::vector<double>& g) const {
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (std::size_t k = 0; k < g.size(); k++) {
      if (up(k)) least = std::min(least, g[k]);
      if (down(k)) most = std::max(most, g[k]);
    }
    return most - least;
  }
  // F from scratch.
  std::vector<double> gradient() const {
    std::vector<double> out;
    for (std::size_t k = 0; k < y.size(); k++) {
      double sum = -y[k];
      for (std::size_t j = 0; j < y.size(); j++)
        if (alpha[j] > 0) sum += alpha[j] * y[j] * value(j, k);
      out.push_back(sum);
    }
    return out;
  }
  double objective() const {
    const std::vector<double> g = gradient();
    double sum = 0;
    for (std::size_t k = 0; k < y.size(); k++) sum += alpha[k] * (y[k] * g[k] - 1) / 2;
    return sum;
  }

  void solve(double until) {
    while (gap_of(f) > until) {
      std::size_t i = y.size(), j = y.size();
      for (std::size_t k = 0; k < y.size(); k++)
        if (up(k) && (i == y.size() || f[k] < f[i])) i = k;
      double best = -1;
      for (std::size_t k = 0; k < y.size(); k++) {
        const double slope = f[k] - f[i];
        if (!down(k) || !(slope > 0)) continue;
        const double curvature = std::max(value(i, i) + value(k, k) - 2 * value(i, k), 1e-12), gain = slope * slope / curvature;
        if (gain > best) best = gain, j = k;
      }
      const double curvature = std::max(value(i, i) + value(j, j) - 2 * value(i, j), 1e-12);
      const double i_room = y[i] > 0 ? c - alpha[i] : alpha[i], j_room = y[j] > 0 ? alpha[j] : c - alpha[j];
      const double by = std::min({(f[j] - f[i]) / curvature, i_room, j_room});
      alpha[i] = by == i_room ? (y[i] > 0 ? c : 0) : alpha[i] + y[i] * by;
      alpha[j] = by == j_room ? (y[j] > 0 ? 0 : c) : alpha[j] - y[j] * by;
      for (std::size_t k = 0; k < y.size(); k++) f[k] += by * (value(i, k) - value(j, k));
      iterations++;
    }
  }
};

}  // namespace motley::testing
