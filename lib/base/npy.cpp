// SPDX-License-Identifier: Apache-2.0
#include "base/npy.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/half.h"
#include "base/likely_kind.h"

namespace motley {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little endian");

constexpr std::string_view kMagic{"\x93NUMPY", 6};
constexpr std::string_view kVersion{"\x01\x00", 2};
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
  Index elements = 1;
  for (Index e : extents) elements *= e;
  check(elements == static_cast<Index>(values.size()), "a .npy file gets as many values as its extents say");
  const std::string start = npy_start(descr<T>(), extents);
  write_pieces(path, {std::as_bytes(std::span<const char>(start)), std::as_bytes(values)});
}

// Walks the header, a Python dict literal of the three known keys.
class Header {
 public:
  Header(const std::string& name, std::string_view text, std::size_t first) : name_(name), text_(text), first_(first) {}
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
    if (descr.empty() || !shape_seen_ || !order_seen_) damaged("expected all of descr, fortran_order and shape");
    expect('}');
    skip();
    if (at_ < text_.size()) damaged("expected only blanks after the }");
  }
  std::string_view descr{};
  std::vector<Index> extents{};

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw UserError(name_ + ": byte " + std::to_string(first_ + at_) + ": not a .npy header: " + what, Exit::data);
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
    if (end == std::string_view::npos) damaged("a string without its closing quote");
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
      bool fits = true;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; at_++)
        fits = fits && !__builtin_mul_overflow(n, 10, &n) && !__builtin_add_overflow(n, text_[at_] - '0', &n);
      if (at_ == begin) damaged("expected an extent");
      if (at_ < text_.size() && text_[at_] == 'L') at_++;  // as Python 2 writes long integers
      if (!fits || __builtin_mul_overflow(elements, n, &elements)) damaged("more elements than a file can hold");
      extents.push_back(n);
      if (extents.size() == 1 || !is(')')) expect(',');  // (32) is a number in Python, (32,) a tuple
    }
    at_++;
    shape_seen_ = true;
  }

  const std::string& name_;
  std::string_view text_;
  std::size_t first_, at_ = 0;
  bool shape_seen_ = false, order_seen_ = false;
};

template <class T>
std::vector<T> values(const NpyHeader& header, std::string_view bytes) {
  std::vector<T> out(header.elements);
  if (header.elements > 0) std::memcpy(out.data(), bytes.data() + header.data, out.size() * sizeof(T));
  return out;
}

std::size_t bytes_of_one(std::string_view descr) {
  return static_cast<std::size_t>(descr[2] - '0');
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

std::string npy_start(std::string_view descr, const std::vector<Index>& extents) {
  std::string shape;
  for (Index e : extents) shape += (shape.empty() ? "" : ", ") + std::to_string(e);
  if (extents.size() == 1) shape += ",";  // as Python: (), (5,), (5, 6)
  std::string header = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  const std::size_t before = kMagic.size() + kVersion.size() + 2;  // includes the header's length field
  header.append((kAlign - (before + header.size() + 1) % kAlign) % kAlign, ' ');
  header += '\n';
  if (header.size() >= kMostNpyHeader)
    throw UserError("a tensor of " + std::to_string(extents.size()) + " dims has a .npy header of 64 KiB or more", Exit::data);
  std::string start(kMagic);
  start += kVersion;
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  return start + header;
}

NpyHeader parse_npy_header(const std::string& name, std::string_view bytes, std::span<const std::string_view> types) {
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
  if (bytes.size() < 10 || bytes.substr(0, kMagic.size()) != kMagic || byte(6) < 1 || byte(6) > 3 || byte(7) != 0)
    throw UserError(name + ": byte 0: not a .npy file of version 1.0 to 3.0" +
                        (bytes.starts_with(kMagic) ? "" : likely_kind(bytes.substr(0, kKindBytes))),
                    Exit::data);
  const bool wide = byte(6) > 1;  // the length of the header: 4 bytes, not 2
  const std::size_t before = wide ? 12 : 10;
  if (bytes.size() < before) throw UserError(name + ": byte 8: the file ends in its header", Exit::data);
  const std::size_t length = byte(8) + 256 * byte(9) + (wide ? 65536 * (byte(10) + 256 * byte(11)) : 0);
  if (length > kMostNpyHeader)
    throw UserError(name + ": byte 8: a header of " + std::to_string(length) + " bytes; at most " + std::to_string(kMostNpyHeader) +
                        " are read",
                    Exit::data);
  if (before + length > bytes.size()) throw UserError(name + ": byte 8: the header is longer than the file", Exit::data);
  Header header(name, bytes.substr(before, length), before);
  header.read();
  NpyHeader out{std::string(header.descr), header.extents, before + length, 1};
  std::string list;
  for (const std::string_view known : types) {
    if (out.descr.starts_with('>') && known.starts_with('<') && out.descr.substr(1) == known.substr(1))
      throw UserError(fmt::format("{0}: elements of type '{1}' are big-endian; expected '{2}', which array.astype('{2}') gives",
                                  name, out.descr, known),
                      Exit::data);
    if (out.descr == known) {
      for (Index e : out.extents) out.elements *= static_cast<std::size_t>(e);
      return out;
    }
    list += (list.empty() ? "" : known == types.back() ? " or " : ", ") + std::string(known);
  }
  const std::string hint =
      out.descr == "|b1" ? "; array.astype('u1') converts booleans, for images 'f4' (u1 is scaled to 0..1)" : "";
  throw UserError(name + ": elements of type '" + out.descr + "'; " + list + " can be read here" + hint, Exit::data);
}

void check_npy_size(const std::string& name, const NpyHeader& header, std::size_t bytes_of_file) {
  const std::size_t there = bytes_of_file - header.data, one = bytes_of_one(header.descr);
  if (there % one != 0 || there / one != header.elements)
    throw UserError(name + ": byte " + std::to_string(header.data) + ": " + std::to_string(header.elements) + " elements of " +
                        std::to_string(one) + " bytes expected, there are " + std::to_string(there) + " bytes",
                    Exit::data);
}

NpyArray parse_npy(const std::string& name, std::string_view bytes) {
  const NpyHeader header = parse_npy_header(name, bytes.substr(0, kMostNpyHeader + 12));
  check_npy_size(name, header, bytes.size());
  if (header.descr == descr<float>()) return {header.extents, values<float>(header, bytes)};
  if (header.descr == descr<double>()) return {header.extents, values<double>(header, bytes)};
  if (header.descr == descr<std::int32_t>()) return {header.extents, values<std::int32_t>(header, bytes)};
  if (header.descr == descr<std::int64_t>()) return {header.extents, values<std::int64_t>(header, bytes)};
  const auto halves = values<std::uint16_t>(header, bytes);
  std::vector<float> wide;
  for (std::uint16_t half : halves) wide.push_back(float_of_f16(half));
  return {header.extents, std::move(wide)};
}

NpyArray read_npy(const std::filesystem::path& path) {
  const InputFile file(path);
  return parse_npy(path.string(), file.text());
}

}  // namespace motley
