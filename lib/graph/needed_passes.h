// SPDX-License-Identifier: Apache-2.0
// Passes that nothing needs: gradients of frozen parameters, and what only these would be computed from.
#pragma once
#include "graph/passes.h"

namespace motley {

// Removes the passes whose results neither an output nor a parameter's gradient depends on, and the tensors that no pass writes or
// reads then (inputs, labels, parameters and the losses' own gradients stay).
void drop_unneeded(Passes& passes);

}  // namespace motley
