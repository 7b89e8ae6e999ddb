// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>

namespace motley {

// Zeroed, touched memory that starts on a page: one memfd, reserved before anything is written (too little memory is an
// error here, not a SIGBUS later), which ranks of this host can map. Private memory where memfds do not work.
class Window {
 public:
  explicit Window(std::size_t bytes);  // DeviceError: not enough memory
  ~Window();
  Window(Window&& other) noexcept;
  Window& operator=(Window&&) = delete;
  std::span<std::byte> bytes() const { return {start_, size_}; }

 private:
  std::byte* start_ = nullptr;
  std::size_t size_ = 0, mapped_ = 0;
  int fd_ = -1;
};

}  // namespace motley
