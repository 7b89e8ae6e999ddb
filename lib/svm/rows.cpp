// SPDX-License-Identifier: Apache-2.0
#include "svm/rows.h"

#include <type_traits>

#include "svm/kernel_function.h"

namespace motley::svm {

Samples::Samples(const Data& of, const KernelFunction& function) : data(of), kernel(function) {
  norms.reserve(of.labels.size());
  for (std::size_t s = 0; s + 1 < of.offsets.size(); s++) {
    double sum = 0;
    for (auto e = static_cast<std::size_t>(of.offsets[s]); e < static_cast<std::size_t>(of.offsets[s + 1]); e++)
      sum += of.values[e] * of.values[e];
    norms.push_back(sum);
  }
}

double Samples::diagonal(Index sample) const {
  const double norm = norms[static_cast<std::size_t>(sample)];
  return value_of(kernel, norm, norm, norm);
}

double Samples::density() const {
  const double all = static_cast<double>(data.samples()) * static_cast<double>(data.features);
  return all > 0 ? static_cast<double>(data.values.size()) / all : 0;
}

namespace {

template <class T>
class SparseSource final : public RowSource<T> {
 public:
  SparseSource(const Samples& samples, int threads)
      : samples_(samples), threads_(threads), x_(static_cast<std::size_t>(samples.data.features)) {}
  void use(std::span<const Index> samples) override {
    used_.assign(samples.begin(), samples.end());
    products_.resize(used_.size());
  }
  Index batch() const override { return 1; }
  void rows(std::span<const Index> of, std::span<T* const> out) override {
    for (std::size_t q = 0; q < of.size(); q++) {
      set_x(of[q], true);
      cpu::sparse_products(samples_.rows(), used_, x_.data(), products_.data(), threads_);
      set_x(of[q], false);
      const double own = samples_.norms[static_cast<std::size_t>(of[q])];
      for (std::size_t k = 0; k < used_.size(); k++)
        out[q][k] =
            static_cast<T>(value_of(samples_.kernel, products_[k], own, samples_.norms[static_cast<std::size_t>(used_[k])]));
      std::fill(out[q] + used_.size(), out[q] + padded(static_cast<Index>(used_.size())), T{0});
    }
  }

 private:
  void set_x(Index sample, bool there) {
    const Data& data = samples_.data;
    for (auto e = static_cast<std::size_t>(data.offsets[static_cast<std::size_t>(sample)]);
         e < static_cast<std::size_t>(data.offsets[static_cast<std::size_t>(sample) + 1]); e++)
      x_[static_cast<std::size_t>(data.columns[e])] = there ? data.values[e] : 0;
  }
  const Samples& samples_;
  int threads_;
  std::vector<double> x_, products_{};
  std::vector<Index> used_{};
};

}  // namespace

template <class T>
std::unique_ptr<RowSource<T>> row_source(const Samples& samples, Backend& backend, int threads) {
  if constexpr (std::is_same_v<T, float>)
    if (samples.density() >= kSparse) return dense_rows(samples, backend);
  return std::make_unique<SparseSource<T>>(samples, threads);
}
template std::unique_ptr<RowSource<float>> row_source(const Samples&, Backend&, int);
template std::unique_ptr<RowSource<double>> row_source(const Samples&, Backend&, int);

}  // namespace motley::svm
