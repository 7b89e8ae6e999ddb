// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <fcntl.h>
#include <motley/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace motley {
namespace {

constexpr const char* kNew = ".new-";  // then the process and a number: the end of a name of made_beside()

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path) {
  throw UserError(path.string() + ": cannot be " + what + ": " + std::strerror(errno), Exit::io);
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

std::filesystem::path target_of(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::is_symlink(path, failed)) return path;
  return std::filesystem::exists(path, failed) ? std::filesystem::canonical(path)
                                               : folder_of(path) / std::filesystem::read_symlink(path);
}

void require_file(const std::filesystem::path& path) {
  std::error_code failed;
  if (std::filesystem::exists(path, failed) && !std::filesystem::is_regular_file(path, failed))
    throw UserError(path.string() + (std::filesystem::is_directory(path, failed) ? ": is a directory" : ": is a pipe or a device") +
                        "; give the name of a file",
                    Exit::io);
}

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // one write() moves less than 2 GiB on Linux
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), kMost));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("written", path);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

// The files that were read.
class ReadFiles {
 public:
  void add(const struct stat& file) {
    if (full_.load(std::memory_order_relaxed)) return;  // data of many files: what a command writes is named before
    const std::lock_guard lock(mutex_);
    files_.emplace(file.st_dev, file.st_ino);
    full_ = files_.size() >= kMost;
  }
  bool has(const struct stat& file) {
    const std::lock_guard lock(mutex_);
    return files_.contains({file.st_dev, file.st_ino});
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::atomic<bool> full_ = false;
  std::mutex mutex_{};
  std::set<std::pair<dev_t, ino_t>> files_{};
};

ReadFiles& read_files() {
  static ReadFiles files;
  return files;
}

}  // namespace

bool was_read(const std::filesystem::path& file) {
  struct stat facts {};
  return ::stat(file.c_str(), &facts) == 0 && read_files().has(facts);
}

void note_read(const std::filesystem::path& file) {
  if (struct stat facts{}; ::stat(file.c_str(), &facts) == 0) read_files().add(facts);
}

std::filesystem::path made_beside(const std::filesystem::path& path, const std::function<bool(const char*)>& make) {
  static std::atomic<int> count{0};  // threads of one process are ranks too
  for (;;) {                         // an existing one was left by a process that was killed
    const std::string name = path.string() + kNew + std::to_string(::getpid()) + "-" + std::to_string(count++);
    if (make(name.c_str())) return name;
    if (errno != EEXIST) fail("created in the directory " + folder_of(path).string(), path);
  }
}

std::string made_for(const std::string& name) {
  const std::size_t at = name.rfind(kNew);
  if (at == std::string::npos) return name;
  const std::string_view numbers = std::string_view(name).substr(at + std::strlen(kNew));
  const bool ours =
      numbers.find_first_not_of("0123456789-") == std::string_view::npos && numbers.find('-') != std::string_view::npos;
  return ours ? name.substr(0, at) : name;
}

NewFile::NewFile(const std::filesystem::path& path) : final_(target_of(path)) {
  require_file(final_);
  path_ = made_beside(final_, [this](const char* name) {
    fd_ = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd_ >= 0;
  });
  // Of the file that is replaced; where the file system has none, as it makes them.
  if (struct stat old{}; ::stat(final_.c_str(), &old) == 0) static_cast<void>(::fchmod(fd_, old.st_mode & 0777));
}

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!kept_) ::unlink(path_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  write_all(fd_, bytes, final_);
}

void NewFile::rewrite_start(std::span<const std::byte> bytes) {
  if (::lseek(fd_, 0, SEEK_SET) != 0) fail("written", final_);
  write_all(fd_, bytes, final_);
  if (::lseek(fd_, 0, SEEK_END) < 0) fail("written", final_);
}

void NewFile::keep() {
  if (::fsync(fd_) != 0) fail("written", final_);
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail("closed", final_);
  if (::rename(path_.c_str(), final_.c_str()) != 0) fail("replaced", final_);
  kept_ = true;
  sync_folder(folder_of(final_));
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("opened", folder);
  const bool ok = ::fsync(fd) == 0 || errno == EINVAL;  // some file systems have no folder sync
  ::close(fd);
  if (!ok) fail("synced", folder);
}

InputFile::InputFile(const std::filesystem::path& path, Links links) : path_(path) {
  // O_NONBLOCK: open() does not wait for a writer of a pipe.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (links == Links::refuse ? O_NOFOLLOW : 0));
  if (fd_ < 0 && links == Links::refuse && errno == ELOOP)
    throw UserError(path.string() + ": a symbolic link; expected the file itself", Exit::data);
  if (fd_ < 0)
    throw UserError(path.string() + ": cannot be opened: " + std::strerror(errno),
                    errno == ENOENT || errno == ENOTDIR || errno == EACCES ? Exit::missing : Exit::io);
  struct stat facts {};
  const bool known = ::fstat(fd_, &facts) == 0, regular = known && S_ISREG(facts.st_mode);
  if (!regular) ::close(fd_);
  if (!known) fail("read", path_);
  if (!regular) throw UserError(path.string() + ": not a file", links == Links::refuse ? Exit::data : Exit::missing);
  size_ = static_cast<std::uint64_t>(facts.st_size);
  read_files().add(facts);
}

InputFile::~InputFile() {
  ::close(fd_);
}

void InputFile::read(std::uint64_t at, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), std::min(out.size(), std::size_t{1} << 30), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", path_);
    if (n == 0)
      throw UserError(path_.string() + ": byte " + std::to_string(at) + ": the file ends there" +
                          (at < size_ ? "; it had " + std::to_string(size_) + " bytes when it was opened" : ""),
                      Exit::data);
    at += static_cast<std::uint64_t>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

std::string InputFile::text(std::uint64_t at, std::uint64_t bytes) const {
  if (at > size_ || bytes > size_ - at)
    throw UserError(path_.string() + ": byte " + std::to_string(size_) + ": the file ends there, " + std::to_string(bytes) +
                        " bytes were expected at byte " + std::to_string(at),
                    Exit::data);
  std::string out(bytes, '\0');
  read(at, std::as_writable_bytes(std::span(out)));
  return out;
}

std::filesystem::path cache_folder() {
  const auto variable = [](const char* name) {
    const char* text = std::getenv(name);
    return std::filesystem::path(text == nullptr ? "" : text);
  };
  const std::filesystem::path cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (cache.is_absolute()) return cache / "motley";
  return home.is_absolute() ? home / ".cache" / "motley" : std::filesystem::path();
}

std::string text_of(const std::filesystem::filesystem_error& error) {
  std::string out = error.path1().string();
  if (!error.path2().empty()) out += " to " + error.path2().string();
  return out + (out.empty() ? "" : ": ") + error.code().message();
}

std::filesystem::path plain_path(const std::filesystem::path& path) {
  std::filesystem::path whole = std::filesystem::absolute(path);
  std::error_code failed;
  // What .. leads to depends on links.
  if (std::find(whole.begin(), whole.end(), "..") != whole.end()) {
    std::filesystem::path found = std::filesystem::weakly_canonical(whole, failed);
    if (failed) return whole;
    whole = std::move(found);
  }
  whole = whole.lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

void require_folder(const std::filesystem::path& file) {
  const std::filesystem::path folder = folder_of(file);
  if (std::error_code failed; !std::filesystem::is_directory(folder, failed))
    throw UserError(file.string() + ": there is no directory " + folder.string() + "; make it, or give another file", Exit::io);
  if (::access(folder.c_str(), W_OK) != 0)
    throw UserError(file.string() + ": the directory " + folder.string() + " is not writable: " + std::strerror(errno), Exit::io);
}

void require_writable(const std::filesystem::path& file, Pipes pipes) {
  std::error_code failed;
  const auto kind = std::filesystem::status(file, failed).type();
  using std::filesystem::file_type;
  if (pipes == Pipes::accept && (kind == file_type::character || kind == file_type::fifo)) return;
  require_folder(target_of(file));
  require_file(target_of(file));
}

void write_pieces(const std::filesystem::path& path, std::initializer_list<std::span<const std::byte>> pieces) {
  require_writable(path);
  NewFile file(path);
  for (const auto& piece : pieces) file.write(piece);
  file.keep();
}

}  // namespace motley
