// SPDX-License-Identifier: Apache-2.0
#include "svm/kernel_sums.h"

#include <algorithm>

#include "svm/index.h"
#include "svm/kernel_function.h"

namespace motley::svm {

void KernelSums::add(const Samples& vectors, std::span<const Index> of, std::span<const double> coefficients, Index width,
                     const Samples& samples, std::span<const Index> which, std::span<double> sums) const {
  const auto value = [&](Index v, Index k, double product) {
    return value_of(vectors.kernel, product, vectors.norms[at(of[at(v)])], samples.norms[at(which[at(k)])]);
  };
  const auto add_to = [&](Index v, Index k, double kernel) {
    for (Index s = 0; s < width; s++) sums[at(k * width + s)] += coefficients[at(v * width + s)] * kernel;
  };
  const Index features = std::max(vectors.data.features, samples.data.features);
  if (samples.density() >= kSparse) {
    const auto use = [&](Index v, Index count, Index k, Index rows, const double* products) {
      for (Index i = 0; i < count; i++)
        for (Index l = 0; l < rows; l++) add_to(v + i, k + l, value(v + i, k + l, products[i * cpu::kSampleBlock + l]));
    };
    return cpu::product_tiles(loops_, vectors.rows(), of, samples.rows(), which, features, threads_, use);
  }
  std::vector<double> x(at(features)), products(which.size());
  for (Index v = 0; v < static_cast<Index>(of.size()); v++) {
    const Index begin = vectors.data.offsets[at(of[at(v)])], end = vectors.data.offsets[at(of[at(v)]) + 1];
    for (Index e = begin; e < end; e++) x[at(vectors.data.columns[at(e)])] = vectors.data.values[at(e)];
    cpu::sparse_products(samples.rows(), which, x.data(), products.data(), threads_);
    for (Index e = begin; e < end; e++) x[at(vectors.data.columns[at(e)])] = 0;
    for (Index k = 0; k < static_cast<Index>(which.size()); k++) add_to(v, k, value(v, k, products[at(k)]));
  }
}

}  // namespace motley::svm
