// SPDX-License-Identifier: Apache-2.0
// The kernels of a step that move more bytes than they compute: folds, pools, updates.
#pragma once
#include <motley/kernel_spec.h>

#include <string>
#include <vector>

namespace motley::bench {

struct MemoryBound {
  std::string name{};
  KernelSpec spec{};
};

// Over the first layers' activations of such a batch, 32 x 32 with 64 channels where not named otherwise: a quarter of a MiB per
// image and operand.
std::vector<MemoryBound> memory_bound(Index batch);

}  // namespace motley::bench
