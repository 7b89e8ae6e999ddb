// SPDX-License-Identifier: Apache-2.0
// Plain loops, f32 and f64, any spec: the reference that every backend is compared with. Sums are f64, rounded once when stored.
#include <motley/backend.h>
#include <unistd.h>

#include <algorithm>

#include "kernels/converted.h"
#include "kernels/operands.h"
#include "kernels/reference/reference.h"

namespace motley {
namespace {

reference::Run loops_of(const KernelSpec& spec) {
  switch (spec.op) {
    case KernelOp::conv2d: return reference::conv2d(spec);
    case KernelOp::dense: return reference::dense(spec);
    case KernelOp::max_pool2d: return reference::max_pool2d(spec);
    case KernelOp::avg_pool2d: return reference::avg_pool2d(spec);
    case KernelOp::map: return reference::map(spec);
    case KernelOp::attention: return reference::attention(spec);
  }
  throw InternalError("an unknown op");
}

class ReferenceKernel final : public Kernel {
 public:
  explicit ReferenceKernel(const KernelSpec& spec) : spec_(spec), run_(loops_of(spec)) {}
  // f64 sums. Convolutions: one row of x or y. Pools backward: one plane [h w]. Attention: as reference::attention says.
  std::size_t workspace_bytes() const override {
    const Roles& e = spec_.roles;
    if (spec_.op == KernelOp::attention)
      return static_cast<std::size_t>(spec_.pass == PassKind::forward ? e.f : (2 * e.f + 1) * e.c) * sizeof(double);
    if (spec_.op == KernelOp::conv2d) return static_cast<std::size_t>(std::max(e.q, e.w)) * sizeof(double);
    if (!is_pool(spec_.op) || spec_.pass == PassKind::forward) return 0;
    return static_cast<std::size_t>(e.h * e.w) * sizeof(double);
  }
  std::string implementation() const override { return "reference"; }
  void run(std::span<void* const> operands, void* workspace) override { run_(spec_, operands, workspace); }

 private:
  KernelSpec spec_;
  reference::Run run_;
};

class ReferenceBackend final : public Backend {
 public:
  bool supports(const KernelSpec& spec) const override {
    return spec.op == KernelOp::map ? spec.extents.size() <= reference::kMostExtents : spec.dtype != DType::i32;
  }
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    if (spec.dtype != DType::bf16 || spec.op == KernelOp::map) return std::make_unique<ReferenceKernel>(spec);
    return converted(spec, std::make_unique<ReferenceKernel>(in_f32(spec)), plain_conversion());
  }
  std::string model() const override { return "reference"; }
  std::string isa() const override { return "generic"; }
  std::string library() const override { return "motley reference"; }
  int threads() const override { return 1; }
  Index memory_bytes() const override { return Index{sysconf(_SC_PHYS_PAGES)} * Index{sysconf(_SC_PAGE_SIZE)}; }
};

}  // namespace

std::unique_ptr<Backend> reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace motley
