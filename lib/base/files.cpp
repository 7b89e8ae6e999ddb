// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <fcntl.h>
#include <motley/error.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

namespace motley {
namespace {

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path) {
  throw UserError(path.string() + ": cannot be " + what + ": " + std::strerror(errno), Exit::io);
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

// Closed and, until kept, removed on the way out. Errors name the file that it becomes.
class Beside {
 public:
  explicit Beside(const std::filesystem::path& final_path)
      : final_(final_path), path_(final_path.string() + ".new-" + std::to_string(::getpid())) {
    static std::atomic<int> count{0};  // threads of one process are ranks too
    path_ += "-" + std::to_string(count++);
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("created in the directory " + folder_of(final_).string(), final_);
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  ~Beside() {
    if (fd_ >= 0) ::close(fd_);
    if (!kept_) ::unlink(path_.c_str());
  }
  void write(std::span<const std::byte> bytes) {
    constexpr std::size_t kMost = std::size_t{1} << 30;  // one write() moves less than 2 GiB on Linux
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kMost));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("written", final_);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  void keep() {
    if (::fsync(fd_) != 0) fail("written", final_);
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) fail("closed", final_);
    if (::rename(path_.c_str(), final_.c_str()) != 0) fail("replaced", final_);
    kept_ = true;
  }

 private:
  std::filesystem::path final_;
  std::string path_;
  int fd_ = -1;
  bool kept_ = false;
};

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("opened", folder);
  const bool ok = ::fsync(fd) == 0 || errno == EINVAL;  // some file systems have no folder sync
  ::close(fd);
  if (!ok) fail("synced", folder);
}

}  // namespace

void require_folder(const std::filesystem::path& file) {
  const std::filesystem::path folder = folder_of(file);
  if (std::error_code failed; !std::filesystem::is_directory(folder, failed))
    throw UserError(file.string() + ": there is no directory " + folder.string() + "; make it, or give another file", Exit::io);
}

void write_pieces(const std::filesystem::path& path, std::initializer_list<std::span<const std::byte>> pieces) {
  require_folder(path);
  Beside beside(path);
  for (const auto& piece : pieces) beside.write(piece);
  beside.keep();
  sync_folder(folder_of(path));
}

}  // namespace motley
