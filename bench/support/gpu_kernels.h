// SPDX-License-Identifier: Apache-2.0
// A GPU's convolutions: what choosing an engine by measurement gains over the vendor's first one. Its own kernels: bytes per second
// beside a copy within the device.
#pragma once
#include <motley/backend.h>

#include <string>
#include <vector>

namespace motley::bench {

// Prints a table per network and batch; adds one JSON object per kernel to `json`.
void gpu_kernels(Backend& backend, const std::vector<Index>& batches, bool quick, std::vector<std::string>& json);
void own_kernels(Backend& backend, bool quick, std::vector<std::string>& json);

}  // namespace motley::bench
