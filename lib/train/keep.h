// SPDX-License-Identifier: Apache-2.0
// Saving and loading a State, by all ranks together (public: motley/weights.h; checkpoints are written by saver.h).
#pragma once
#include <motley/weights.h>

#include <filesystem>

#include "weights/checkpoint.h"

namespace motley {

// Collective: every rank reads what it owns. optimizer: the kind whose slots the State has. UserError, on all ranks, before
// anything is overwritten: 66, 65.
Manifest load_checkpoint(Runtime& rt, State& state, const std::filesystem::path& directory, const std::string& optimizer);

// Collective: as the public function, on rank 0 into an open directory.
void save_weights(Runtime& rt, const State& state, const FileIn& file);

}  // namespace motley
