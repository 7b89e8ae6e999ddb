// SPDX-License-Identifier: Apache-2.0
// Gradients of micro-batches are added in f64 and rounded once.
#pragma once
#include <motley/formula.h>

namespace motley {

Formula add_gradient();   // sum, gradient -> sum
Formula take_gradient();  // sum -> 0, gradient
Formula square();         // gradient -> its square, for the norm

}  // namespace motley
