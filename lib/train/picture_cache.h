// SPDX-License-Identifier: Apache-2.0
// Decoded samples, kept in memory for the next epochs: decoding a picture takes longer than most steps need for it.
#pragma once
#include <motley/dims.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace motley {

// The state of a file: what was decoded from another one is not used.
struct FileStamp {
  std::uint64_t bytes = 0;
  std::int64_t modified_nanoseconds = 0;
  bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(const std::filesystem::path& file);  // zeros: it cannot be looked at

// Holds what comes first, up to its size: each epoch visits all samples, in another order, so that giving up one for another gains
// nothing. For several threads.
class PictureCache {
 public:
  using Pixels = std::shared_ptr<const std::vector<std::uint8_t>>;
  explicit PictureCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  Pixels find(Index sample, const FileStamp& stamp) const;  // null: it is not there
  bool has_room(std::size_t bytes) const;
  void keep(Index sample, const FileStamp& stamp, Pixels pixels);  // if there is room

 private:
  struct Kept {
    FileStamp stamp{};
    Pixels pixels{};
  };
  const std::size_t most_bytes_;
  mutable std::mutex mutex_;
  std::unordered_map<Index, Kept> kept_{};
  std::size_t bytes_ = 0;
};

}  // namespace motley
