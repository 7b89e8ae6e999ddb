// SPDX-License-Identifier: Apache-2.0
// The backend of f64 plans, with which verify compares a device's f32: contractions and attention as products of matrices, one-hot
// maps by rows, other maps in strips, pools by the reference's loops. Attention only in f64.
#include <motley/backend.h>

#include "kernels/converted.h"
#include "kernels/eigen/attention.h"
#include "kernels/eigen/contraction.h"
#include "kernels/f64/map_in_strips.h"
#include "kernels/loops/one_hot_kernel.h"
#include "kernels/loops/this_cpu.h"
#include "kernels/operands.h"

namespace motley {

namespace {

class F64Backend final : public Backend {
 public:
  bool supports(const KernelSpec& spec) const override { return reference_->supports(spec); }
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    if (!supports(spec)) return reference_->compile(spec);  // its error says why not
    const bool contracts = spec.op == KernelOp::conv2d || spec.op == KernelOp::dense;
    if (contracts && spec.dtype == DType::bf16)
      return converted(spec, eigen::contraction(in_f32(spec), {simd_, 1}), plain_conversion());
    if (contracts) return eigen::contraction(spec, {simd_, 1});
    if (spec.op == KernelOp::attention && spec.dtype == DType::f64) return eigen::attention(spec, cpu::loops_of(simd_), 1);
    if (auto rows = cpu::one_hot_kernel(spec, 1)) return rows;
    if (spec.op == KernelOp::map) return map_in_strips(spec);
    return reference_->compile(spec);
  }
  std::string model() const override { return reference_->model(); }
  std::string isa() const override { return cpu::isa_of(simd_); }
  std::string library() const override { return "Eigen, motley reference"; }
  int threads() const override { return 1; }
  Index memory_bytes() const override { return reference_->memory_bytes(); }

 private:
  const cpu::Simd simd_ = cpu::simd_within("");
  const std::unique_ptr<Backend> reference_ = reference_backend();
};

}  // namespace

std::unique_ptr<Backend> f64_backend() {
  return std::make_unique<F64Backend>();
}

}  // namespace motley
