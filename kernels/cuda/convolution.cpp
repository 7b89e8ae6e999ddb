// SPDX-License-Identifier: Apache-2.0
// A convolution through cuDNN. What it is not given channels-last, or with rows that no window reaches, is moved into the workspace
// first; the result is moved back.
#include <algorithm>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/own_kernels.h"

namespace motley::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool lies_alike(const Slice& a, const Slice& b) {
  for (int d = 0; d < 4; d++)
    if (a.extents[d] != b.extents[d] || (a.extents[d] > 1 && a.strides[d] != b.strides[d])) return false;
  return a.block == b.block;
}

// An operand as the spec has it and as cuDNN takes it.
struct Side {
  Slice given{}, taken{};
  Index below = 0, right = 0;  // where `taken` begins in `given`
  bool moves = false;
  std::size_t offset = 0;  // in the workspace, where it moves
};

class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(const KernelSpec& spec, const Vendor& vendor, ConvolutionPlan plan)
      : spec_(spec), vendor_(vendor), plan_(std::move(plan)) {
    const Roles& e = spec.roles;
    const Reach reach = reach_of(spec);
    const Window g = window_of(spec);
    sides_[0] = side(g.x, {e.n, e.c, reach.h, reach.w}, reach.below, reach.right);
    sides_[1] = side(g.w, {e.f, e.c, e.r, e.s}, 0, 0);
    sides_[2] = side(g.y, {e.n, e.f, e.p, e.q}, 0, 0);
    scratch_ = bytes_;
    if (plan_.workspace_bytes > 0) bytes_ += aligned(static_cast<std::size_t>(plan_.workspace_bytes));
  }
  std::size_t workspace_bytes() const override { return bytes_; }
  std::string implementation() const override { return plan_.engine; }

  void run(std::span<void* const> operands, void* workspace) override {
    // Where x, w and y stand among the operands.
    const std::size_t x = spec_.pass == PassKind::backward_data ? 2 : 0, w = spec_.pass == PassKind::backward_filter ? 2 : 1;
    const std::size_t y = spec_.pass == PassKind::forward ? operands.size() - 1 : 3 - x - w;
    const std::size_t at[3] = {x, w, y};
    const void* bias = spec_.bias ? operands[2] : nullptr;
    void* data[3];
    for (std::size_t k = 0; k < 3; k++) {
      const Side& s = sides_[k];
      data[k] = s.moves ? static_cast<std::byte*>(workspace) + s.offset : operands[at[k]];
      if (s.moves && at[k] + 1 != operands.size()) move({s.given, s.taken, s.below, s.right}, spec_.dtype, operands[at[k]], data[k], vendor_.stream);
    }
    execute(data, bias, static_cast<std::byte*>(workspace) + scratch_);
    const bool rest = (spec_.bias && !plan_.bias) || (spec_.activation != Activation::none && !plan_.activation);
    if (rest) finish(sides_[2].taken, plan_.activation ? Activation::none : spec_.activation, spec_.dtype, plan_.bias ? nullptr : bias, data[2], vendor_.stream);
    for (std::size_t k = 0; k < 3; k++)
      if (const Side& s = sides_[k]; s.moves && at[k] + 1 == operands.size())
        move({s.taken, s.given, -s.below, -s.right}, spec_.dtype, data[k], operands.back(), vendor_.stream);
  }

 private:
  Side side(const Slice& given, const std::vector<Index>& taken, Index below, Index right) {
    Side s{given, slice_of(Format::channels_last, taken), below, right};
    s.moves = !lies_alike(s.given, s.taken);
    if (!s.moves) return s;
    s.offset = bytes_;
    bytes_ += aligned(static_cast<std::size_t>(s.taken.elements) * bytes_of(spec_.dtype));
    return s;
  }

  void execute(void* const (&data)[3], const void* bias, void* scratch) {
    if (std::equal(data, data + 3, last_) && bias == last_bias_ && scratch == last_scratch_) {
      MOTLEY_CUDA(cudnnBackendExecute(vendor_.cudnn, plan_.plan.raw(), pack_.raw()));
      return;
    }
    std::vector<void*> pointers{data[0], data[1], data[2]};
    std::vector<std::int64_t> ids{kX, kW, kY};
    if (plan_.bias) {
      pointers.push_back(const_cast<void*>(bias));
      ids.push_back(kB);
    }
    pack_ = Descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack_.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(pointers.size()), pointers.data());
    pack_.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids).set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch).finish();
    std::copy(data, data + 3, last_);
    last_bias_ = bias;
    last_scratch_ = scratch;
    MOTLEY_CUDA(cudnnBackendExecute(vendor_.cudnn, plan_.plan.raw(), pack_.raw()));
  }

  KernelSpec spec_;
  Vendor vendor_;
  ConvolutionPlan plan_;
  Side sides_[3]{};  // x w y
  std::size_t bytes_ = 0, scratch_ = 0;
  Descriptor pack_{CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR};  // of the pointers last given
  void* last_[3] = {nullptr, nullptr, nullptr};
  const void* last_bias_ = nullptr;
  void* last_scratch_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> convolution_kernel(const KernelSpec& spec, const Vendor& vendor) {
  ConvolutionPlan plan = plan_convolution(spec, {vendor.cudnn, nullptr}, {.tf32 = vendor.tf32});
  if (plan.engine.empty()) return nullptr;
  return std::make_unique<ConvolutionKernel>(spec, vendor, std::move(plan));
}

}  // namespace motley::cuda
