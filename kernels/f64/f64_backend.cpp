// SPDX-License-Identifier: Apache-2.0
// What f64 plans run on: contractions as products of matrices, everything else the reference's loops.
#include "kernels/f64/f64_backend.h"

#include <motley/error.h>

#include "kernels/f64/products.h"

namespace motley {

namespace f64 {

const Products& products() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
    return avx512::kProducts;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::kProducts;
#endif
  return baseline::kProducts;
}

namespace {

class F64Backend final : public Backend {
 public:
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    const bool contracts = spec.op == KernelOp::conv2d || spec.op == KernelOp::dense;
    return contracts && spec.dtype == DType::f64 ? contraction(spec) : reference_->compile(spec);
  }
  std::string model() const override { return reference_->model(); }
  std::string isa() const override { return products().isa; }
  std::string library() const override { return "Eigen, motley reference"; }
  int threads() const override { return 1; }
  Index memory_bytes() const override { return reference_->memory_bytes(); }

 private:
  const std::unique_ptr<Backend> reference_ = reference_backend();
};

}  // namespace

}  // namespace f64

std::unique_ptr<Backend> f64_backend() {
  return std::make_unique<f64::F64Backend>();
}

}  // namespace motley
