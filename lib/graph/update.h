// SPDX-License-Identifier: Apache-2.0
// An optimizer's update as a formula: operands learning rate, factor of the gradient (scalars, f64), gradient, slots, value;
// results slots, value.
#pragma once
#include <motley/formula.h>
#include <motley/step.h>

namespace motley {

Formula update_of(const Sgd& sgd);

}  // namespace motley
