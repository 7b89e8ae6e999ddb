// SPDX-License-Identifier: Apache-2.0
// Weights files of other libraries, read as if motley had written them.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weights/weights_file.h"

namespace motley {

// The file with its tensors named and shaped as in `wanted` (of one network), where the file has them in another form:
// - a matrix for a dense weight [out.., in..] (PyTorch's after a flatten; heads and head size as one), first dims of size 1;
// - a prefix that all names share ("transformer.", "bert.", "model.", after "module." or "_orig_mod." or alone) or lack;
// - "_" where the file has "." in a name;
// - attention's query, key and value in one tensor: `in_proj_weight` (PyTorch), `c_attn` (GPT-2);
//   its output: `out_proj`, `c_proj`, or `output.dense` beside `self` (BERT);
// - GPT-2's `c_attn`, `c_proj` and `c_fc` as [in, out], if the shapes in the file say so (the names alone say nothing: in nanoGPT,
//   and in a network of one's own, they are [out, in]);
// - `gamma` and `beta` of norms; a parameter that is a separate layer, without `.weight`.
// Entries that do not affect the network are left out: `num_batches_tracked`, position ids, GPT-2's causal masks, BERT's pooler, a
// tied weight under its second name (with the same values). All other tensors keep their names: the caller complains that they are
// unknown.
// tied: further names of the network's tensors, of layers that share a weight -> the tensor. The file may have it under any of
// these names, or under several with the same values.
std::unique_ptr<WeightsFile> in_own_names(std::unique_ptr<WeightsFile> file, const std::vector<StoredTensor>& wanted,
                                          const std::map<std::string, std::string>& tied = {});

}  // namespace motley
