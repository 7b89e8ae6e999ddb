// SPDX-License-Identifier: Apache-2.0
// The network's outputs for samples of an array.
#pragma once
#include <motley/predictor.h>

#include <string>
#include <vector>

namespace motley {

// Collective: the predictor's only output for each sample, row-major in the order of its dims, with the batch's dim as long as
// there are samples; a short last batch is filled up. The values are on rank 0 alone.
struct Predictions {
  std::vector<Index> extents{};
  std::vector<std::string> dims{};  // their names
  std::size_t batch = 0;            // position of the batch's
  std::vector<double> values{};
};
Predictions predict(Runtime& rt, Predictor& predictor, const std::shared_ptr<const Dataset>& data, const std::string& image);

}  // namespace motley
