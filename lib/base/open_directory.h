// SPDX-License-Identifier: Apache-2.0
// A directory that is opened once, and the names in it: no symbolic link in it is followed, and no path is looked up again.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace motley {

// UserError (74): "PATH: cannot be WHAT: " and errno's text.
[[noreturn]] void cannot_be(const std::string& what, const std::filesystem::path& path);

struct FileIn;
enum class Links : std::uint8_t { follow, refuse };

// A name in this object is one component, relative to the directory. A copy shares the descriptor.
class OpenDirectory {
 public:
  OpenDirectory() = default;  // none: only for what has no directory
  // What a user named; links that lead to it are followed. UserError (74): it is not there, or not a directory.
  OpenDirectory(const std::filesystem::path& path);  // NOLINT(google-explicit-constructor)
  explicit operator bool() const { return state_ != nullptr; }
  const std::filesystem::path& path() const;  // as it was opened: for messages
  int fd() const;
  FileIn operator/(const std::string& name) const;

  // False: it was removed, or its path no longer leads to it.
  bool is_here() const;
  void require_here() const;  // UserError (74)

  enum class Kind : std::uint8_t { none, file, directory, other };  // other: a link, a pipe, a socket, a device
  Kind kind(const std::string& name) const;
  bool has(const std::string& name) const { return kind(name) != Kind::none; }
  // Why this name is not a file (or a directory) of this user: "is a symbolic link; expected the file itself"; empty: it is, or
  // there is nothing of that name.
  std::string why_not(const std::string& name, Kind expected) const;
  std::vector<std::string> names() const;  // of all that is in it, sorted
  // A directory in it; nothing: there is none. UserError (74): it cannot be opened, or the name is another thing's.
  std::optional<OpenDirectory> find(const std::string& name) const;
  OpenDirectory made(const std::string& name) const;  // the same, created if there is none. UserError (74)

  // What cannot be removed stays. A link is removed, not what it leads to.
  bool remove(const std::string& name) const;  // a file or an empty directory; false: it is still there, or never was
  void remove_all(const std::string& name) const;
  void rename(const std::string& name, const FileIn& to) const;      // replaces a file. UserError (74)
  bool try_rename(const std::string& name, const FileIn& to) const;  // false: with errno set
  void sync() const;  // so that a renamed file is there after a crash. UserError (74)

 private:
  struct State;
  std::shared_ptr<const State> state_{};
};

// A file (or directory) by its name in an open directory.
struct FileIn {
  FileIn(OpenDirectory directory, std::string file) : in(std::move(directory)), name(std::move(file)) {}
  // What a user named: beside what a link of that name leads to, unless links are refused. UserError (74): there is no such
  // directory.
  FileIn(const std::filesystem::path& file, Links links = Links::follow);  // NOLINT(google-explicit-constructor)
  std::filesystem::path path() const { return in.path() == "." ? std::filesystem::path(name) : in.path() / name; }
  OpenDirectory in;
  std::string name;
};

}  // namespace motley
