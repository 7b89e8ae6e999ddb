// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/data.h>

#include <vector>

namespace motley {

// logits: row-major [samples, rows.., classes, rows..]; labels: one per row, in order. Rows whose label is negative or `ignored` do
// not count.
struct Score {
  static constexpr Index kTop = 5;
  Index right = 0, rows = 0;
  double loss = 0;                 // summed over rows
  Index in_top = 0;                // rows whose label is among the kTop greatest logits; counted with `confusion`
  std::vector<Index> confusion{};  // [label, answer]: rows; empty: not counted
  void add(const std::vector<double>& logits, const std::vector<std::int32_t>& labels, Index classes, Index after = 1,
           Index ignored = -1, double smoothing = 0);  // after: elements after the class dim; smoothing: of labels
};

}  // namespace motley
