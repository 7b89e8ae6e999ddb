// SPDX-License-Identifier: Apache-2.0
// One GPU as a Backend, and what the module exports.
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/files.h"
#include "kernels/cuda/attention_in_parts.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/nvml.h"
#include "kernels/cuda/own_kernels.h"
#include "kernels/cuda/queues.h"
#include "kernels/cuda/rtc.h"
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

// Where machine code of earlier runs is kept.
std::filesystem::path kernel_folder() {
  const std::filesystem::path cache = cache_folder();
  return cache.empty() ? cache : cache / "kernels";
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const Device& device)
      : queues_(device.index),
        facts_(gpu(device.index)),
        texts_(facts_.isa, queues_.stream(DeviceMemory::Queue::compute), kernel_folder()) {
    MOTLEY_CUDA(cudnnCreate(&vendor_.cudnn));
    vendor_.stream = queues_.stream(DeviceMemory::Queue::compute);
    vendor_.texts = &texts_;
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
  bool supports(const KernelSpec& spec) const override { return supports_own_kernel(spec); }
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override { return compile_as(spec, ""); }
  // bf16: the vendor's kernels that read it; without one, those of f32 between conversions.
  std::vector<std::string> implementations(const KernelSpec& spec) override {
    std::vector<std::string> names = by_vendor_names(spec, vendor_);
    if (names.empty() && is_converted(spec)) {
      names = by_vendor_names(in_f32(spec), wider());
      for (std::string& name : names) name += kOfBf16;
    }
    return names;
  }
  std::unique_ptr<Kernel> compile_as(const KernelSpec& spec, const std::string& implementation) override {
    if (!supports(spec)) throw DeviceError("the GPU's kernels cannot compute " + summary(spec));
    const bool converts = implementation.ends_with(kOfBf16), any = implementation.empty();
    if (!converts)
      if (auto kernel = by_vendor(spec, implementation, vendor_)) return kernel;
    if (is_converted(spec) && (any || converts)) {
      const std::string name = implementation.substr(0, implementation.size() - (any ? 0 : std::string_view(kOfBf16).size()));
      if (auto kernel = by_vendor(in_f32(spec), name, wider())) return of_bf16(spec, std::move(kernel));
    }
    std::unique_ptr<Kernel> kernel = own(spec);
    if (!any && kernel->implementation() != implementation)
      throw DeviceError("no implementation \"" + implementation + "\" of " + summary(spec) + " here");
    return kernel;
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
  static bool is_converted(const KernelSpec& spec) { return spec.dtype == DType::bf16 && spec.op != KernelOp::map; }
  // TF32 keeps all bits of bf16 factors, so their products may always use tensor cores. A bias is f32, and some engines round it to
  // TF32 too.
  Vendor wider() const {
    Vendor vendor = vendor_;
    vendor.tf32 = true;
    vendor.fuses = false;
    return vendor;
  }
  std::unique_ptr<Kernel> of_bf16(const KernelSpec& spec, std::unique_ptr<Kernel> kernel) {
    return converted(spec, std::move(kernel), conversion_by(texts_));
  }
  std::unique_ptr<Kernel> own(const KernelSpec& spec) {
    if (spec.op != KernelOp::attention) return own_kernel(spec, texts_);
    if (is_converted(spec)) return of_bf16(spec, own(in_f32(spec)));
    return attention_in_parts(spec, [this](const KernelSpec& part, bool aligned) {
      auto kernel = aligned ? by_vendor(part, "", vendor_) : nullptr;
      return kernel ? std::move(kernel) : own_kernel(part, texts_);
    });
  }
  // A convolution of single elements over channels-last images is a product of x[nhw c] and w[f c].
  static std::optional<KernelSpec> as_product(const KernelSpec& spec) {
    const Roles& e = spec.roles;
    if (is_product(spec)) return spec;
    if (spec.op != KernelOp::conv2d || e.g != 1 || e.r != 1 || e.s != 1 || e.p != e.h || e.q != e.w || spec.accumulate ||
        spec.stride != std::array<Index, 2>{1, 1} || spec.padding != std::array<Index, 4>{} ||
        spec.x_format != Format::channels_last || spec.y_format != Format::channels_last)
      return {};
    KernelSpec product;
    product.op = KernelOp::dense;
    product.pass = spec.pass;
    product.dtype = spec.dtype;
    product.result = spec.result;
    product.roles = {.n = e.n * e.h * e.w, .c = e.c, .f = e.f};
    product.bias = spec.bias;
    product.epilogue = spec.epilogue;
    if (!is_product(product)) return {};
    return product;
  }
  static std::vector<std::string> by_vendor_names(const KernelSpec& spec, const Vendor& vendor) {
    std::vector<std::string> names;
    if (spec.op == KernelOp::conv2d) names = convolution_implementations(spec, vendor);
    if (const auto product = as_product(spec))
      for (std::string& name : dense_implementations(*product, vendor)) names.push_back(std::move(name));
    return names;
  }
  static std::unique_ptr<Kernel> by_vendor(const KernelSpec& spec, const std::string& implementation, const Vendor& vendor) {
    std::unique_ptr<Kernel> kernel;
    if (spec.op == KernelOp::conv2d && !implementation.starts_with("cublasLt:"))
      kernel = convolution_kernel(spec, vendor, implementation);
    if (kernel == nullptr && !implementation.starts_with("cudnn:"))
      if (const auto product = as_product(spec)) kernel = dense_kernel(*product, vendor, implementation);
    return kernel;
  }
  Queues queues_;
  CudaGpu facts_;
  Rtc texts_;
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
