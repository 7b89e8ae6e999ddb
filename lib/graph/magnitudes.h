// SPDX-License-Identifier: Apache-2.0
// How large the values are that are added into each gradient: what remains of a sum that cancels is rounding of these.
#pragma once
#include <map>

#include "graph/passes.h"

namespace motley {

// A sum this much smaller than what is added into it is 0 but for rounding.
inline constexpr double kCancelled = 1e-9;

struct Magnitudes {
  struct Sums {
    int tensor = -1;        // the sums of the magnitudes of what is added into each element of the gradient
    bool complete = false;  // false: they may be too small: an attention's gradients, which count as they are, are in them
  };
  Passes passes{};                // with further passes, beside the gradients'; the parameters' sums are further outputs
  std::map<int, Sums> sums_of{};  // by parameter's gradient
};

// Beside each pass of a gradient one that computes with magnitudes: |a| + |b| for a + b and a - b, |a| |b| for a b (a running error
// analysis: Higham, Accuracy and Stability of Numerical Algorithms, 3.3). What another pass reads of a gradient is its magnitude,
// or, where the sum has cancelled, the sum of magnitudes: so these do not grow along the network, and what is computed from mere
// rounding is known as such. For one rank, with copies merged.
Magnitudes with_magnitudes(const Passes& passes);

// The same for one formula; positive: which of its operands are magnitudes already. InternalError: too many instructions.
Formula magnitude_of(const Formula& formula, const std::vector<bool>& positive);

}  // namespace motley
