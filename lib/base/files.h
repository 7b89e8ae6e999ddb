// SPDX-License-Identifier: Apache-2.0
// Files that are there whole or not at all.
#pragma once
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>

namespace motley {

// The directory in which the file will be is there. UserError (74).
void require_folder(const std::filesystem::path& file);

// Writes the pieces in turn beside `path`, syncs, renames, syncs the folder. A file that was there stays as it is until the
// rename. UserError (74) says which call failed on which file; nothing is left beside it then.
void write_pieces(const std::filesystem::path& path, std::initializer_list<std::span<const std::byte>> pieces);

}  // namespace motley
