// SPDX-License-Identifier: Apache-2.0
// Gradients of micro-batches are added in f64 and rounded once; running statistics are updated.
#pragma once
#include <motley/formula.h>

namespace motley {

Formula add_gradient();   // sum, gradient -> sum
Formula take_gradient();  // sum -> 0, gradient
Formula square();         // gradient -> its square, for the norm

// With value v of the step and statistic s: (1 - m) s + m v; and in two parts, for n consecutive micro-batches:
Formula moved(double momentum);                     // value, statistic -> statistic
Formula add_value(double momentum);                 // sum, value -> (1 - m) sum + m value
Formula moved_by_sum(double momentum, int values);  // sum, statistic -> (1 - m)^n statistic + sum

}  // namespace motley
