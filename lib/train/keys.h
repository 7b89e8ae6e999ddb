// SPDX-License-Identifier: Apache-2.0
// What random numbers of a step are made from.
#pragma once
#include <motley/batch.h>

#include <cstdint>
#include <string>

namespace motley {

// A tensor of TensorRole::key: one number per place along its dim (that of the samples, where what is drawn for has one), decided
// by seed, tensor name and step alone: equal for every mesh, layout and number of micro-batches.
ReadBox random_keys(std::uint64_t seed, const std::string& tensor, Index step);

}  // namespace motley
