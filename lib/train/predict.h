// SPDX-License-Identifier: Apache-2.0
// The network's outputs for samples of an array.
#pragma once
#include <motley/predictor.h>

namespace motley {

// Collective: the predictor's only output for each sample, row-major in the order of its dims, with the batch's dim as long as
// there are samples; a short last batch is filled up. The values are on rank 0 alone.
struct Predictions {
  std::vector<Index> extents{};
  std::vector<double> values{};
};
Predictions predict(Runtime& rt, Predictor& predictor, const std::shared_ptr<const Dataset>& data, const std::string& image);

}  // namespace motley
