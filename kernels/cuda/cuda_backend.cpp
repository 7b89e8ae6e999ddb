// SPDX-License-Identifier: Apache-2.0
// One GPU as a Backend, and what the module exports.
#include <algorithm>
#include <string_view>

#include "kernels/cuda/attention_in_parts.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/map_plan.h"
#include "kernels/cuda/nvml.h"
#include "kernels/cuda/queues.h"
#include "kernels/cuda_module.h"
#include "kernels/operands.h"

namespace motley::cuda {
namespace {

std::string dotted(int version, int major, int minor) {
  return std::to_string(version / major) + "." + std::to_string(version % major / minor);
}

std::string library() {
  const auto cudnn = static_cast<int>(cudnnGetVersion()), blas = static_cast<int>(cublasLtGetVersion());
  return "CUDA " + dotted(CUDART_VERSION, 1000, 10) + ", cuDNN " + dotted(cudnn, 10000, 100) + "." + std::to_string(cudnn % 100) +
         ", cuBLASLt " + dotted(blas, 10000, 100);
}

// Why there is no GPU; empty: there are `count`.
std::string missing(int& count) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return "no CUDA device: driver not installed; expected NVIDIA's driver (libcuda.so.1)";
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return "";
  if (status == cudaErrorInsufficientDriver)
    return "no CUDA device: the driver is for CUDA " + dotted(driver, 1000, 10) + ", this build needs " +
           dotted(CUDART_VERSION, 1000, 10) + "; install a newer driver";
  if (status == cudaErrorNoDevice || status == cudaSuccess)
    return "no CUDA device: the driver sees no GPU; check CUDA_VISIBLE_DEVICES and nvidia-smi";
  return std::string("no CUDA device: ") + cudaGetErrorString(status);
}

CudaGpu gpu(int index) {
  cudaDeviceProp properties{};
  MOTLEY_CUDA(cudaGetDeviceProperties(&properties, index));
  return {properties.name, "sm_" + std::to_string(properties.major) + std::to_string(properties.minor),
          static_cast<Index>(properties.totalGlobalMem)};
}

CudaFacts facts() {
  CudaFacts out{library(), "", {}};
  int count = 0;
  out.missing = missing(count);
  for (int i = 0; i < count && out.missing.empty(); i++) try {
      out.gpus.push_back(gpu(i));
    } catch (const DeviceError& e) {
      out.missing = e.what();
    }
  return out;
}

// What the driver takes of the free memory later: for kernels' stacks (1 KiB for each thread that the GPU can hold) and for the
// vendors' kernels, loaded when they first run. At most an eighth of a small GPU's memory.
constexpr std::size_t kDriversShare = std::size_t{1} << 30;

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const Device& device) : queues_(device.index), facts_(gpu(device.index)) {
    MOTLEY_CUDA(cudnnCreate(&vendor_.cudnn));
    vendor_.stream = queues_.stream(DeviceMemory::Queue::compute);
    vendor_.tf32 = device.tf32;
    vendor_.deterministic = device.deterministic;
    vendor_.workspace_bytes =
        workspace_limit(device.memory_bytes > 0 ? std::min(device.memory_bytes, facts_.memory_bytes) : facts_.memory_bytes);
    MOTLEY_CUDA(cudnnSetStream(vendor_.cudnn, vendor_.stream));
    MOTLEY_CUDA(cublasLtCreate(&vendor_.cublas));
    char bus[32] = "";
    MOTLEY_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, device.index));
    bus_ = bus;
    std::size_t free = 0, total = 0;
    MOTLEY_CUDA(cudaMemGetInfo(&free, &total));
    const Index usable = static_cast<Index>(free - std::min(free / 8, kDriversShare));
    memory_bytes_ = device.memory_bytes > 0 ? std::min(device.memory_bytes, usable) : usable;
  }
  ~CudaBackend() override {
    if (vendor_.cudnn != nullptr) cudnnDestroy(vendor_.cudnn);
    if (vendor_.cublas != nullptr) cublasLtDestroy(vendor_.cublas);
  }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  DeviceMemory* device_memory() override { return &queues_; }
  bool supports(const KernelSpec& spec) const override {
    if (spec.op == KernelOp::map) return supports_map(spec);
    if (is_converted(spec)) return supports(in_f32(spec));
    return spec.dtype == DType::f32 || spec.dtype == DType::f64;
  }
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    if (is_converted(spec)) {
      const KernelSpec wide = in_f32(spec);
      auto kernel = by_vendor(wide, "", vendor_of(spec));
      return of_bf16(spec, kernel ? std::move(kernel) : compile(wide));
    }
    if (spec.op == KernelOp::attention) return attention(spec);
    if (auto kernel = by_vendor(spec, "", vendor_)) return kernel;
    return own_kernel(spec, vendor_.stream);
  }
  std::vector<std::string> implementations(const KernelSpec& spec) override {
    std::vector<std::string> names;
    if (spec.op == KernelOp::conv2d) names = convolution_implementations(without_bf16(spec), vendor_of(spec));
    if (is_product(spec)) names = dense_implementations(without_bf16(spec), vendor_of(spec));
    if (is_converted(spec))
      for (std::string& name : names) name += kOfBf16;
    return names;
  }
  std::unique_ptr<Kernel> compile_as(const KernelSpec& spec, const std::string& implementation) override {
    std::string name = implementation;
    if (is_converted(spec) && name.ends_with(kOfBf16)) name.resize(name.size() - std::string_view(kOfBf16).size());
    if (auto kernel = by_vendor(without_bf16(spec), name, vendor_of(spec)))
      return is_converted(spec) ? of_bf16(spec, std::move(kernel)) : std::move(kernel);
    return Backend::compile_as(spec, implementation);
  }
  std::string model() const override { return facts_.model; }
  // Everything besides the spec and the library that implementations() depends on.
  std::string isa() const override {
    return facts_.isa + (vendor_.tf32 ? " tf32" : "") + (vendor_.deterministic ? "" : " varying") + ", workspace " +
           std::to_string(vendor_.workspace_bytes >> 20) + " MiB";
  }
  std::string library() const override { return cuda::library(); }
  int threads() const override { return 1; }
  std::string condition() const override { return condition_of(bus_); }
  Index memory_bytes() const override { return memory_bytes_; }

 private:
  static bool is_product(const KernelSpec& spec) {
    return spec.op == KernelOp::dense && std::min({spec.roles.g, spec.roles.n, spec.roles.c, spec.roles.f}) > 0;
  }
  // TF32 keeps all bits of bf16 factors, so their products may always use tensor cores.
  static bool is_converted(const KernelSpec& spec) { return spec.dtype == DType::bf16 && spec.op != KernelOp::map; }
  static KernelSpec without_bf16(const KernelSpec& spec) { return is_converted(spec) ? in_f32(spec) : spec; }
  Vendor vendor_of(const KernelSpec& spec) const {
    Vendor vendor = vendor_;
    if (is_converted(spec)) vendor.tf32 = true;
    return vendor;
  }
  std::unique_ptr<Kernel> of_bf16(const KernelSpec& spec, std::unique_ptr<Kernel> kernel) const {
    return converted(spec, std::move(kernel), conversion_on(vendor_.stream));
  }
  std::unique_ptr<Kernel> attention(const KernelSpec& spec) const {
    return attention_in_parts(spec, [this](const KernelSpec& part, bool aligned) {
      auto kernel = aligned ? by_vendor(part, "", vendor_) : nullptr;
      return kernel ? std::move(kernel) : own_kernel(part, vendor_.stream);
    });
  }
  static std::unique_ptr<Kernel> by_vendor(const KernelSpec& spec, const std::string& implementation, const Vendor& vendor) {
    if (spec.op == KernelOp::conv2d) return convolution_kernel(spec, vendor, implementation);
    if (is_product(spec)) return dense_kernel(spec, vendor, implementation);
    return nullptr;
  }
  Queues queues_;
  CudaGpu facts_;
  Vendor vendor_{};
  std::string bus_{};
  Index memory_bytes_ = 0;
};

std::unique_ptr<Backend> open(const Device& device) {
  int count = 0;
  if (const std::string why = missing(count); !why.empty()) throw DeviceError(why + " (device \"" + device.name + "\")");
  if (device.index >= count)
    throw DeviceError("device \"" + device.name + "\" is GPU " + std::to_string(device.index) + ", but there " +
                      (count == 1 ? "is 1" : "are " + std::to_string(count)) + "; \"index\" counts from 0");
  return std::make_unique<CudaBackend>(device);
}

const CudaModule kModule{open, facts};

}  // namespace
}  // namespace motley::cuda

extern "C" __attribute__((visibility("default"))) const motley::CudaModule* motley_cuda_module() {
  return &motley::cuda::kModule;
}
