// SPDX-License-Identifier: Apache-2.0
// How ranks learn that their launcher has ended: it locks a file beside their records, and the system unlocks it.
#pragma once
#include <filesystem>

namespace motley {

// Held by the launcher. Error(io)
class LauncherLock {
 public:
  explicit LauncherLock(const std::filesystem::path& records);
  ~LauncherLock();
  LauncherLock(const LauncherLock&) = delete;
  LauncherLock& operator=(const LauncherLock&) = delete;

 private:
  int fd_ = -1;
};

// A rank's view of it.
class LauncherWatch {
 public:
  explicit LauncherWatch(const std::filesystem::path& records);
  ~LauncherWatch();
  LauncherWatch(const LauncherWatch&) = delete;
  LauncherWatch& operator=(const LauncherWatch&) = delete;
  // False, always, where the lock was not seen held at the start: a file system whose locks do not reach this host.
  bool has_ended();

 private:
  bool is_held() const;
  int fd_ = -1;
};

}  // namespace motley
