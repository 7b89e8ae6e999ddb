// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_backend.h"

#include <motley/error.h>
#include <omp.h>

#include <algorithm>
#include <mutex>

#include "kernels/converted.h"
#include "kernels/cpu/dnnl_kernels.h"
#include "kernels/eigen/attention.h"
#include "kernels/kernel_names.h"
#include "kernels/loops/depthwise_kernel.h"
#include "kernels/loops/own_kernels.h"
#include "kernels/loops/this_cpu.h"
#include "kernels/operands.h"

namespace motley::cpu {
namespace {

unsigned mask_of(dnnl::cpu_isa isa) {
  return static_cast<unsigned>(isa);
}

std::string name_of(dnnl::cpu_isa isa) {
  std::string name;  // the greatest known ISA within isa
  for (const auto& known : vendor::isas())
    if ((mask_of(isa) & mask_of(known.isa)) == mask_of(known.isa)) name = known.name;
  return name;
}

// oneDNN has one ISA per process, fixed by its first primitive. Returns the ISA that it will really use.
dnnl::cpu_isa cap_isa(const std::string& cap) {
  static std::mutex mutex;
  static bool opened = false;
  static std::string first;
  const std::lock_guard lock(mutex);
  if (opened && cap != first)
    throw DeviceError("this process has opened a CPU with isa \"" + first + "\" and now one with isa \"" + cap +
                      "\": the ISA is per process; use one process per device");
  if (!opened && !cap.empty()) {
    const auto& known = vendor::isas();
    const auto asked = std::find_if(known.begin(), known.end(), [&](const auto& isa) { return cap == isa.name; });
    if (cap == "generic")
      throw DeviceError(
          "isa \"generic\" is not one of oneDNN's; its slowest is \"sse41\" (a device with \"library\": \"eigen\" has generic)");
    if (asked == known.end()) throw DeviceError("isa \"" + cap + "\" is unknown" + did_you_mean(cap, isa_names()));
    if (dnnl::set_max_cpu_isa(asked->isa) != dnnl::status::success)
      throw DeviceError("isa \"" + cap + "\" could not be set: this process has used " + vendor::version() +
                        " before it opened its device");
    if ((mask_of(dnnl::get_effective_cpu_isa()) & ~mask_of(asked->isa)) != 0)
      throw DeviceError("isa \"" + cap + "\" was requested, " + vendor::version() + " reports " +
                        name_of(dnnl::get_effective_cpu_isa()));
  }
  opened = true;
  first = cap;
  return dnnl::get_effective_cpu_isa();
}

const Loops& loops_for(dnnl::cpu_isa isa) {
  const auto has = [&](dnnl::cpu_isa part) { return (mask_of(isa) & mask_of(part)) == mask_of(part); };
  if (has(dnnl::cpu_isa::avx512_core)) return kLoopsAvx512;
  if (has(dnnl::cpu_isa::avx2)) return kLoopsAvx2;
  if (has(dnnl::cpu_isa::sse41)) return kLoopsSse41;
  throw DeviceError("this CPU has no SSE4.1, which oneDNN's kernels need; write \"library\": \"eigen\"");
}

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const Device& device) : threads_(device.threads), memory_bytes_(device.memory_bytes) {
    check_threads(device);
    const dnnl::cpu_isa isa = cap_isa(device.isa);
    isa_ = name_of(isa);
    vendor_.loops = &loops_for(isa);
    // oneDNN also has bf16 kernels for AVX-512 without bf16 instructions: four times slower than in f32.
    computes_in_bf16_ = (mask_of(isa) & mask_of(dnnl::cpu_isa::avx512_core_bf16)) == mask_of(dnnl::cpu_isa::avx512_core_bf16);
    vendor_.threads = threads_;
    omp_set_num_threads(threads_);
    if (memory_bytes_ == 0) memory_bytes_ = host_memory_bytes();
  }

  bool supports(const KernelSpec& spec) const override {
    return cpu::supports(spec);
  }  // oneDNN's own reference does any contraction
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    if (!cpu::supports(spec) && spec.op != KernelOp::map)
      throw DeviceError("the CPU kernels compute in f32, not " + to_string(spec.dtype) + ": " + summary(spec));
    try {
      const bool added = spec.accumulate && spec.result == DType::bf16 && !vendor::knows(spec.epilogue);
      if (spec.dtype != DType::bf16 || (computes_in_bf16_ && contracts(spec) && !added)) {
        try {
          return kernel(spec);
        } catch (const dnnl::error& error) {
          if (spec.dtype != DType::bf16) throw;  // in bf16 it lacks some with activations, which not all report in the same way
        }
      }
      return converted(spec, kernel(in_f32(spec)), conversion_by(*vendor_.loops, threads_));
    } catch (const dnnl::error& error) {
      throw DeviceError(vendor::version() + " cannot do " + summary(spec) + ": " + error.what());
    }
  }
  std::string model() const override { return cpu_model(); }
  std::string isa() const override { return isa_; }
  std::string library() const override { return vendor::version(); }
  int threads() const override { return threads_; }
  Index memory_bytes() const override { return memory_bytes_; }

 private:
  // Whether the contraction has any products.
  static bool contracts(const KernelSpec& spec) {
    const Roles& e = spec.roles;
    if (spec.op == KernelOp::dense) return std::min({e.g, e.n, e.c, e.f}) > 0;
    return spec.op == KernelOp::conv2d && std::min({e.g, e.n, e.c, e.h, e.w, e.f, e.r, e.s, e.p, e.q}) > 0;
  }
  // By bench/kernels --depthwise (AMD Zen 5, batch 8; bench/RESULTS.md has the table): where images are large, our own loops take
  // 0.1 to 0.9 of oneDNN's time, at most 1.12. Forward with a large window oneDNN is as fast or faster, and so it is with AVX-512
  // and a stride, and with SSE4.1 without one.
  bool own_is_faster(const KernelSpec& depthwise) const {
    const Roles& e = depthwise.roles;
    const Simd simd = vendor_.loops->simd;
    const bool small_window = e.r * e.s <= 9, strided = depthwise.stride != KernelSpec{}.stride;
    const auto large = [](Index rows, Index cols) { return rows * cols > 256; };
    switch (depthwise.pass) {
      case PassKind::forward: return large(e.p, e.q) && small_window && simd != (strided ? Simd::avx512 : Simd::sse41);
      case PassKind::backward_data: return large(e.h, e.w) || simd != Simd::sse41;
      case PassKind::backward_filter: return large(e.p, e.q) || !small_window;
    }
    return false;
  }
  std::unique_ptr<Kernel> kernel(const KernelSpec& spec) const {
    if (spec.op == KernelOp::attention) return eigen::attention(spec, *vendor_.loops, threads_);
    const bool conv = spec.op == KernelOp::conv2d;
    if (!contracts(spec)) return own_kernel(spec, *vendor_.loops, threads_);
    if (is_depthwise(spec) && own_is_faster(spec)) return depthwise_kernel(spec, *vendor_.loops, threads_);
    if (vendor::knows(spec.epilogue)) return conv ? convolution_kernel(spec, vendor_) : dense_kernel(spec, vendor_);
    const KernelSpec bare = without_epilogue(spec);
    return then_epilogue(conv ? convolution_kernel(bare, vendor_) : dense_kernel(bare, vendor_), spec, *vendor_.loops, threads_);
  }

  Vendor vendor_{};
  std::string isa_{};
  bool computes_in_bf16_ = false;
  int threads_;
  Index memory_bytes_;
};

}  // namespace
}  // namespace motley::cpu

namespace motley {

std::unique_ptr<Backend> open_cpu_backend(const Device& device) {
  return std::make_unique<cpu::CpuBackend>(device);
}

}  // namespace motley
