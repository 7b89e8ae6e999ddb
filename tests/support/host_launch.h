// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's own kernels, run by plain loops on the host: the formulas and all that is made ready for them, without a GPU.
#pragma once
#include "kernels/cuda/own_kernels.h"

namespace motley::testing {

struct HostLaunch {
  template <class F>
  void operator()(Index n, const F& formula) const {
    for (Index i = n; i-- > 0;) formula(i);  // no element may lean on one before it
  }
};

class FormulaBackend final : public Backend {
 public:
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override { return cuda::make_own_kernel(spec, HostLaunch{}); }
  std::string model() const override { return "formulas"; }
  std::string isa() const override { return "generic"; }
  std::string library() const override { return "none"; }
  int threads() const override { return 1; }
  Index memory_bytes() const override { return 0; }
};

}  // namespace motley::testing
