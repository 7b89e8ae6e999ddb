// SPDX-License-Identifier: Apache-2.0
// The source of a step's random numbers.
#pragma once
#include <motley/batch.h>

#include <cstdint>
#include <string>

namespace motley {

// A tensor of TensorRole::key: one number per position along its dim (the samples', if what is drawn for has samples), determined
// by seed, tensor name and step alone: equal for every mesh, layout and number of micro-batches.
ReadBox random_keys(std::uint64_t seed, const std::string& tensor, Index step);

}  // namespace motley
