// SPDX-License-Identifier: Apache-2.0
#include "train/packed_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace motley {
namespace fs = std::filesystem;

fs::path find_packed(const fs::path& folder, const std::string& name, const std::string& how) {
  for (const char* suffix : {"", ".gz"})
    if (std::error_code ignored; fs::is_regular_file(folder / (name + suffix), ignored)) return folder / (name + suffix);
  throw UserError((folder / name).string() + ": not found (nor with .gz added); " + how, Exit::missing);
}

PackedFile::PackedFile(const fs::path& path) : path_(path) {
  errno = 0;
  file_.reset(gzopen(path.c_str(), "rbe"));
  if (!file_) throw UserError(path.string() + ": cannot be opened: " + std::strerror(errno == 0 ? ENOMEM : errno), Exit::missing);
  gzbuffer(file_.get(), 1U << 17);
  std::error_code error;
  const auto packed = fs::file_size(path, error);
  if (error) throw UserError(path.string() + ": cannot be read: " + error.message(), Exit::io);
  constexpr Index kMostPerByte = 1032;  // what deflate can make of one byte (zlib's technical notes, "maximum compression factor")
  most_bytes_ = static_cast<Index>(packed) * (gzdirect(file_.get()) ? 1 : kMostPerByte);
}

void PackedFile::damaged(Index byte, const std::string& what) const {
  throw UserError(
      path_.string() + ": " + (gzdirect(file_.get()) != 0 ? "byte " : "unpacked byte ") + std::to_string(byte) + ": " + what,
      Exit::data);
}

// `ahead`: bytes that this call has read beyond position().
void PackedFile::check_reads(Index ahead) const {
  int code = Z_OK;
  const char* text = gzerror(file_.get(), &code);
  if (code == Z_ERRNO) throw UserError(path_.string() + ": cannot be read: " + std::strerror(errno), Exit::io);
  if (code == Z_OK || code == Z_STREAM_END) return;
  std::string why = text;  // zlib names the file too
  if (const std::string name = path_.string() + ": "; why.starts_with(name)) why.erase(0, name.size());
  damaged(position_ + ahead, "damaged (zlib: " + why + ")");
}

// Fewer bytes than asked for: the file ended.
Index PackedFile::read_some(std::span<std::uint8_t> out) {
  Index done = 0;
  while (!out.empty()) {
    const unsigned most = static_cast<unsigned>(std::min<std::size_t>(out.size(), 1U << 30));
    const int n = gzread(file_.get(), out.data(), most);
    check_reads(done);
    if (n == 0) break;
    done += n;
    out = out.subspan(static_cast<std::size_t>(n));
  }
  position_ += done;
  return done;
}

void PackedFile::read(std::span<std::uint8_t> out) {
  const Index wanted = static_cast<Index>(out.size()), from = position_;
  if (read_some(out) < wanted)
    damaged(position_,
            "the file ends here; " + std::to_string(wanted) + " bytes expected from byte " + std::to_string(from) + " on");
}

std::uint32_t PackedFile::read_big_endian() {
  std::array<std::uint8_t, 4> b{};
  read(b);
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | std::uint32_t{b[3]};
}

bool PackedFile::at_end() {
  const int next = gzgetc(file_.get());
  if (next >= 0) return gzungetc(next, file_.get()), false;
  check_reads(0);
  return true;
}

}  // namespace motley
