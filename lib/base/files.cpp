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

// What is not a file is not replaced.
void require_file(const FileIn& file) {
  using Kind = OpenDirectory::Kind;
  const Kind kind = file.in.kind(file.name);
  if (kind == Kind::none || kind == Kind::file) return;
  const std::string why = file.in.why_not(file.name, Kind::file);
  const std::string what = kind == Kind::directory                 ? "is a directory; give the name of a file"
                           : why.find("link") != std::string::npos ? why
                                                                   : "is a pipe or a device; give the name of a file";
  throw UserError(file.path().string() + ": " + what, Exit::io);
}

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // one write() moves less than 2 GiB on Linux
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), kMost));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_be("written", path);
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

FileIn made_beside(const FileIn& file, const std::function<bool(int, const char*)>& make) {
  static std::atomic<int> count{0};  // threads of one process are ranks too
  for (;;) {                         // an existing one was left by a process that was killed
    FileIn made(file.in, file.name + kNew + std::to_string(::getpid()) + "-" + std::to_string(count++));
    if (make(file.in.fd(), made.name.c_str())) return made;
    if (errno != EEXIST) cannot_be("created in the directory " + file.in.path().string(), file.path());
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

NewFile::NewFile(const FileIn& file) : final_(file), made_(file) {
  final_.in.require_here();
  require_file(final_);
  made_ = made_beside(final_, [this](int directory, const char* name) {
    fd_ = ::openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd_ >= 0;
  });
  // Of the file that is replaced; where the file system has none, as it makes them.
  if (struct stat old{}; ::fstatat(final_.in.fd(), final_.name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0)
    static_cast<void>(::fchmod(fd_, old.st_mode & 0777));
}

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!kept_) made_.in.remove(made_.name);
}

void NewFile::write(std::span<const std::byte> bytes) {
  write_all(fd_, bytes, final_.path());
}

void NewFile::rewrite_start(std::span<const std::byte> bytes) {
  if (::lseek(fd_, 0, SEEK_SET) != 0) cannot_be("written", final_.path());
  write_all(fd_, bytes, final_.path());
  if (::lseek(fd_, 0, SEEK_END) < 0) cannot_be("written", final_.path());
}

void NewFile::keep() {
  if (::fsync(fd_) != 0) cannot_be("written", final_.path());
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) cannot_be("closed", final_.path());
  final_.in.require_here();
  require_file(final_);
  made_.in.rename(made_.name, final_);
  kept_ = true;
  final_.in.sync();
}

InputFile::InputFile(const std::filesystem::path& path, Links links) : InputFile(path, AT_FDCWD, path.c_str(), links) {}

InputFile::InputFile(const FileIn& file) : InputFile(file.path(), file.in.fd(), file.name.c_str(), Links::refuse) {}

InputFile::InputFile(std::filesystem::path path, int directory, const char* name, Links links) : path_(std::move(path)) {
  // O_NONBLOCK: open() does not wait for a writer of a pipe.
  fd_ = ::openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (links == Links::refuse ? O_NOFOLLOW : 0));
  if (fd_ < 0 && links == Links::refuse && errno == ELOOP)
    throw UserError(path_.string() + ": a symbolic link; expected the file itself", Exit::data);
  if (fd_ < 0)
    throw UserError(path_.string() + ": cannot be opened: " + std::strerror(errno),
                    errno == ENOENT || errno == ENOTDIR || errno == EACCES ? Exit::missing : Exit::io);
  struct stat facts {};
  const bool known = ::fstat(fd_, &facts) == 0, regular = known && S_ISREG(facts.st_mode);
  if (!regular) ::close(fd_);
  if (!known) cannot_be("read", path_);
  if (!regular) throw UserError(path_.string() + ": not a file", links == Links::refuse ? Exit::data : Exit::missing);
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
    if (n < 0) cannot_be("read", path_);
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

void require_writable(const FileIn& file) {
  if (::faccessat(file.in.fd(), ".", W_OK, AT_EACCESS) != 0)
    throw UserError(
        file.path().string() + ": the directory " + file.in.path().string() + " is not writable: " + std::strerror(errno),
        Exit::io);
  require_file(file);
}

void require_writable(const std::filesystem::path& file, Pipes pipes) {
  std::error_code failed;
  const auto kind = std::filesystem::status(file, failed).type();
  using std::filesystem::file_type;
  if (pipes == Pipes::accept && (kind == file_type::character || kind == file_type::fifo)) return;
  require_writable(FileIn(file));
}

void write_pieces(const FileIn& file, std::initializer_list<std::span<const std::byte>> pieces) {
  require_writable(file);
  NewFile to(file);
  for (const auto& piece : pieces) to.write(piece);
  to.keep();
}

void write_text(const FileIn& file, const std::string& text) {
  write_pieces(file, {std::as_bytes(std::span(text))});
}

void write_into(const std::filesystem::path& pipe, const std::string& text) {
  const int fd = ::open(pipe.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);  // open() does not wait for a reader
  if (fd < 0 && errno == ENXIO) throw UserError(pipe.string() + ": no process reads this pipe; start its reader first", Exit::io);
  if (fd < 0) cannot_be("opened", pipe);
  try {
    if (::fcntl(fd, F_SETFL, O_WRONLY) != 0) cannot_be("written", pipe);  // from here on it waits for the reader
    write_all(fd, std::as_bytes(std::span(text)), pipe);
  } catch (...) {
    ::close(fd);
    throw;
  }
  if (::close(fd) != 0) cannot_be("written", pipe);
}

}  // namespace motley
