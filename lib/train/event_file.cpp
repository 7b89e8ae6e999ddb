// SPDX-License-Identifier: Apache-2.0
#include "train/event_file.h"

#include <fcntl.h>
#include <motley/error.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/files.h"

namespace motley {

namespace {

// CRC-32C (RFC 3720, B.4), one table of 256 remainders.
std::uint32_t crc32c(std::string_view bytes) {
  static const std::array<std::uint32_t, 256> table = [] {
    constexpr std::uint32_t kReversedPolynomial = 0x82f63b78;
    std::array<std::uint32_t, 256> out{};
    for (std::uint32_t i = 0; i < out.size(); i++) {
      std::uint32_t c = i;
      for (int bit = 0; bit < 8; bit++) c = (c >> 1U) ^ ((c & 1U) != 0 ? kReversedPolynomial : 0);
      out[i] = c;
    }
    return out;
  }();
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xffU] ^ (crc >> 8U);
  return ~crc;
}

// As TFRecord stores it (tensorflow/core/lib/hash/crc32c.h).
std::uint32_t masked(std::uint32_t crc) {
  return std::rotr(crc, 15) + 0xa282ead8U;
}

template <class T>
std::string little_endian(T value) {
  std::string out;
  for (std::size_t i = 0; i < sizeof(T); i++) out += static_cast<char>((value >> (8 * i)) & 0xffU);
  return out;
}
std::uint64_t number_at(std::string_view bytes, std::size_t size) {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < size; i++) out |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return out;
}

// ---- protocol buffers: a field's tag is its number * 8 + its wire type

constexpr char kWallTime = 1 * 8 + 1, kStep = 2 * 8 + 0, kFileVersion = 3 * 8 + 2, kSummary = 5 * 8 + 2;  // of Event
constexpr char kValue = 1 * 8 + 2;                                                                        // of Summary
constexpr char kTagField = 1 * 8 + 2, kSimpleValue = 2 * 8 + 5;                                           // of Summary.Value
constexpr std::size_t kStepAt = 1 + sizeof(double);  // in an Event as written here

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7U) out += static_cast<char>((value & 0x7fU) | 0x80U);
  return out + static_cast<char>(value);
}
std::string bytes_field(char tag, const std::string& bytes) {
  return tag + varint(bytes.size()) + bytes;
}

std::string event(Index step, const std::string& what) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return kWallTime + little_endian(std::bit_cast<std::uint64_t>(now)) + kStep + varint(static_cast<std::uint64_t>(step)) + what;
}

std::string record(const std::string& data) {
  const std::string size = little_endian(std::uint64_t{data.size()});
  return size + little_endian(masked(crc32c(size))) + data + little_endian(masked(crc32c(data)));
}

// The step of an event that was written here; -1: it is another one's.
Index step_of_event(std::string_view data) {
  if (data.size() <= kStepAt || data[0] != kWallTime || data[kStepAt] != kStep) return -1;
  std::uint64_t step = 0;
  unsigned shift = 0;
  for (std::size_t i = kStepAt + 1; i < data.size() && shift < 63; i++, shift += 7) {
    step |= std::uint64_t{static_cast<unsigned char>(data[i]) & 0x7fU} << shift;
    if ((static_cast<unsigned char>(data[i]) & 0x80U) == 0) return static_cast<Index>(step);
  }
  return -1;
}

// Bytes of the whole records at the start of the file that are of steps up to this one.
std::size_t kept_bytes(std::string_view file, Index keep_steps) {
  constexpr std::size_t kBefore = 12, kAfter = 4;
  std::size_t at = 0;
  while (file.size() - at >= kBefore + kAfter) {
    const std::string_view size = file.substr(at, 8);
    const std::uint64_t bytes = number_at(size, 8);
    if (masked(crc32c(size)) != number_at(file.substr(at + 8), 4) || bytes > file.size() - at - kBefore - kAfter) break;
    const std::string_view data = file.substr(at + kBefore, bytes);
    if (masked(crc32c(data)) != number_at(file.substr(at + kBefore + bytes), 4)) break;
    if (const Index step = step_of_event(data); step < 0 || step > keep_steps) break;
    at += kBefore + bytes + kAfter;
  }
  return at;
}

}  // namespace

EventFile::EventFile(const FileIn& file, Index keep_steps) : path_(file.path().string()) {
  std::size_t kept = 0;
  if (keep_steps > 0 && file.in.kind(file.name) == OpenDirectory::Kind::file) kept = kept_bytes(InputFile(file).text(), keep_steps);
  if (const std::string wrong = file.in.why_not(file.name, OpenDirectory::Kind::file); !wrong.empty())
    throw UserError(path_ + " " + wrong, Exit::io);
  fd_ = openat(file.in.fd(), file.name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(kept)) != 0) {
    const int why = errno;
    if (fd_ >= 0) ::close(fd_);
    throw UserError(path_ + ": " + std::strerror(why), Exit::io);
  }
  if (kept == 0) write(record(event(0, bytes_field(kFileVersion, "brain.Event:2"))));
}

EventFile::~EventFile() {
  if (fd_ >= 0) ::close(fd_);
}

EventFile::EventFile(EventFile&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

void EventFile::add(Index step, const Scalars& scalars) {
  std::string values;
  for (const auto& [tag, value] : scalars)
    values += bytes_field(kValue, bytes_field(kTagField, tag) + kSimpleValue +
                                      little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(value))));
  write(record(event(step, bytes_field(kSummary, values))));
}

// All of it or, after an error, nothing.
void EventFile::write(const std::string& record) {
  const off_t start = lseek(fd_, 0, SEEK_END);
  for (std::size_t at = 0; at < record.size();) {
    const ssize_t n = ::write(fd_, record.data() + at, record.size() - at);
    if (n > 0) {
      at += static_cast<std::size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      const int why = n == 0 ? ENOSPC : errno;
      const bool cut = start >= 0 && ftruncate(fd_, start) == 0;
      throw UserError(path_ + ": write: " + std::strerror(why) + (cut ? "" : "; its last record is not complete"), Exit::io);
    }
  }
}

}  // namespace motley
