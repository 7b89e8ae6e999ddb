// SPDX-License-Identifier: Apache-2.0
#include "train/picture_cache.h"

#include <sys/stat.h>

#include <utility>

namespace motley {

FileStamp stamp_of(const std::filesystem::path& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) != 0) return {};
  return {static_cast<std::uint64_t>(found.st_size), std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec};
}

PictureCache::Pixels PictureCache::find(Index sample, const FileStamp& stamp) const {
  const std::scoped_lock lock(mutex_);
  const auto its = kept_.find(sample);
  return its != kept_.end() && its->second.stamp == stamp ? its->second.pixels : nullptr;
}

bool PictureCache::has_room(std::size_t bytes) const {
  const std::scoped_lock lock(mutex_);
  return bytes <= most_bytes_ - bytes_;
}

void PictureCache::keep(Index sample, const FileStamp& stamp, Pixels pixels) {
  const std::scoped_lock lock(mutex_);
  Kept& its = kept_[sample];
  const std::size_t before = its.pixels ? its.pixels->size() : 0, after = pixels->size();
  if (after > most_bytes_ - bytes_ + before) return;
  bytes_ += after - before;
  its = {stamp, std::move(pixels)};
}

}  // namespace motley
