// SPDX-License-Identifier: Apache-2.0
// Runs a bf16 spec by its f32 kernel: operands are widened into the workspace, the result is rounded from there. For a backend that
// has no kernel for bf16.
#pragma once
#include <motley/backend.h>

#include <functional>
#include <string>

namespace motley {

// Conversion of n elements between arrays that do not overlap, enqueued in the order of the backend's kernels.
struct Conversion {
  std::function<void(const Bf16* from, float* to, Index n)> widen{};
  std::function<void(const float* from, Bf16* to, Index n)> narrow{};
};
Conversion plain_conversion();
inline constexpr const char* kOfBf16 = " of bf16";  // ending of its implementation's name
// kernel: compiled from in_f32(spec).
std::unique_ptr<Kernel> converted(const KernelSpec& spec, std::unique_ptr<Kernel> kernel, Conversion conversion);

}  // namespace motley
