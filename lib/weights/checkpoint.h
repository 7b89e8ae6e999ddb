// SPDX-License-Identifier: Apache-2.0
// A checkpoint: a State on disk. A directory with a manifest, one file per rank with the boxes that it owned, and a marker that is
// written last. Values are row-major boxes; each chunk of a box has a hash.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "weights/manifest.h"
#include "weights/weights_file.h"

namespace motley {

constexpr const char* kCheckpoints = "checkpoints";  // in a run directory
constexpr const char* kWeightsFile = "weights.safetensors";
constexpr const char* kManifest = "manifest.json";
constexpr const char* kMarker = "complete";  // contains the manifest's hash

// One rank's file, written beside its final name; parts are added in order.
class ShardWriter {
 public:
  explicit ShardWriter(const FileIn& file) : file_(file) {}
  StoredPart add(const Box& box, std::span<const std::byte> values);
  std::uint64_t bytes() const { return bytes_; }
  void finish() { file_.keep(); }

 private:
  NewFile file_;
  std::uint64_t bytes_ = 0;
};

// Writes the manifest and the marker into the directory `made`, where the ranks' files are, then renames it to `last`; what was
// there is removed after that, or, with a file system that cannot exchange names, is beside it (`.old`) for a moment. UserError
// (65: the parts do not make up the tensors; 74: also a manifest of more than 64 MiB).
void finish_checkpoint(const FileIn& made, const FileIn& last, const Manifest& manifest);

// To be called before a checkpoint is written there. UserError (74): what exists there is not a checkpoint, not even a damaged one.
void refuse_other_files(const FileIn& checkpoint);
// Whether it is a directory with nothing in it that is not part of a checkpoint: one that may be removed. whole: with a manifest.
enum class Whole : std::uint8_t { yes, any };
bool is_own_checkpoint(const FileIn& checkpoint, Whole whole = Whole::yes);

// An open checkpoint: marker, manifest, sizes of the files and the parts of every tensor have been checked; chunks are checked when
// they are read. For one thread at a time.
class Checkpoint {
 public:
  explicit Checkpoint(std::filesystem::path directory);  // UserError: 66 it is not there, 65
  const std::filesystem::path& path() const { return directory_; }
  const Manifest& manifest() const { return manifest_; }
  // The values of an entry inside the box: row-major, in the entry's dtype; `out` has exactly their size. Reads the chunks that
  // overlap the box. UserError (65, 74).
  void read(const StoredEntry& entry, const Box& box, std::span<std::byte> out) const;
  void check(const StoredEntry& entry, const Box& box) const;  // checks the chunks that read() would read. UserError (65, 74)
  void check_chunks() const;                                   // checks all chunks. UserError (65, 74)

 private:
  void visit(const StoredEntry& entry, const Box& box, std::span<std::byte> out) const;
  const InputFile& file_of(const StoredPart& part) const;
  std::filesystem::path directory_;
  Manifest manifest_{};
  mutable std::map<int, InputFile> open_{};  // files that were read from
  mutable std::vector<std::byte> room_{};    // of the chunks that are read: new memory takes as long to clear as to read
};

// The checkpoint's parameters and statistics.
std::unique_ptr<WeightsFile> open_checkpoint(const std::filesystem::path& directory);
// A checkpoint of complete tensors, without optimizer slots, at step 0.
std::unique_ptr<WeightsWriter> new_checkpoint(const std::filesystem::path& directory, const std::vector<StoredTensor>& tensors,
                                              const std::vector<std::string>& classes = {});
// The checkpoints of a run, the newest first, whether they are complete or not.
std::vector<std::filesystem::path> checkpoints_of(const std::filesystem::path& run_directory);
// Their names, of a run that is written: directories, not links to them.
std::vector<std::string> checkpoints_in(const OpenDirectory& run);
std::string step_directory(Index step);   // "step-N"
std::string checkpoint_name(Index step);  // from the run directory: "checkpoints/step-N"
// The step of a directory "step-N"; nothing: it has another name.
std::optional<Index> step_of(const std::filesystem::path& checkpoint);

}  // namespace motley
