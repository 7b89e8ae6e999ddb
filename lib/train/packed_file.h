// SPDX-License-Identifier: Apache-2.0
// Reads a file sequentially, compressed by gzip or not.
#pragma once
#include <motley/dims.h>
#include <motley/error.h>
#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace motley {

// folder/name, or folder/name.gz. UserError (66): neither exists; `how` says how to get it.
std::filesystem::path find_packed(const std::filesystem::path& folder, const std::string& name, const std::string& how);

// gzip: one member or several (RFC 1952, 2.2), and nothing after the last.
class PackedFile {
 public:
  explicit PackedFile(const std::filesystem::path& path);  // UserError (66)
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;
  ~PackedFile();
  void read(std::span<std::uint8_t> out);           // all of it; UserError (65): the file ends before, or is damaged
  std::uint32_t read_big_endian();                  // four bytes
  bool at_end();                                    // UserError (65): a wrong checksum, or further bytes that are not gzip's
  Index position() const { return position_; }      // unpacked bytes read so far
  Index most_bytes() const { return most_bytes_; }  // the unpacked file cannot be longer
  // UserError (65) that names the file and a byte of its unpacked content.
  [[noreturn]] void damaged(Index byte, const std::string& what) const;

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  bool fill();
  Index some(std::span<std::uint8_t> out, Index ahead);
  Index unpack(std::span<std::uint8_t> out, Index ahead);
  [[noreturn]] void broken(Index byte, const std::string& why) const;
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<std::uint8_t> block_;          // read and not yet unpacked: where zip_ says
  z_stream zip_{};                           // next_in, avail_in: also used for files that are not packed
  std::optional<std::uint8_t> next_{};       // a byte that at_end() has read
  bool packed_ = false, in_member_ = false;  // gzip; between a member's first byte and its checksum
  int members_ = 0;                          // number of members read to their ends
  Index position_ = 0, most_bytes_ = 0;
};

}  // namespace motley
