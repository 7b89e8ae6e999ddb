// SPDX-License-Identifier: Apache-2.0
// Rows of dense samples in f32: the backend's matrix product, and a map of its result.
#include <motley/error.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <optional>

#include "kernels/value.h"
#include "svm/rows.h"

namespace motley::svm {

namespace {

// A product of one row with the samples reads all of them from memory; 8 rows with 12,000 samples of 784 features take 1.4 times as
// long (AVX-512, bench/svm).
constexpr Index kBatch = 8;

// Floats where the device's kernels find them.
class Floats {
 public:
  Floats(DeviceMemory* device, Index count) : device_(device) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    if (device != nullptr)
      memory_ = device->allocate(bytes);
    else
      memory_ = DeviceMemory::Block(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})),
                                    [](std::byte* p) { ::operator delete (p, std::align_val_t{64}); });
  }
  void* address() const { return memory_.get(); }
  void fill(std::span<const float> from) {
    if (from.empty()) return;
    if (device_ != nullptr)
      copy_and_wait(*device_, memory_.get(), from.data(), from.size_bytes());
    else
      std::memcpy(memory_.get(), from.data(), from.size_bytes());
  }
  void read(Index first, Index count, float* to) const {
    if (count == 0) return;
    const auto* const from = reinterpret_cast<const float*>(memory_.get()) + first;
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    if (device_ != nullptr)
      copy_and_wait(*device_, to, from, bytes);
    else
      std::memcpy(to, from, bytes);
  }

 private:
  DeviceMemory* device_;
  DeviceMemory::Block memory_{};
};

Value power_of(const Value& base, int exponent) {
  if (exponent == 1) return base;
  const Value half = power_of(base, exponent / 2);
  return exponent % 2 == 0 ? half * half : half * half * base;
}

// operand 0: the product; 1 and 2: the products of the two samples with themselves.
Formula formula_of(const KernelFunction& kernel) {
  if (kernel.kind == KernelKind::polynomial) return formula({power_of(kernel.gamma * operand(0) + kernel.coef0, kernel.degree)});
  const Value distance = operand(1) + operand(2) - 2.0 * operand(0);
  return formula({exp(-kernel.gamma * select(Value(0.0) < distance, distance, Value(0.0)))});
}

class DenseSource final : public RowSource<float> {
 public:
  DenseSource(const Samples& samples, Backend& backend)
      : samples_(samples),
        backend_(backend),
        device_(backend.device_memory()),
        means_(static_cast<std::size_t>(samples.data.features), 0.0) {
    const Data& data = samples.data;
    if (samples.kernel.kind == KernelKind::rbf)
      for (std::size_t e = 0; e < data.values.size(); e++)
        means_[static_cast<std::size_t>(data.columns[e])] += data.values[e] / static_cast<double>(data.samples());
    for (Index s = 0; s < data.samples(); s++) norm_of_.push_back(static_cast<float>(norm(s)));
  }

  void use(std::span<const Index> samples) override {
    const Index n = padded(static_cast<Index>(samples.size())), features = samples_.data.features;
    std::vector<float> norms(static_cast<std::size_t>(n));
    for (std::size_t k = 0; k < samples.size(); k++) norms[k] = norm_of(samples[k]);
    if (!matrix_ || n > room_) {
      matrix_.emplace(device_, n * features);
      norms_.emplace(device_, n);
      room_ = n;
    }
    columns_ = n;
    pairs_.clear();
    if (device_ == nullptr) {  // in place
      auto* const to = static_cast<float*>(matrix_->address());
      std::fill(to, to + n * features, 0.0F);
      for (std::size_t k = 0; k < samples.size(); k++) expand(samples[k], to + static_cast<Index>(k) * features);
    } else {
      std::vector<float> all(static_cast<std::size_t>(n * features));
      for (std::size_t k = 0; k < samples.size(); k++) expand(samples[k], all.data() + static_cast<Index>(k) * features);
      matrix_->fill(all);
    }
    norms_->fill(norms);
  }

  Index batch() const override { return kBatch; }

  void rows(std::span<const Index> of, std::span<float* const> out) override {
    const auto count = static_cast<Index>(of.size()), features = samples_.data.features;
    Kernels& its = kernels_for(count);
    x_.assign(static_cast<std::size_t>(count * features), 0.0F);
    for (std::size_t q = 0; q < of.size(); q++) expand(of[q], x_.data() + static_cast<Index>(q) * features);
    its.x.fill(x_);
    void* const product[] = {its.x.address(), matrix_->address(), its.products.address()};
    its.dense->run(product, its.workspace.address());
    if (its.map) {
      own_norms_.clear();
      for (const Index sample : of) own_norms_.push_back(norm_of(sample));
      its.own_norms.fill(own_norms_);
      void* const map[] = {its.products.address(), norms_->address(), its.own_norms.address(), its.values.address()};
      void* const of_product[] = {its.products.address(), its.values.address()};
      its.map->run(samples_.kernel.kind == KernelKind::rbf ? std::span<void* const>(map) : std::span<void* const>(of_product),
                   its.workspace.address());
    }
    for (Index q = 0; q < count; q++)
      (its.map ? its.values : its.products).read(q * columns_, columns_, out[static_cast<std::size_t>(q)]);
  }

 private:
  // For so many rows at a time.
  struct Kernels {
    Floats x, own_norms, products, values, workspace;
    std::unique_ptr<Kernel> dense{}, map{};
  };

  Kernels& kernels_for(Index count) {
    if (const auto found = pairs_.find(count); found != pairs_.end()) return found->second;
    KernelSpec dense;
    dense.op = KernelOp::dense;
    dense.roles = {.n = count, .c = samples_.data.features, .f = columns_};
    std::unique_ptr<Kernel> product = backend_.compile(dense), map;
    if (samples_.kernel.kind != KernelKind::linear) {
      KernelSpec spec;
      spec.op = KernelOp::map;
      spec.formula = formula_of(samples_.kernel);
      spec.extents = {count, columns_};
      spec.operands = {{DType::f32, {columns_, 1}}, {DType::f32, {0, 1}}, {DType::f32, {1, 0}}, {DType::f32, {columns_, 1}}};
      if (samples_.kernel.kind == KernelKind::polynomial) spec.operands.erase(spec.operands.begin() + 1, spec.operands.begin() + 3);
      map = backend_.compile(spec);
    }
    const std::size_t bytes = std::max(product->workspace_bytes(), map ? map->workspace_bytes() : 0);
    Kernels its{Floats(device_, count * samples_.data.features),
                Floats(device_, count),
                Floats(device_, count * columns_),
                Floats(device_, map ? count * columns_ : 0),
                Floats(device_, static_cast<Index>(bytes / sizeof(float)) + 1),
                std::move(product),
                std::move(map)};
    return pairs_.emplace(count, std::move(its)).first->second;
  }

  float norm_of(Index sample) const { return norm_of_[static_cast<std::size_t>(sample)]; }
  // Of what expand() gives, summed in f64.
  double norm(Index sample) const {
    const Data& data = samples_.data;
    double sum = 0;
    for (const double mean : means_) sum += mean * mean;
    for (auto e = static_cast<std::size_t>(data.offsets[static_cast<std::size_t>(sample)]);
         e < static_cast<std::size_t>(data.offsets[static_cast<std::size_t>(sample) + 1]); e++) {
      const double mean = means_[static_cast<std::size_t>(data.columns[e])], value = data.values[e] - mean;
      sum += value * value - mean * mean;
    }
    return sum;
  }
  void expand(Index sample, float* to) const {
    const Data& data = samples_.data;
    for (std::size_t c = 0; c < means_.size(); c++) to[c] = static_cast<float>(-means_[c]);
    for (auto e = static_cast<std::size_t>(data.offsets[static_cast<std::size_t>(sample)]);
         e < static_cast<std::size_t>(data.offsets[static_cast<std::size_t>(sample) + 1]); e++)
      to[data.columns[e]] = static_cast<float>(data.values[e] - means_[static_cast<std::size_t>(data.columns[e])]);
  }

  const Samples& samples_;
  Backend& backend_;
  DeviceMemory* device_;
  // Of each feature, for rbf, which depends on differences alone: without them a column like 2005 +- 10 has no digits left in f32.
  std::vector<double> means_;
  std::vector<float> norm_of_{};
  std::optional<Floats> matrix_{}, norms_{};  // [columns features], [columns]
  Index room_ = 0, columns_ = 0;
  std::map<Index, Kernels> pairs_{};
  std::vector<float> x_{}, own_norms_{};
};

}  // namespace

std::unique_ptr<RowSource<float>> dense_rows(const Samples& samples, Backend& backend) {
  return std::make_unique<DenseSource>(samples, backend);
}

}  // namespace motley::svm
