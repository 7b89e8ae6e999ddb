// SPDX-License-Identifier: Apache-2.0
// Which tensors of a step are stored in bf16.
#pragma once
#include "graph/passes.h"

namespace motley {

// Activations, their gradients and what contractions read are stored and sent in bf16: the tensors that contractions and pools read
// and write, and those that maps make from them element by element. These stay f32: inputs, labels, parameters and their gradients,
// outputs, what losses read (logits), what numbers select (embeddings), and everything smaller than what it is made of (means,
// scales, attention's log-sum-exp). Contractions read f32 tensors as copies in bf16, "NAME in bf16": the owner of a weight rounds
// it and sends the copy.
void store_in_bf16(Passes& passes);

}  // namespace motley
