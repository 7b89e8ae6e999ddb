// SPDX-License-Identifier: Apache-2.0
#include "base/open_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <motley/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace motley {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

fs::path target_of(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_symlink(path, failed)) return path;
  return fs::exists(path, failed) ? fs::canonical(path) : folder_of(path) / fs::read_symlink(path);
}

constexpr int kOpen = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

}  // namespace

void cannot_be(const std::string& what, const fs::path& path) {
  throw UserError(path.string() + ": cannot be " + what + ": " + std::strerror(errno), Exit::io);
}

struct OpenDirectory::State {
  State(fs::path its_path, int its_fd) : path(std::move(its_path)), fd(its_fd) {}
  ~State() { ::close(fd); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  fs::path path;
  int fd;
  std::optional<FileIn> place{};  // of a directory that was opened in another one
};

OpenDirectory::OpenDirectory(const fs::path& path) {
  const int fd = ::open(path.c_str(), kOpen);
  if (fd < 0) cannot_be("opened as a directory", path);
  state_ = std::make_shared<const State>(path, fd);
}

const fs::path& OpenDirectory::path() const {
  static const fs::path none;
  return state_ ? state_->path : none;
}

int OpenDirectory::fd() const {
  check(state_ != nullptr, "a directory was opened");
  return state_->fd;
}

FileIn OpenDirectory::operator/(const std::string& name) const {
  return {*this, name};
}

bool OpenDirectory::is_here() const {
  struct stat own {
  }, named{};
  if (::fstat(fd(), &own) != 0 || own.st_nlink == 0) return false;
  const std::optional<FileIn>& place = state_->place;
  const int found =
      place ? ::fstatat(place->in.fd(), place->name.c_str(), &named, AT_SYMLINK_NOFOLLOW) : ::stat(path().c_str(), &named);
  return found == 0 && named.st_ino == own.st_ino && named.st_dev == own.st_dev && (!place || place->in.is_here());
}

void OpenDirectory::require_here() const {
  if (!is_here()) throw UserError(path().string() + " was renamed or removed while it was used", Exit::io);
}

OpenDirectory::Kind OpenDirectory::kind(const std::string& name) const {
  struct stat facts {};
  if (::fstatat(fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return Kind::none;
  return S_ISREG(facts.st_mode) ? Kind::file : S_ISDIR(facts.st_mode) ? Kind::directory : Kind::other;
}

std::string OpenDirectory::why_not(const std::string& name, Kind expected) const {
  struct stat facts {};
  if (::fstatat(fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return "";
  const std::string one = expected == Kind::file ? "file" : "directory";
  if (S_ISLNK(facts.st_mode)) return "is a symbolic link; expected the " + one + " itself";
  const char* what = S_ISDIR(facts.st_mode)    ? "directory"
                     : S_ISREG(facts.st_mode)  ? "file"
                     : S_ISFIFO(facts.st_mode) ? "pipe"
                     : S_ISSOCK(facts.st_mode) ? "socket"
                                               : "device";
  if (what != one) return std::string("is a ") + what + "; expected a " + one;
  if (facts.st_uid != ::geteuid())
    return "belongs to user " + std::to_string(facts.st_uid) + "; expected a " + one + " of user " + std::to_string(::geteuid());
  return "";
}

std::vector<std::string> OpenDirectory::names() const {
  std::vector<std::string> out;
  const int again = ::openat(fd(), ".", kOpen);  // with a position of its own
  DIR* list = again < 0 ? nullptr : ::fdopendir(again);
  if (list == nullptr) {
    if (again >= 0) ::close(again);
    return out;
  }
  while (const dirent* entry = ::readdir(list))
    if (const std::string name = entry->d_name; name != "." && name != "..") out.push_back(name);
  ::closedir(list);
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<OpenDirectory> OpenDirectory::find(const std::string& name) const {
  const int found = ::openat(fd(), name.c_str(), kOpen | O_NOFOLLOW);
  if (found < 0 && errno == ENOENT) return std::nullopt;
  if (found < 0) cannot_be("opened as a directory", path() / name);
  auto state = std::make_shared<State>(path() / name, found);
  state->place.emplace(*this, name);
  OpenDirectory out;
  out.state_ = std::move(state);
  return out;
}

OpenDirectory OpenDirectory::made(const std::string& name) const {
  if (!has(name)) {
    require_here();
    if (::mkdirat(fd(), name.c_str(), 0777) != 0 && errno != EEXIST) cannot_be("created", path() / name);
  }
  if (auto out = find(name)) return *out;
  cannot_be("opened as a directory", path() / name);
}

bool OpenDirectory::remove(const std::string& name) const {
  if (::unlinkat(fd(), name.c_str(), 0) == 0) return true;
  return (errno == EISDIR || errno == EPERM) && ::unlinkat(fd(), name.c_str(), AT_REMOVEDIR) == 0;
}

void OpenDirectory::remove_all(const std::string& name) const {
  if (remove(name) || kind(name) != Kind::directory) return;
  try {
    if (const auto inner = find(name))
      for (const std::string& one : inner->names()) inner->remove_all(one);
  } catch (const UserError&) {  // it may not be read
  }
  remove(name);
}

bool OpenDirectory::try_rename(const std::string& name, const FileIn& to) const {
  return ::renameat(fd(), name.c_str(), to.in.fd(), to.name.c_str()) == 0;
}

void OpenDirectory::rename(const std::string& name, const FileIn& to) const {
  if (!try_rename(name, to)) cannot_be("renamed to " + to.path().string(), path() / name);
}

void OpenDirectory::sync() const {
  if (::fsync(fd()) != 0 && errno != EINVAL) cannot_be("synced", path());  // some file systems have no folder sync
}

FileIn::FileIn(const fs::path& file, Links links) {
  const fs::path target = links == Links::follow ? target_of(file) : file, folder = folder_of(target);
  if (std::error_code failed; !fs::is_directory(folder, failed))
    throw UserError(file.string() + ": there is no directory " + folder.string() + "; make it, or give another file", Exit::io);
  in = OpenDirectory(folder);
  name = target.filename().string();
}

}  // namespace motley
