// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parameters of a State in files: .safetensors, .npz, checkpoints.
#pragma once
#include <motley/runtime.h>
#include <motley/state.h>

#include <filesystem>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup running
/// @{

/// Collective: rank 0 writes the complete parameters (their averages where the State keeps them, TrainingOptions::average), tensor
/// after tensor, in the State's dtype, row-major, convolutions `[out, in, rows, cols]`. The file appears whole or not at all.
/// UserError, on all ranks: 78 its name ends neither in .safetensors nor in .npz; 74.
void save_weights(Runtime& rt, const State& state, const std::filesystem::path& file);
/// Options of load_weights(). Every field has a default.
struct LoadWeightsOptions {
  /// Tensors that keep the values that they have: patterns as ParameterGroup::match, over statistics too. The file may lack them,
  /// or have them in another shape.
  std::vector<std::string> fresh{};
};
/// Collective: every rank reads what it owns from a .safetensors or .npz file, a checkpoint, or a run directory (its
/// weights.safetensors). Any float dtype; optimizer slots stay as they are, averages are set to the parameters. If a checkpoint
/// keeps averages, these are read. Where the State has no names of classes and no tensor is fresh, it gets those of the file.
/// UserError, on all ranks, before anything is overwritten: 66 it is not there; 65 it is damaged, a value is not finite, a running
/// variance is below 0, or its names and shapes are not those of the State (all differences at once); 78 a pattern matches no
/// tensor.
void load_weights(Runtime& rt, State& state, const std::filesystem::path& path, const LoadWeightsOptions& options = {});

/// @}
}  // namespace motley
