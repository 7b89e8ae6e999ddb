// SPDX-License-Identifier: Apache-2.0
// Whole networks of two to five layers whose step takes some milliseconds, each with the dims that are cut.
#pragma once
#include <motley/ops.h>

#include <memory>
#include <string>
#include <vector>

namespace motley::bench {

struct SmallNetwork {
  std::unique_ptr<Graph> graph{};
  Tensor loss{};
  std::vector<Dim> cut{};  // one or two, over all ranks
};

const std::vector<std::string>& small_network_names();
SmallNetwork small_network(const std::string& name);  // UserError: there is none of this name

}  // namespace motley::bench
