// SPDX-License-Identifier: Apache-2.0
// Layers that are cut together: a convolution, dense layer, attention or sum with the maps, pools and norms after it.
#pragma once
#include <algorithm>
#include <set>
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

// The one rank that computes the contractions, pools and attention of a bundle; -1: several do, or there are none.
// work_of(pass): of each rank, none for a pass without a plan.
template <class WorkOf>
int rank_alone(const Passes& passes, const Bundle& bundle, WorkOf work_of) {
  std::set<int> ranks;
  for (std::size_t p = 0; p < passes.passes.size(); p++) {
    const Pass& pass = passes.passes[p];
    if (pass.op == KernelOp::map || std::find(bundle.layers.begin(), bundle.layers.end(), pass.layer) == bundle.layers.end())
      continue;
    const auto& work = work_of(static_cast<int>(p));
    for (std::size_t r = 0; r < work.size(); r++)
      if (work[r].any) ranks.insert(static_cast<int>(r));
  }
  return ranks.size() == 1 ? *ranks.begin() : -1;
}

}  // namespace motley
