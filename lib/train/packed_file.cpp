// SPDX-License-Identifier: Apache-2.0
#include "train/packed_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/files.h"

namespace motley {
namespace fs = std::filesystem;

fs::path find_packed(const fs::path& folder, const std::string& name, const std::string& how) {
  for (const char* suffix : {"", ".gz"})
    if (std::error_code ignored; fs::is_regular_file(folder / (name + suffix), ignored)) return folder / (name + suffix);
  throw UserError((folder / name).string() + ": not found (nor with .gz added); " + how, Exit::missing);
}

PackedFile::PackedFile(const fs::path& path) : path_(path), block_(std::size_t{1} << 17) {
  errno = 0;
  file_.reset(std::fopen(path.c_str(), "rbe"));
  if (!file_) throw UserError(path.string() + ": cannot be opened: " + std::strerror(errno == 0 ? ENOMEM : errno), Exit::missing);
  note_read(path);
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error) throw UserError(path.string() + ": cannot be read: " + error.message(), Exit::io);
  packed_ = fill() && zip_.avail_in >= 2 && block_[0] == 0x1f && block_[1] == 0x8b;
  constexpr int kGzip = 16;  // added to the window's bits: zlib.h, inflateInit2
  if (packed_ && inflateInit2(&zip_, MAX_WBITS + kGzip) != Z_OK)
    throw UserError(path.string() + ": cannot be read: zlib has no memory", Exit::io);
  constexpr Index kMostPerByte = 1032;  // what deflate can make of one byte (zlib's technical notes, "maximum compression factor")
  most_bytes_ = static_cast<Index>(bytes) * (packed_ ? kMostPerByte : 1);
}

PackedFile::~PackedFile() {
  if (packed_) inflateEnd(&zip_);
}

void PackedFile::damaged(Index byte, const std::string& what) const {
  throw UserError(path_.string() + ": " + (packed_ ? "unpacked byte " : "byte ") + std::to_string(byte) + ": " + what, Exit::data);
}

void PackedFile::broken(Index byte, const std::string& why) const {
  if (members_ > 0 && zip_.total_out == 0)
    damaged(byte, "the gzip data ends here, but the file does not; expected its end or another gzip member (zlib: " + why + ")");
  damaged(byte, "damaged (zlib: " + why + ")");
}

// Reads more of the file; false at its end.
bool PackedFile::fill() {
  if (zip_.avail_in > 0) return true;
  errno = 0;
  const std::size_t n = std::fread(block_.data(), 1, block_.size(), file_.get());
  if (std::ferror(file_.get()) != 0) throw UserError(path_.string() + ": cannot be read: " + std::strerror(errno), Exit::io);
  zip_.next_in = block_.data();
  zip_.avail_in = static_cast<unsigned>(n);
  return n > 0;
}

// Gives at least one byte, or 0 at the file's end. `ahead`: bytes that this call has already read beyond position().
Index PackedFile::unpack(std::span<std::uint8_t> out, Index ahead) {
  const unsigned most = static_cast<unsigned>(std::min<std::size_t>(out.size(), 1U << 30));
  zip_.next_out = out.data();
  zip_.avail_out = most;
  while (zip_.avail_out == most) {
    const bool more = fill();
    if (!in_member_ && !more) return 0;
    if (!in_member_ && inflateReset(&zip_) != Z_OK) throw InternalError("zlib's state is lost");
    in_member_ = true;
    if (!more) broken(position_ + ahead, "unexpected end of file");
    const int code = inflate(&zip_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      in_member_ = false;
      members_++;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      broken(position_ + ahead + (most - zip_.avail_out), zip_.msg == nullptr ? zError(code) : zip_.msg);
    }
  }
  return most - zip_.avail_out;
}

Index PackedFile::some(std::span<std::uint8_t> out, Index ahead) {
  if (packed_) return unpack(out, ahead);
  if (!fill()) return 0;
  const std::size_t n = std::min<std::size_t>(out.size(), zip_.avail_in);
  std::memcpy(out.data(), zip_.next_in, n);
  zip_.next_in += n;
  zip_.avail_in -= static_cast<unsigned>(n);
  return static_cast<Index>(n);
}

void PackedFile::read(std::span<std::uint8_t> out) {
  const Index wanted = static_cast<Index>(out.size()), from = position_;
  Index done = 0;
  if (next_ && wanted > 0) {
    out[0] = *next_;
    next_.reset();
    done = 1;
  }
  while (done < wanted) {
    const Index n = some(out.subspan(static_cast<std::size_t>(done)), done);
    if (n == 0)
      damaged(position_ + done,
              "the file ends here; " + std::to_string(wanted) + " bytes expected from byte " + std::to_string(from) + " on");
    done += n;
  }
  position_ += done;
}

std::uint32_t PackedFile::read_big_endian() {
  std::array<std::uint8_t, 4> b{};
  read(b);
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | std::uint32_t{b[3]};
}

bool PackedFile::at_end() {
  std::uint8_t byte = 0;
  if (!next_ && some({&byte, 1}, 0) > 0) next_ = byte;
  return !next_;
}

}  // namespace motley
