// SPDX-License-Identifier: Apache-2.0
// Attention as products and maps, for as many heads, or queries of one head, at a time as have scores that fit a bounded workspace.
// Independent of the device: the caller provides the kernels of the parts.
#pragma once
#include <motley/backend.h>

#include <functional>
#include <memory>

namespace motley::cuda {

// Makes the kernel of a dense product or a map. aligned: its operands are aligned to kDeviceAlignment if those of the whole
// attention are.
using MakePart = std::function<std::unique_ptr<Kernel>(const KernelSpec& spec, bool aligned)>;

inline constexpr Index kScoresAtOnce = Index{1} << 24;  // 64 MiB of f32: enough work for any GPU

std::unique_ptr<Kernel> attention_in_parts(const KernelSpec& spec, const MakePart& make, Index scores = kScoresAtOnce);

}  // namespace motley::cuda
