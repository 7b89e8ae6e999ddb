// SPDX-License-Identifier: Apache-2.0
// Pictures that cannot be decoded, found before the first step, so that every rank, epoch and resume counts the same samples.
#pragma once
#include <motley/runtime.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/open_directory.h"
#include "train/folder.h"

namespace motley {

inline constexpr const char* kDamagedFile = "damaged.json";  // in a run directory

struct SkipOptions {
  OpenDirectory keep_in{};                     // the list is written there
  std::vector<std::filesystem::path> known{};  // directories that may have a list of the same pictures, besides keep_in
  std::function<void(const std::string&line)> progress{}, say{};  // on rank 0; say: a line that the next one does not overwrite
};
// Collective: the pictures of `data` that are left out, the same on every rank. From the list that a run of the same pictures has
// kept, else each rank decodes a share of them. UserError, on all ranks: 65 a list that cannot be read, 66, 74. Stopped.
std::vector<std::string> damaged_pictures(Runtime& rt, const FolderData& data, const SkipOptions& options);
// Collective: those of `files` that cannot be decoded, in order, the same on every rank; nothing is kept.
std::vector<DamagedPicture> damaged_files(Runtime& rt, const PictureFiles& files, const SkipOptions& options);

}  // namespace motley
