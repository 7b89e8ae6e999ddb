// SPDX-License-Identifier: Apache-2.0
// How many values are added into one that is computed from a parameter: initial values are drawn by it.
#pragma once
#include "graph/passes.h"

namespace motley {

// Sets StepTensor::fan_in of every parameter, from a step's passes as its ops made them: what a plan merges or keeps changes
// nothing.
// - Of the parameters of a layer that multiplies: the elements that its product contracts per output; of a transposed convolution
//   those of its convolution, as in PyTorch.
// - Of any other (a learned constant, a table): the same of the first product that reads the parameter, itself or after ops that
//   only move its values (rename, transpose, slice, ...); 1 if there is none.
void set_fan_in(Passes& passes);

}  // namespace motley
