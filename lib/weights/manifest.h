// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint: what it holds, and where in its files.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weights/weights_file.h"

namespace motley {

constexpr std::uint64_t kChunkBytes = std::uint64_t{4} << 20;  // that one hash covers

// Where training is in its data.
struct StoredPosition {
  Index epoch = 0, batch = 0;         // of the next step, both counted from 0
  Index batch_size = 0, samples = 0;  // of the data that they count; 0: not known
};

struct StoredPart {  // one box
  Box box{};
  int file = 0;  // of the manifest's list
  std::uint64_t offset = 0, bytes = 0;
  std::vector<std::string> hashes{};  // of its chunks, one after another
};
inline constexpr const char* kAverageSlot = "average";  // what a parameter's weights are, where there is one

struct StoredEntry {  // a parameter or a statistic (slot ""), or what the optimizer keeps of one
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
  StoredPosition data{};
  std::vector<StoredFile> files{};
  std::vector<StoredEntry> entries{};
};

std::string to_text(const Manifest& manifest);
// What text() wrote, its structure not checked. UserError (65) with every complaint.
Manifest parse_manifest(const std::string& name, const std::string& text);
// Its parts are the tensors, each element once, and the files are its parts, each byte once. UserError (65).
void check_structure(const Manifest& manifest, const std::string& name);
std::string shard_name(int rank);                     // "rank-3.bin"
std::optional<int> rank_of(const std::string& file);  // 3; nothing: another name

}  // namespace motley
