// SPDX-License-Identifier: Apache-2.0
// A bf16 spec by its f32 kernel: operands are widened into the workspace, the result is rounded out of it. For a backend that has
// no kernel of its own for bf16.
#pragma once
#include <motley/backend.h>

namespace motley {

// Elements begin..end-1 of arrays that do not overlap.
struct Conversion {
  void (*widen)(const Bf16* from, float* to, Index begin, Index end) = nullptr;
  void (*narrow)(const float* from, Bf16* to, Index begin, Index end) = nullptr;
  int threads = 1;
};
// One after the other.
Conversion plain_conversion();
// kernel: of in_f32(spec).
std::unique_ptr<Kernel> converted(const KernelSpec& spec, std::unique_ptr<Kernel> kernel, Conversion conversion);

}  // namespace motley
