// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/data.h>

#include <vector>

namespace motley {

// logits: row-major [labels.size(), rows.., classes, rows..]; samples whose label is kNoSample count for nothing.
struct Score {
  Index right = 0, rows = 0, samples = 0;
  double loss = 0;  // summed over rows
  void add(const std::vector<double>& logits, const std::vector<std::int32_t>& labels, Index classes,
           Index after = 1);  // after: elements of a class
};

}  // namespace motley
