// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "svm/kernel_sums.h"
#include "svm/solver.h"

namespace motley::svm {

std::vector<double> gradients(const Tools& tools, const Pair& pair, const std::vector<double>& alpha, std::span<const Index> ids) {
  std::vector<Index> vectors, which;
  std::vector<double> coefficients, out;
  for (std::size_t i = 0; i < alpha.size(); i++)
    if (alpha[i] > 0) {
      vectors.push_back(pair.samples[i]);
      coefficients.push_back(alpha[i] * pair.signs[i]);
    }
  for (const Index id : ids) {
    which.push_back(pair.samples[static_cast<std::size_t>(id)]);
    out.push_back(-pair.signs[static_cast<std::size_t>(id)]);
  }
  KernelSums sums(tools.loops, tools.threads);
  sums.add(tools.samples, vectors, coefficients, 1, tools.samples, which, out);
  return out;
}

bool moves_up(double alpha, double sign, double c) {
  return sign > 0 ? alpha < c : alpha > 0;
}
bool moves_down(double alpha, double sign, double c) {
  return sign > 0 ? alpha > 0 : alpha < c;
}

Bounds bounds_of(const Pair& pair, const std::vector<double>& alpha, const std::vector<double>& f, double c) {
  Bounds out{kInfinity, -kInfinity};
  for (std::size_t i = 0; i < f.size(); i++) {
    if (moves_up(alpha[i], pair.signs[i], c)) out.up = std::min(out.up, f[i]);
    if (moves_down(alpha[i], pair.signs[i], c)) out.low = std::max(out.low, f[i]);
  }
  return out;
}

}  // namespace motley::svm
