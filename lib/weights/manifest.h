// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint: its contents, and where they are in its files.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weights/memory.h"
#include "weights/weights_file.h"

namespace motley {

constexpr std::uint64_t kChunkBytes = std::uint64_t{4} << 20;  // size that one hash covers

// Where training is in its data.
struct StoredPosition {
  Index epoch = 0, batch = 0;         // of the next step, both counted from 0
  Index batch_size = 0, samples = 0;  // of the data in which they count; 0: not known
};

struct StoredPart {  // one box
  Box box{};
  int file = 0;  // of the manifest's list
  std::uint64_t offset = 0, bytes = 0;
  std::vector<std::string> hashes{};  // of its chunks, in order
};
inline constexpr const char* kAverageSlot = "average";  // slot with the averaged weights of a parameter, if there are any

struct StoredEntry {  // a parameter or a statistic (slot ""), or an optimizer slot of one
  std::string slot{};
  StoredTensor tensor{};
  std::vector<StoredPart> parts{};
};
struct StoredFile {
  std::string name{};
  std::uint64_t bytes = 0;
};
struct Manifest {
  Index step = 0;  // steps done
  std::uint64_t seed = 0;
  std::string optimizer{};                // its kind; empty: not known (weights alone, or written by an older motley)
  std::optional<double> learning_rate{};  // of the last step; nothing: not known
  std::vector<std::string> classes{};     // names, by number; empty: not known
  StoredPosition data{};
  RunMemory memory{};
  std::vector<StoredFile> files{};
  std::vector<StoredEntry> entries{};
};

std::string to_text(const Manifest& manifest);
// Parses what text() wrote; its structure is not checked. UserError (65) with every complaint.
Manifest parse_manifest(const std::string& name, const std::string& text);
// What is wrong with the position of a training in its steps and its data; empty: nothing.
std::string position_mistake(const Manifest& manifest);
// Checks that the parts make up the tensors, each element once, and the files consist of the parts, each byte once. UserError (65).
void check_structure(const Manifest& manifest, const std::string& name);
std::string shard_name(int rank);                     // "rank-3.bin"
std::optional<int> rank_of(const std::string& file);  // 3; nothing: another name

}  // namespace motley
