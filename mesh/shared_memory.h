// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/transport.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace motley {

// Zeroed, touched memory that starts on a page: one memfd, reserved before anything is written (so that too little memory is an
// error here, not a SIGBUS later), which ranks of this host can map. Private memory where memfds do not work.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes);  // DeviceError: not enough memory
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  std::span<std::byte> bytes() const { return {start_, size_}; }
  // What a rank of this host needs to map it. fd -1: it is private memory.
  struct Name {
    std::int32_t pid = 0, fd = -1;
    std::uint64_t bytes = 0;
  };
  Name name() const;
  const std::string& why_private() const { return why_private_; }

 private:
  std::byte* start_ = nullptr;
  std::size_t size_ = 0, mapped_ = 0;
  int fd_ = -1;
  std::string why_private_{};
};

// Another rank's shared memory, mapped by its name. Remains readable after that rank has ended.
class PeerSharedMemory {
 public:
  explicit PeerSharedMemory(const SharedMemory::Name& name);  // DeviceError: it cannot be mapped
  ~PeerSharedMemory();
  PeerSharedMemory(PeerSharedMemory&& other) noexcept;
  PeerSharedMemory& operator=(PeerSharedMemory&&) = delete;
  std::span<std::byte> bytes() const { return {start_, size_}; }

 private:
  std::byte* start_ = nullptr;
  std::size_t size_ = 0;
};

// One rank's shared memories: Transport::allocate and share for ranks that are processes.
class SharedMemories {
 public:
  HeldBytes allocate(std::size_t bytes);
  std::vector<HeldBytes> share(Transport& transport, const HeldBytes& mine) const;

 private:
  std::vector<std::weak_ptr<const SharedMemory>> own_{};
};

}  // namespace motley
