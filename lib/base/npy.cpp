// SPDX-License-Identifier: Apache-2.0
#include "base/npy.h"

#include <motley/error.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "base/files.h"

namespace motley {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little endian");

constexpr std::string_view kMagic{"\x93NUMPY\x01\x00", 8};
constexpr std::size_t kAlign = 64;  // the data starts at a multiple of it (numpy.lib.format)

template <class T>
constexpr std::string_view descr();
template <>
constexpr std::string_view descr<float>() {
  return "<f4";
}
template <>
constexpr std::string_view descr<double>() {
  return "<f8";
}
template <>
constexpr std::string_view descr<std::int32_t>() {
  return "<i4";
}
template <>
constexpr std::string_view descr<std::int64_t>() {
  return "<i8";
}

template <class T>
void write(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const T> values) {
  std::string shape;
  Index elements = 1;
  for (Index e : extents) {
    shape += (shape.empty() ? "" : ", ") + std::to_string(e);
    elements *= e;
  }
  if (extents.size() == 1) shape += ",";  // as Python: (), (5,), (5, 6)
  check(elements == static_cast<Index>(values.size()), "a .npy file gets as many values as its extents say");
  std::string header = "{'descr': '" + std::string(descr<T>()) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  const std::size_t before = kMagic.size() + 2;  // magic, version, length of the header
  header.append((kAlign - (before + header.size() + 1) % kAlign) % kAlign, ' ');
  header += '\n';
  check(header.size() < 65536, "a version 1.0 header is shorter than 64 KiB");
  std::string start(kMagic);
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  start += header;
  write_pieces(path, {std::as_bytes(std::span<const char>(start)), std::as_bytes(values)});
}

// Walks the header, a Python dict literal of the three known keys.
class Header {
 public:
  Header(const std::filesystem::path& path, std::string_view text, std::size_t first) : path_(path), text_(text), first_(first) {}
  void read() {
    expect('{');
    for (int keys = 0; !is('}'); keys++) {
      if (keys > 0) expect(',');
      if (is('}')) break;
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr")
        descr = quoted();
      else if (key == "fortran_order")
        fortran_order();
      else if (key == "shape")
        shape();
      else
        damaged("the key '" + std::string(key) + "' is none of descr, fortran_order, shape");
    }
    if (descr.empty() || !shape_seen_ || !order_seen_) damaged("descr, fortran_order and shape must all be there");
  }
  std::string_view descr{};
  std::vector<Index> extents{};

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw UserError(path_.string() + ": byte " + std::to_string(first_ + at_) + ": not a .npy header: " + what, Exit::data);
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) at_++;
  }
  bool is(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  void expect(char c) {
    if (!is(c)) damaged("expected '" + std::string(1, c) + "'");
    at_++;
  }
  std::string_view quoted() {
    expect('\'');
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) damaged("a text without its end");
    const std::string_view out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }
  void fortran_order() {
    skip();
    if (text_.substr(at_, 5) != "False") damaged("only C order is read; save numpy.ascontiguousarray(x)");
    at_ += 5;
    order_seen_ = true;
  }
  void shape() {
    expect('(');
    Index elements = 1;
    while (!is(')')) {
      Index n = 0;
      const std::size_t begin = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && at_ - begin < 16; at_++)
        n = 10 * n + (text_[at_] - '0');
      if (at_ == begin) damaged("expected an extent");
      if (__builtin_mul_overflow(elements, n, &elements)) damaged("more elements than a file can hold");
      extents.push_back(n);
      if (!is(')')) expect(',');
    }
    at_++;
    shape_seen_ = true;
  }

  const std::filesystem::path& path_;
  std::string_view text_;
  std::size_t first_, at_ = 0;
  bool shape_seen_ = false, order_seen_ = false;
};

template <class T>
std::vector<T> values(const std::filesystem::path& path, const std::string& bytes, std::size_t from,
                      const std::vector<Index>& extents) {
  std::size_t elements = 1;
  for (Index e : extents) elements *= static_cast<std::size_t>(e);
  const std::size_t there = bytes.size() - from;
  if (there % sizeof(T) != 0 || there / sizeof(T) != elements)
    throw UserError(path.string() + ": byte " + std::to_string(from) + ": " + std::to_string(elements) + " elements of " +
                        std::to_string(sizeof(T)) + " bytes expected, there are " + std::to_string(there) + " bytes",
                    Exit::data);
  std::vector<T> out(elements);
  if (elements > 0) std::memcpy(out.data(), bytes.data() + from, there);
  return out;
}

}  // namespace

void write_npy(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const float> values) {
  write(path, extents, values);
}
void write_npy(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const double> values) {
  write(path, extents, values);
}
void write_npy(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const std::int32_t> values) {
  write(path, extents, values);
}
void write_npy(const std::filesystem::path& path, const std::vector<Index>& extents, std::span<const std::int64_t> values) {
  write(path, extents, values);
}

NpyArray read_npy(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path))
    throw UserError(path.string() + ": no such file, or it cannot be read", Exit::missing);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  if (in.bad()) throw UserError(path.string() + ": cannot be read", Exit::io);
  const std::size_t before = kMagic.size() + 2;
  if (bytes.size() < before || std::string_view(bytes).substr(0, kMagic.size()) != kMagic)
    throw UserError(path.string() + ": byte 0: not a .npy file of version 1.0", Exit::data);
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
  const std::size_t from = before + byte(8) + 256 * byte(9);
  if (from > bytes.size()) throw UserError(path.string() + ": byte 8: the header is longer than the file", Exit::data);
  Header header(path, std::string_view(bytes).substr(before, from - before), before);
  header.read();
  if (header.descr == descr<float>()) return {header.extents, values<float>(path, bytes, from, header.extents)};
  if (header.descr == descr<double>()) return {header.extents, values<double>(path, bytes, from, header.extents)};
  if (header.descr == descr<std::int32_t>()) return {header.extents, values<std::int32_t>(path, bytes, from, header.extents)};
  if (header.descr == descr<std::int64_t>()) return {header.extents, values<std::int64_t>(path, bytes, from, header.extents)};
  throw UserError(path.string() + ": elements of type '" + std::string(header.descr) + "'; <f4, <f8, <i4 or <i8 can be read",
                  Exit::data);
}

}  // namespace motley
