// SPDX-License-Identifier: Apache-2.0
#include "kernels/converted.h"

#include <cstddef>

#include "kernels/operands.h"

namespace motley {
namespace {

constexpr std::size_t kAlignment = 256;  // the largest alignment that a device requires

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class Converted final : public Kernel {
 public:
  Converted(const KernelSpec& spec, std::unique_ptr<Kernel> kernel, Conversion conversion)
      : kernel_(std::move(kernel)),
        uses_(operands_of(spec)),
        conversion_(std::move(conversion)),
        bytes_(aligned(kernel_->workspace_bytes())) {
    for (const OperandUse& use : uses_) {
      places_.push_back(bytes_);
      if (use.dtype == DType::bf16) bytes_ += aligned(static_cast<std::size_t>(use.elements) * sizeof(float));
    }
    operands_.resize(uses_.size());
  }
  std::size_t workspace_bytes() const override { return bytes_; }
  std::string implementation() const override { return kernel_->implementation() + kOfBf16; }

  void run(std::span<void* const> operands, void* workspace) override {
    for (std::size_t i = 0; i < uses_.size(); i++) {
      operands_[i] = operands[i];
      if (uses_[i].dtype != DType::bf16) continue;
      auto* wide = reinterpret_cast<float*>(static_cast<std::byte*>(workspace) + places_[i]);
      operands_[i] = wide;
      if (uses_[i].read) conversion_.widen(static_cast<const Bf16*>(operands[i]), wide, uses_[i].elements);
    }
    kernel_->run(operands_, workspace);
    for (std::size_t i = 0; i < uses_.size(); i++)
      if (uses_[i].written && uses_[i].dtype == DType::bf16)
        conversion_.narrow(static_cast<const float*>(operands_[i]), static_cast<Bf16*>(operands[i]), uses_[i].elements);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::vector<OperandUse> uses_;
  Conversion conversion_;
  std::size_t bytes_;
  std::vector<std::size_t> places_{};  // bytes; of the converted operands
  std::vector<void*> operands_{};
};

}  // namespace

Conversion plain_conversion() {
  return {[](const Bf16* from, float* to, Index n) {
            for (Index i = 0; i < n; i++) to[i] = static_cast<float>(from[i]);
          },
          [](const float* from, Bf16* to, Index n) {
            for (Index i = 0; i < n; i++) to[i] = Bf16(from[i]);
          }};
}

std::unique_ptr<Kernel> converted(const KernelSpec& spec, std::unique_ptr<Kernel> kernel, Conversion conversion) {
  return std::make_unique<Converted>(spec, std::move(kernel), std::move(conversion));
}

}  // namespace motley
