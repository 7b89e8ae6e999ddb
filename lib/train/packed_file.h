// SPDX-License-Identifier: Apache-2.0
// Reads a file front to back, packed by gzip or not.
#pragma once
#include <motley/dims.h>
#include <motley/error.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace motley {

// folder/name, or folder/name.gz. UserError (66): neither is there; `how` says how to get it.
std::filesystem::path find_packed(const std::filesystem::path& folder, const std::string& name, const std::string& how);

class PackedFile {
 public:
  explicit PackedFile(const std::filesystem::path& path);  // UserError (66)
  void read(std::span<std::uint8_t> out);                  // all of it; UserError (65): the file ends before, or is damaged
  std::uint32_t read_big_endian();                         // four bytes
  bool at_end();                                           // UserError (65): the checksum at the end is wrong
  Index position() const { return position_; }             // bytes read, unpacked
  Index most_bytes() const { return most_bytes_; }         // the unpacked file cannot be longer
  // UserError (65) that names the file and a byte of its unpacked content.
  [[noreturn]] void damaged(Index byte, const std::string& what) const;

 private:
  struct Close {
    void operator()(gzFile_s* f) const { gzclose_r(f); }
  };
  void check_reads(Index ahead) const;
  Index read_some(std::span<std::uint8_t> out);
  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, Close> file_;
  Index position_ = 0, most_bytes_ = 0;
};

}  // namespace motley
