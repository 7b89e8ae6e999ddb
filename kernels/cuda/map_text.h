// SPDX-License-Identifier: Apache-2.0
// The text of a map's kernels, and how they are launched.
#pragma once
#include <motley/kernel_spec.h>

#include <string>
#include <vector>

namespace motley::cuda {

// Kernels of a map that reduces nothing: "run" computes `n` elements from element `first` on, a thread each; "run_vector" (there if
// vector > 1) computes n times `vector` consecutive ones, a thread for each `vector`, where the operands are aligned.
// Of a map that reduces: "run" computes a part of the sums (or maxima) of kept_lanes elements per block, in blocks_y parts, and
// with more than one part "combine" computes the results from these. Arguments: inputs, results, memory for parts, then n, first,
// terms, parts.
struct MapText {
  std::string text{};
  std::vector<std::string> kernels{};
  std::size_t inputs = 0, results = 1;
  bool reduces = false;
  Index elements = 0;  // of a result
  Index terms = 1;     // reduced to one element
  Index parts = 1;     // of a reduction
  int vector = 1;
  std::vector<std::size_t> alignment{};          // bytes, per operand: what "run_vector" needs
  Index kept_lanes = 1, combine_kept_lanes = 1;  // elements per block
  std::size_t parts_bytes() const { return parts == 1 ? 0 : static_cast<std::size_t>(parts * elements) * results * sizeof(double); }
};

// Whether map_text can make the text: at most kMostMapExtents extents, and operands that a launch's arguments hold.
bool supports_map(const KernelSpec& spec);
// DeviceError, if not supported. InternalError: an invalid spec.
MapText map_text(const KernelSpec& spec);

}  // namespace motley::cuda
