// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/ops.h>

#include <string>
#include <vector>

namespace motley {

// map() under the name of another op, for the positions of unnamed outputs and for errors.
Tensor map_as(const std::string& op, const std::string& formula, const std::vector<Tensor>& x, const std::string& name);

}  // namespace motley
