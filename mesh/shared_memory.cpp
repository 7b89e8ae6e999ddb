// SPDX-License-Identifier: Apache-2.0
#include "mesh/shared_memory.h"

#include <fcntl.h>
#include <motley/error.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "mesh/host_memory.h"

namespace motley {

namespace {

constexpr std::size_t kPage = 4096, kLargePage = std::size_t{2} << 20;

std::string because(const char* call) {
  return std::string(call) + ": " + std::strerror(errno);
}

// A mapping aligned to large pages, so that it may use them; MAP_FAILED: there is none.
void* map_file(int fd, std::size_t bytes, int flags) {
  void* const room = mmap(nullptr, bytes + kLargePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return room;
  auto* const first = static_cast<std::byte*>(room);
  const std::size_t skipped = (kLargePage - reinterpret_cast<std::uintptr_t>(room) % kLargePage) % kLargePage;
  const std::size_t mapped = (bytes + kPage - 1) / kPage * kPage;
  if (skipped > 0) munmap(first, skipped);
  munmap(first + skipped + mapped, kLargePage - skipped);
  void* const at = mmap(first + skipped, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | flags, fd, 0);
  const int error = errno;
  if (at == MAP_FAILED) munmap(first + skipped, mapped);
  errno = error;
  return at;
}

bool allocate(int fd, std::size_t first, std::size_t bytes) {
  int failed = -1;
  while ((failed = fallocate(fd, 0, static_cast<off_t>(first), static_cast<off_t>(bytes))) != 0 && errno == EINTR) continue;
  return failed == 0;
}

// Reserves a file's memory, in large pages as far as these are available: a step over 400 MB takes 0.97 of the time. Linux 6.1
// makes them for shared memory, whatever its settings, where one small page is there already; if all are, it copies them, which
// takes 4 to 7 times as long.
bool reserve(int fd, std::byte* start, std::size_t bytes) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, which glibc 2.36 does not name
  const std::size_t large = bytes / kLargePage * kLargePage;
  for (std::size_t i = 0; i < large; i += kLargePage)
    if (!allocate(fd, i, kPage)) return false;
  if (large > 0) static_cast<void>(madvise(start, large, kCollapse));
  return allocate(fd, 0, bytes);
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes)
    : size_(bytes), mapped_((std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage) {
  const std::string requested = std::to_string(bytes) + " bytes for buffers";
  if (const std::uint64_t free = free_bytes(read_memory()); bytes > free)
    throw DeviceError("requested " + requested + ", but only " + std::to_string(free) +
                      " bytes of memory are free; give this device a smaller part or a smaller batch");
  fd_ = memfd_create("motley", MFD_CLOEXEC);
  if (fd_ < 0) why_private_ = because("memfd_create");
  if (why_private_.empty() && ftruncate(fd_, static_cast<off_t>(mapped_)) != 0) why_private_ = because("ftruncate");
  void* at = MAP_FAILED;
  if (why_private_.empty()) {
    at = map_file(fd_, mapped_, 0);
    if (at == MAP_FAILED) why_private_ = because("mmap of a memfd");
  }
  if (why_private_.empty() && !reserve(fd_, static_cast<std::byte*>(at), mapped_)) {
    why_private_ = because("fallocate");
    munmap(at, mapped_);
    at = MAP_FAILED;
  }
  if (at == MAP_FAILED) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
    at = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
      throw DeviceError("no memory: " + requested + " failed as shared memory (" + why_private_ + ") and as private memory (" +
                        because("mmap") + ")");
    static_cast<void>(madvise(at, mapped_, MADV_HUGEPAGE));
  }
  start_ = static_cast<std::byte*>(at);
  for (std::size_t i = 0; i < mapped_; i += kPage) *const_cast<volatile std::byte*>(start_ + i) = std::byte{0};
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)),
      size_(other.size_),
      mapped_(other.mapped_),
      fd_(std::exchange(other.fd_, -1)),
      why_private_(std::move(other.why_private_)) {}

SharedMemory::~SharedMemory() {
  if (start_ != nullptr) munmap(start_, mapped_);
  if (fd_ >= 0) ::close(fd_);
}

SharedMemory::Name SharedMemory::name() const {
  return {static_cast<std::int32_t>(getpid()), fd_, size_};
}

PeerSharedMemory::PeerSharedMemory(const SharedMemory::Name& name) : size_(name.bytes) {
  const std::string path = "/proc/" + std::to_string(name.pid) + "/fd/" + std::to_string(name.fd);
  auto refuse = [&](const std::string& why) {
    throw DeviceError("memory of process " + std::to_string(name.pid) + " cannot be mapped: " + why);
  };
  if (name.fd < 0) refuse("it is private");
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) refuse(because(("open of " + path).c_str()));
  struct stat file {};  // a PID of another namespace may name any process: check before mapping
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || static_cast<std::uint64_t>(file.st_size) < name.bytes) {
    ::close(fd);
    refuse(path + " is another file");
  }
  void* at = map_file(fd, std::max<std::size_t>(size_, 1), MAP_POPULATE);
  const std::string why = at == MAP_FAILED ? because("mmap") : "";
  ::close(fd);
  if (at == MAP_FAILED) refuse(why);
  start_ = static_cast<std::byte*>(at);
}

PeerSharedMemory::PeerSharedMemory(PeerSharedMemory&& other) noexcept
    : start_(std::exchange(other.start_, nullptr)), size_(other.size_) {}

PeerSharedMemory::~PeerSharedMemory() {
  if (start_ != nullptr) munmap(start_, std::max<std::size_t>(size_, 1));
}

HeldBytes SharedMemories::allocate(std::size_t bytes) {
  std::erase_if(own_, [](const auto& memory) { return memory.expired(); });
  auto made = std::make_shared<const SharedMemory>(bytes);
  own_.push_back(made);
  return {made->bytes(), made};
}

std::vector<HeldBytes> SharedMemories::share(Transport& transport, const HeldBytes& mine) const {
  std::shared_ptr<const SharedMemory> own;
  for (const auto& memory : own_)
    if (auto held = memory.lock(); held == mine.holder) own = std::move(held);
  check(own != nullptr, "memory from allocate() is shared");
  const std::vector<int>& hosts = transport.hosts();
  const auto me = static_cast<std::size_t>(transport.rank());
  if (!own->why_private().empty() && std::count(hosts.begin(), hosts.end(), hosts[me]) > 1)
    throw DeviceError(std::to_string(own->bytes().size()) +
                      " bytes for buffers cannot be shared with the other ranks of this host: " + own->why_private());
  const SharedMemory::Name name = own->name();
  const auto all = transport.gather_all(std::as_bytes(std::span(&name, 1)));
  std::vector<HeldBytes> out(all.size());
  for (std::size_t r = 0; r < all.size(); r++) {
    SharedMemory::Name its;
    check(all[r].size() == sizeof its, "all ranks are in the same share()");
    std::memcpy(&its, all[r].data(), sizeof its);
    if (r == me) {
      out[r] = mine;
    } else if (hosts[r] == hosts[me]) {
      const auto mapped = std::make_shared<const PeerSharedMemory>(its);
      out[r] = {mapped->bytes(), mapped};
    }
  }
  static_cast<void>(transport.gather_all({}));  // a rank releases it only when all have mapped it
  return out;
}

}  // namespace motley
