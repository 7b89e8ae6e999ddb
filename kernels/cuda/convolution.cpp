// SPDX-License-Identifier: Apache-2.0
// A convolution through cuDNN.
#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/staged_convolution.h"

namespace motley::cuda {
namespace {

class CudnnEngine {
 public:
  CudnnEngine(const Vendor& vendor, ConvolutionPlan plan) : vendor_(vendor), plan_(std::move(plan)) {}
  std::string name() const { return plan_.engine; }
  std::size_t scratch_bytes() const { return static_cast<std::size_t>(plan_.workspace_bytes); }
  DType result() const { return plan_.result; }
  bool takes_bias() const { return plan_.bias; }
  bool takes_epilogue() const { return plan_.epilogue; }
  bool takes_sum() const { return plan_.sum; }
  void execute(void* const (&data)[3], const void* bias, void* scratch) {
    const std::array<const void*, 5> now{data[0], data[1], data[2], bias, scratch};
    if (now != last_) bind(data, bias, scratch);
    last_ = now;
    MOTLEY_CUDA(cudnnBackendExecute(vendor_.cudnn, plan_.plan.raw(), pack_.raw()));
  }

 private:
  void bind(void* const (&data)[3], const void* bias, void* scratch) {
    std::vector<void*> pointers{data[0], data[1], data[2]};
    std::vector<std::int64_t> ids{kX, kW, kY};
    if (plan_.bias) {
      pointers.push_back(const_cast<void*>(bias));
      ids.push_back(kB);
    }
    pack_ = Descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack_.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(pointers.size()),
              pointers.data());
    pack_.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch)
        .finish();
  }

  Vendor vendor_;
  ConvolutionPlan plan_;
  Descriptor pack_{CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR};  // holds the addresses last given
  std::array<const void*, 5> last_{};
};

PlanOptions options_of(const Vendor& vendor) {
  return {.tf32 = vendor.tf32,
          .deterministic = vendor.deterministic,
          .fuses = vendor.fuses,
          .most_workspace_bytes = vendor.workspace_bytes};
}

}  // namespace

std::unique_ptr<Kernel> convolution_kernel(const KernelSpec& spec, const Vendor& vendor, const std::string& implementation) {
  PlanOptions options = options_of(vendor);
  options.most = 1;
  options.only = implementation;
  std::vector<ConvolutionPlan> plans = plan_convolution(spec, {vendor.cudnn, nullptr}, options);
  if (plans.empty()) return nullptr;
  return std::make_unique<StagedConvolution<CudnnEngine>>(spec, CudnnEngine(vendor, std::move(plans.front())), *vendor.texts);
}

std::vector<std::string> convolution_implementations(const KernelSpec& spec, const Vendor& vendor) {
  std::vector<std::string> names;
  for (const ConvolutionPlan& plan : plan_convolution(spec, {vendor.cudnn, nullptr}, options_of(vendor)))
    names.push_back(plan.engine);
  return names;
}

}  // namespace motley::cuda
