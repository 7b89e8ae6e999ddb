// SPDX-License-Identifier: Apache-2.0
// Saving and loading a State, by all ranks together (public: motley/weights.h; checkpoints are written by saver.h).
#pragma once
#include <motley/weights.h>

#include <filesystem>

#include "graph/passes.h"
#include "weights/checkpoint.h"

namespace motley {

// The entry as a file has it.
StoredTensor stored_tensor(const StateEntry& entry);
// Collective: every rank reads what it owns. optimizer: the kind whose slots the State has. UserError, on all ranks, before
// anything is overwritten: 66, 65.
Manifest load_checkpoint(Runtime& rt, State& state, const std::filesystem::path& directory, const std::string& optimizer);

// A parameter or statistic of a network; a tensor of a State, or of a file.
struct NamedShape {
  std::string name{};  // including its slot
  std::vector<Index> extents{};
};
// What the file lacks of the State, has in addition, or has in another shape, one line each; empty: nothing.
std::string differences(const std::vector<NamedShape>& state, const std::vector<NamedShape>& file);
std::vector<NamedShape> parameters_of(const Passes& passes);
// Except for weights of any origin. UserError (65): the checkpoint has other parameters.
void require_same_network(const std::string& checkpoint, const Manifest& its, const std::vector<NamedShape>& parameters);

}  // namespace motley
