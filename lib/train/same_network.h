// SPDX-License-Identifier: Apache-2.0
// Whether a file of weights or a checkpoint is of this network: names and shapes, read from headers alone, before any rank starts.
#pragma once
#include <motley/state.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/passes.h"
#include "weights/checkpoint.h"

namespace motley {

// The entry as a file has it.
StoredTensor stored_tensor(const StateEntry& entry);
// What a State of a step with these passes stores (State::entries).
std::vector<StateEntry> entries_of(const Passes& passes, DType dtype);

// A parameter or statistic of a network; a tensor of a State, or of a file.
struct NamedShape {
  std::string name{};  // including its slot
  std::vector<Index> extents{};
  std::vector<std::string> dims{};  // of the network's; those that differ are named
};
// What the file lacks of the State, has in addition, or has in another shape, each in one line.
std::vector<std::string> differences(const std::vector<NamedShape>& state, const std::vector<NamedShape>& file);
// The first 20 of these lines, each after a line break.
std::string to_text(const std::vector<std::string>& differences);

struct OpenWeights {
  std::unique_ptr<WeightsFile> file{};     // its tensors as the network calls them
  std::vector<std::string> differences{};  // of names and shapes
  std::vector<std::string>
      unknown_fresh{};               // patterns that match neither a tensor of the network nor one of the file: what is wrong
  std::vector<std::string> mends{};  // patterns: with these as `fresh` too there are no differences
};
// Entries with a slot do not count. fresh: patterns (graph/name_patterns.h) of tensors that are not read from it, and may be
// missing, or of another shape. UserError: 66 it is not there; 65 it is not a file of weights.
OpenWeights compared_weights(const std::filesystem::path& path, const std::vector<StateEntry>& network,
                             const std::vector<std::string>& fresh);
// The same, without differences. UserError: 65 all differences at once; 78 an unknown pattern.
std::unique_ptr<WeightsFile> open_weights_of(const std::filesystem::path& path, const std::vector<StateEntry>& network,
                                             const std::vector<std::string>& fresh = {});

// How a checkpoint's entries become those of a State.
struct ResumedEntries {
  bool averages = true;                // false: it keeps none: they begin as the parameters
  std::vector<std::string> thawed{};   // parameters that were frozen: their slots begin at 0
  std::vector<std::string> dropped{};  // parameters that are frozen now: their slots are left out
};
// Whether it holds weights of any origin, with which a training begins.
bool is_weights_alone(const Manifest& checkpoint);
// optimizer: its kind. UserError (65): saved with another network or optimizer; all differences at once.
ResumedEntries resumed_entries(const std::string& checkpoint, const Manifest& its, const std::vector<StateEntry>& entries,
                               const std::string& optimizer);
// The same for a checkpoint of any kind, also of weights alone.
void require_resumable(const std::filesystem::path& checkpoint, const std::vector<StateEntry>& entries,
                       const std::string& optimizer);
// About parameters that were frozen or are frozen now; for people.
std::vector<std::string> frozen_notes(const ResumedEntries& resumed);

}  // namespace motley
