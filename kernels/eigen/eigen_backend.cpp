// SPDX-License-Identifier: Apache-2.0
#include "kernels/eigen/eigen_backend.h"

#include <motley/error.h>

#include "kernels/converted.h"
#include "kernels/eigen/attention.h"
#include "kernels/eigen/contraction.h"
#include "kernels/kernel_names.h"
#include "kernels/loops/depthwise_kernel.h"
#include "kernels/loops/own_kernels.h"
#include "kernels/loops/this_cpu.h"
#include "kernels/operands.h"

namespace motley {
namespace {

class EigenBackend final : public Backend {
 public:
  explicit EigenBackend(const Device& device)
      : simd_(cpu::simd_within(device.isa)), threads_(device.threads), memory_bytes_(device.memory_bytes) {
    cpu::check_threads(device);
    if (memory_bytes_ == 0) memory_bytes_ = cpu::host_memory_bytes();
  }

  bool supports(const KernelSpec& spec) const override { return cpu::supports(spec); }
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    if (!cpu::supports(spec) && spec.op != KernelOp::map)
      throw DeviceError("the CPU kernels compute in f32, not " + to_string(spec.dtype) + ": " + summary(spec));
    const cpu::Loops& loops = cpu::loops_of(simd_);
    if (spec.dtype == DType::bf16) return converted(spec, compile(in_f32(spec)), cpu::conversion_by(loops, threads_));
    if (cpu::is_depthwise(spec)) return cpu::depthwise_kernel(spec, loops, threads_);
    if (spec.op == KernelOp::conv2d || spec.op == KernelOp::dense) {
      return cpu::then_epilogue(eigen::contraction(cpu::without_epilogue(spec), {simd_, threads_}), spec, loops, threads_);
    }
    if (spec.op == KernelOp::attention) return eigen::attention(spec, loops, threads_);
    return cpu::own_kernel(spec, loops, threads_);
  }
  std::string model() const override { return cpu::cpu_model(); }
  std::string isa() const override { return cpu::isa_of(simd_); }
  std::string library() const override { return eigen::products_of<float>(simd_).version; }
  int threads() const override { return threads_; }
  Index memory_bytes() const override { return memory_bytes_; }

 private:
  cpu::Simd simd_;
  int threads_;
  Index memory_bytes_;
};

}  // namespace

std::unique_ptr<Backend> open_eigen_backend(const Device& device) {
  return std::make_unique<EigenBackend>(device);
}

}  // namespace motley
