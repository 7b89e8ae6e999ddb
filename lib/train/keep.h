// SPDX-License-Identifier: Apache-2.0
// A State in files, written and read by all ranks together (public: motley/weights.h).
#pragma once
#include <motley/weights.h>

#include <filesystem>

#include "weights/checkpoint.h"

namespace motley {

// Collective: each rank writes what it owns beside `directory`, which all of them see; rank 0 names and marks it. `facts`: step,
// seed and position. UserError, on all ranks (74: nothing is left of it, and a checkpoint that was there is still there).
void save_checkpoint(Runtime& rt, const State& state, const std::filesystem::path& directory, const Manifest& facts);
// Collective: every rank reads what it owns. UserError, on all ranks, before anything is overwritten: 66, 65.
Manifest load_checkpoint(Runtime& rt, State& state, const std::filesystem::path& directory);

// A tensor of a State, or of a file.
struct NamedShape {
  std::string name{};  // with its slot
  std::vector<Index> extents{};
};
// What of the State the file lacks, has besides or has in another shape, a line each; empty: nothing.
std::string differences(const std::vector<NamedShape>& state, const std::vector<NamedShape>& file);

}  // namespace motley
