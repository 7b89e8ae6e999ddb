// SPDX-License-Identifier: Apache-2.0
#include "run/launcher_lock.h"

#include <fcntl.h>
#include <motley/error.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace motley {

namespace {

constexpr const char* kFile = "launcher";

}  // namespace

LauncherLock::LauncherLock(const std::filesystem::path& records) {
  const std::filesystem::path file = records / kFile;
  fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd_ < 0) throw Error(Exit::io, file.string() + ": " + std::strerror(errno));
  static_cast<void>(::flock(fd_, LOCK_EX | LOCK_NB));  // without locks ranks do not learn of the launcher's end
}

LauncherLock::~LauncherLock() {
  ::close(fd_);
}

LauncherWatch::LauncherWatch(const std::filesystem::path& records)
    : fd_(::open((records / kFile).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)) {
  if (fd_ >= 0 && !is_held()) ::close(std::exchange(fd_, -1));
}

LauncherWatch::~LauncherWatch() {
  if (fd_ >= 0) ::close(fd_);
}

bool LauncherWatch::is_held() const {
  if (::flock(fd_, LOCK_SH | LOCK_NB) != 0) return true;  // or a failing file system: nothing is known then
  ::flock(fd_, LOCK_UN);
  return false;
}

bool LauncherWatch::has_ended() {
  return fd_ >= 0 && !is_held();
}

}  // namespace motley
