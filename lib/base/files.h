// SPDX-License-Identifier: Apache-2.0
// Files that appear whole or not at all; files read at any offset.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>

#include "base/open_directory.h"

namespace motley {

// Absolute, without "." and "..", and without a slash at the end: "run/" and "./run" are one directory.
std::filesystem::path plain_path(const std::filesystem::path& path);

// This user's folder for what can be made again: $XDG_CACHE_HOME/motley or ~/.cache/motley; empty: neither variable names one.
std::filesystem::path cache_folder();

std::string text_of(const std::filesystem::filesystem_error& error);  // "runs/first: File name too long"

// Requires that the file's directory is writable, and that the name is a regular file's, or nothing's. UserError (74).
void require_writable(const FileIn& file);
enum class Pipes : std::uint8_t { refuse, accept };
// Of a file that a user named: also accepts a pipe or a character device where these are accepted.
void require_writable(const std::filesystem::path& file, Pipes pipes);

// A free name beside `file` under which make() has created something in that directory; make() returns false with errno set.
// UserError (74).
FileIn made_beside(const FileIn& file, const std::function<bool(int directory, const char* name)>& make);

// The file that a name of made_beside() was made for, also by a process that was killed; of other names the name itself.
std::string made_for(const std::string& name);

// A file written beside its final name; keep() syncs, renames and syncs the folder. Until then an existing file stays as it is; a
// file that is not kept is removed. UserError (74) says which call failed on `file`, or that its directory was renamed or removed.
class NewFile {
 public:
  explicit NewFile(const FileIn& file);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  void write(std::span<const std::byte> bytes);  // appends to what was written before
  void rewrite_start(std::span<const std::byte> bytes);
  void keep();

 private:
  FileIn final_, made_;
  int fd_ = -1;
  bool kept_ = false;
};

// A regular file, open for reading. UserError: 66 it does not exist (65: a directory or a symbolic link, where links are refused),
// 74.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path, Links links = Links::follow);
  explicit InputFile(const FileIn& file);  // links are refused
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }                  // when it was opened
  void read(std::uint64_t at, std::span<std::byte> out) const;  // UserError: 65 the file ends before, 74
  std::string text(std::uint64_t at, std::uint64_t bytes) const;
  std::string text() const { return text(0, size_); }

 private:
  InputFile(std::filesystem::path path, int directory, const char* name, Links links);
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  int fd_ = -1;
};

// Whether this process has opened that file to read it: InputFile, read_file() and PackedFile say so of the first 4096 files. What
// a user names for writing is compared with them.
bool was_read(const std::filesystem::path& file);
void note_read(const std::filesystem::path& file);

// Writes the pieces in turn beside `file`, syncs, renames, syncs the folder. An existing file stays as it is until the rename.
// UserError (74) says which call failed on which file; no temporary file is left in that case.
void write_pieces(const FileIn& file, std::initializer_list<std::span<const std::byte>> pieces);
void write_text(const FileIn& file, const std::string& text);  // the same
// Into a pipe or a device that a user named, as bytes that its reader takes. UserError (74): no process reads the pipe.
void write_into(const std::filesystem::path& pipe, const std::string& text);

}  // namespace motley
