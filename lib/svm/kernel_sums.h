// SPDX-License-Identifier: Apache-2.0
// Sums of kernel values in f64, each in a fixed order: gradients from scratch, and decisions.
#pragma once
#include <span>
#include <vector>

#include "svm/rows.h"

namespace motley::svm {

class KernelSums {
 public:
  KernelSums(const cpu::SmoLoops& loops, int threads) : loops_(loops), threads_(threads) {}
  // sums[k, s] += the sum over v, in order, of coefficients[v, s] * K(vectors[of[v]], samples[which[k]]), for s < width.
  void add(const Samples& vectors, std::span<const Index> of, std::span<const double> coefficients, Index width,
           const Samples& samples, std::span<const Index> which, std::span<double> sums) const;

 private:
  const cpu::SmoLoops& loops_;
  int threads_;
};

}  // namespace motley::svm
