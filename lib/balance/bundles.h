// SPDX-License-Identifier: Apache-2.0
// Layers that are cut together: a convolution, dense layer, attention or sum with the maps, pools and norms after it.
#pragma once
#include <string>
#include <vector>

#include "graph/passes.h"

namespace motley {

struct Bundle {
  std::vector<std::string> layers{};  // the first makes what the others change
};

struct Bundles {
  std::vector<Bundle> list{};
  std::vector<int> of_pass{};    // per pass; -1: of no layer
  std::vector<int> of_tensor{};  // per tensor; -1: of no layer (inputs)
};

// A layer without a parameter of more than one dim that reads one other layer, and no input of floats, joins that layer's bundle.
Bundles bundles_of(const Passes& passes);

}  // namespace motley
