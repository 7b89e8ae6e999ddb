// SPDX-License-Identifier: Apache-2.0
// A convolution as it is requested from cuDNN: channels-last operands, no negative padding. Also for devices that are only
// described (JSON), so that a machine without a GPU can show what a GPU would do.
#pragma once
#include <cudnn.h>
#include <motley/kernel_spec.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/reach.h"

namespace motley::cuda {

// Owns one of cuDNN's descriptors. DeviceError.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  cudnnBackendDescriptor_t raw() const { return raw_; }
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* value);
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values);
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value);
  Descriptor& finish();

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

// The device: a handle, or a description.
struct Target {
  cudnnHandle_t handle = nullptr;
  cudnnBackendDescriptor_t described = nullptr;
};
Descriptor described_device(const std::string& json);

enum Operand : std::int64_t { kX = 1, kW = 2, kB = 3, kY = 4, kInside = 5 };

// One engine with its knobs, ready to run.
struct ConvolutionPlan {
  std::shared_ptr<const void> made_from{};  // the graph and the configuration, kept alive with the plan
  Descriptor plan{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
  std::int64_t workspace_bytes = 0;
  std::string engine{};       // "cudnn:eng12_k2=7", with " inside" if bias and epilogue are fused into it, " onto" if it adds to y
  DType result = DType::f32;  // what y (or the gradient) is written as
  bool bias = false, epilogue = false, sum = false;  // done by the engine
};
struct PlanOptions {
  bool tf32 = false, deterministic = true;
  bool fuses = true;  // bias and relu into the engine
  std::int64_t most_workspace_bytes = std::numeric_limits<std::int64_t>::max();
  std::size_t most = 4;  // with a fused epilogue, and as many without
  std::string only{};    // only the engine of this name
};
// The most workspace that a kernel may use on a device with so much memory: a sixteenth, rounded down to a power of two, so that
// two cards of one model agree although the driver keeps a little more on one of them.
std::int64_t workspace_limit(std::int64_t device_bytes);
// In cuDNN's order, the engines that keep full f32 precision (without tf32: no tensor cores, no conversion, no transform); first
// those that fuse bias and relu, or add to a channels-last y, if the spec requires that. bf16: factors in bf16, sums in f32. Empty:
// cuDNN has none.
std::vector<ConvolutionPlan> plan_convolution(const KernelSpec& spec, const Target& target, const PlanOptions& options = {});

}  // namespace motley::cuda
