// SPDX-License-Identifier: Apache-2.0
// Rows of the kernel matrix: one sample with those of this rank that take part.
#pragma once
#include <motley/backend.h>
#include <motley/svm.h>

#include <memory>
#include <span>
#include <vector>

#include "kernels/smo/smo.h"

namespace motley::svm {

// The samples, as every rank has them; a sample is named by its row of the data.
struct Samples {
  Samples(const Data& of, const KernelFunction& function);
  const Data& data;
  KernelFunction kernel;
  std::vector<double> norms{};  // the product of each sample with itself
  cpu::SparseRows rows() const { return {data.offsets.data(), data.columns.data(), data.values.data()}; }
  double diagonal(Index sample) const;  // K(sample, sample)
  double density() const;               // share of the features that are not 0
};

constexpr Index kRowGranule = 64;  // rows are padded to a multiple of it
constexpr Index padded(Index samples) {
  return (samples + kRowGranule - 1) / kRowGranule * kRowGranule;
}

template <class T>
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual void use(std::span<const Index> samples) = 0;  // the columns of rows from now on
  virtual Index batch() const = 0;                       // so many rows at a time take not much longer than one
  // out[q][k] = K(of[q], samples[k]); [padded(samples)] elements each, the rest any finite numbers.
  virtual void rows(std::span<const Index> of, std::span<T* const> out) = 0;
};

// Below this density rows are computed by loops over the entries that are not 0, else by the device's matrix product.
constexpr double kSparse = 0.25;
// f32 and dense: by the backend. Else by loops on the host, each product summed in f64 in the order of the features.
template <class T>
std::unique_ptr<RowSource<T>> row_source(const Samples& samples, Backend& backend, int threads);

std::unique_ptr<RowSource<float>> dense_rows(const Samples& samples, Backend& backend);

}  // namespace motley::svm
