// SPDX-License-Identifier: Apache-2.0
// .npz: a zip archive (PKWARE APPNOTE 6.3) of .npy files, stored or deflated.
#include <fmt/format.h>
#include <motley/error.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/at.h"
#include "base/files.h"
#include "weights/weights_file.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
constexpr std::uint64_t kMostPerByte =
    1032;  // most bytes that deflate can expand one byte to (zlib's technical notes, "maximum compression factor")
constexpr std::uint64_t kMostDirectory = 100'000'000;  // bytes of the central directory
constexpr std::uint32_t kIn64 = 0xffffffff;            // the value is in the zip64 field
constexpr const char* kEnding = ".npy";

struct Entry {
  std::string name{};
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, bytes = 0, header = 0;  // header: position of its local header
  std::uint64_t data = 0;                           // position of its first packed byte
};

// Reads little-endian fields in order.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes, std::size_t at = 0) : bytes_(bytes), at_(at) {}
  template <class T>
  T next() {
    T value{};
    check(at_ + sizeof value <= bytes_.size(), "the size of a zip record is checked before its fields are read");
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint16_t u16() { return next<std::uint16_t>(); }
  std::uint32_t u32() { return next<std::uint32_t>(); }
  std::uint64_t u64() { return next<std::uint64_t>(); }
  void skip(std::size_t bytes) { at_ += bytes; }

 private:
  std::string_view bytes_;
  std::size_t at_;
};

class Directory {
 public:
  explicit Directory(const InputFile& file) : file_(file) {}

  std::vector<Entry> read() {
    find();
    if (bytes_ > kMostDirectory) damaged("a directory of " + std::to_string(bytes_) + " bytes");
    if (begin_ > end_ || bytes_ != end_ - begin_) damaged("its directory is not where its end says");
    const std::string all = file_.text(begin_, bytes_);
    std::string_view left = all;
    std::set<std::string> names;
    for (std::uint64_t i = 0; i < count_; i++) {
      Entry entry = central(left);
      if (!names.insert(entry.name).second) damaged("two entries are called " + shown(entry.name));
      entries_.push_back(std::move(entry));
    }
    if (!left.empty()) damaged("bytes after the last entry of its directory");
    for (Entry& e : entries_) local(e);
    overlaps();
    return std::move(entries_);
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw UserError(file_.path().string() + ": not a valid .npz file: " + what, Exit::data);
  }

  // Finds the end record: the last bytes of the file, before a comment.
  void find() {
    const std::uint64_t most = std::min<std::uint64_t>(file_.size(), kEndBytes + 65535), from = file_.size() - most;
    const std::string tail = file_.text(from, most);
    for (std::size_t at = tail.size() >= kEndBytes ? tail.size() - kEndBytes + 1 : 0; at-- > 0;) {
      Bytes f(tail, at);
      if (f.u32() != kEnd) continue;
      const auto disk = f.u16(), first_disk = f.u16(), here = f.u16(), all = f.u16();
      const auto bytes = f.u32(), begin = f.u32();
      if (f.u16() != tail.size() - at - kEndBytes) continue;  // part of a comment
      if (disk != 0 || first_disk != 0 || here != all) damaged("an archive in several parts");
      count_ = all;
      bytes_ = bytes;
      begin_ = begin;
      end_ = from + at;
      if (all == 0xffff || bytes == kIn64 || begin == kIn64) find64();
      return;
    }
    damaged("it has no directory at its end (cut off?)");
  }

  void find64() {
    if (end_ < kLocatorBytes + kEnd64Bytes) damaged("its 64-bit directory is missing");
    const std::string locator = file_.text(end_ - kLocatorBytes, kLocatorBytes);
    Bytes l(locator);
    if (l.u32() != kLocator64 || l.u32() != 0) damaged("its 64-bit directory is missing");
    const std::uint64_t at = l.u64();
    if (at != end_ - kLocatorBytes - kEnd64Bytes) damaged("its 64-bit directory is not where its locator says");
    const std::string record = file_.text(at, kEnd64Bytes);
    Bytes f(record);
    if (f.u32() != kEnd64 || f.u64() != kEnd64Bytes - 12) damaged("its 64-bit directory is damaged");
    f.skip(4);  // versions
    if (f.u32() != 0 || f.u32() != 0) damaged("an archive in several parts");
    const std::uint64_t here = f.u64();
    count_ = f.u64();
    if (here != count_) damaged("an archive in several parts");
    bytes_ = f.u64();
    begin_ = f.u64();
    end_ = at;
  }

  Entry central(std::string_view& left) const {
    if (left.size() < kCentralBytes) damaged("its directory ends too early");
    Bytes f(left);
    if (f.u32() != kCentral) damaged("an entry of its directory is damaged");
    f.skip(4);  // versions
    const auto flags = f.u16();
    Entry out;
    out.method = f.u16();
    f.skip(4);  // time and date
    out.crc = f.u32();
    out.packed = f.u32();
    out.bytes = f.u32();
    const std::size_t name = f.u16(), extra = f.u16(), comment = f.u16();
    const auto disk = f.u16();
    f.skip(6);  // attributes
    out.header = f.u32();
    if (left.size() - kCentralBytes < name + extra + comment) damaged("its directory ends too early");
    out.name = left.substr(kCentralBytes, name);
    sizes64(left.substr(kCentralBytes + name, extra), out);
    left.remove_prefix(kCentralBytes + name + extra + comment);
    const std::string where = shown(out.name);
    if ((flags & 1U) != 0) damaged(where + ": encrypted");
    if (disk != 0) damaged("an archive in several parts");
    if (out.method != 0 && out.method != 8)
      damaged(where + ": compressed by method " + std::to_string(out.method) + "; stored and deflated can be read");
    if (out.method == 0 && out.packed != out.bytes) damaged(where + ": stored, and its sizes differ");
    if (out.packed > begin_ || out.bytes / kMostPerByte > out.packed) damaged(where + ": sizes that cannot be");
    if (!out.name.ends_with(kEnding)) damaged(where + ": not a .npy");
    return out;
  }

  void sizes64(std::string_view extra, Entry& out) const {
    while (extra.size() >= 4) {
      Bytes f(extra);
      const auto id = f.u16();
      const std::size_t size = f.u16();
      if (extra.size() - 4 < size) damaged(shown(out.name) + ": an extra field is too long");
      if (id == 1) {
        std::size_t left = size;
        for (std::uint64_t* value : {&out.bytes, &out.packed, &out.header}) {
          if (*value != kIn64) continue;
          if (left < 8) damaged(shown(out.name) + ": its 64-bit sizes are missing");
          *value = f.u64();
          left -= 8;
        }
      }
      extra.remove_prefix(4 + size);
    }
  }

  void local(Entry& e) const {
    const std::string where = shown(e.name);
    if (e.header > begin_ || begin_ - e.header < kLocalBytes) damaged(where + ": it begins in the directory");
    const std::string record = file_.text(e.header, kLocalBytes);
    Bytes f(record);
    if (f.u32() != kLocal) damaged(where + ": it does not begin where the directory says");
    f.skip(2);  // version
    const auto flags = f.u16(), method = f.u16();
    f.skip(4);  // time and date
    const auto crc = f.u32();
    f.skip(8);  // sizes
    const std::uint64_t name = f.u16(), extra = f.u16();
    constexpr unsigned kLater = 8;  // flag: checksum and sizes follow the values
    if (method != e.method || (flags & 1U) != 0 || ((flags & kLater) == 0 && crc != e.crc))
      damaged(where + ": its two headers differ");
    e.data = e.header + kLocalBytes + name + extra;
    if (e.data > begin_ || begin_ - e.data < e.packed) damaged(where + ": it ends in the directory");
    if (file_.text(e.header + kLocalBytes, name) != e.name) damaged(where + ": its two headers differ");
  }

  void overlaps() const {
    std::vector<const Entry*> order;
    for (const Entry& e : entries_) order.push_back(&e);
    std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->header < b->header; });
    for (std::size_t i = 1; i < order.size(); i++)
      if (order[i - 1]->data + order[i - 1]->packed > order[i]->header)
        damaged(shown(order[i - 1]->name) + " and " + shown(order[i]->name) + " overlap");
  }

  const InputFile& file_;
  std::uint64_t count_ = 0, bytes_ = 0, begin_ = 0, end_ = 0;  // of the directory
  std::vector<Entry> entries_{};
};

// The first `most` bytes of an entry, or all of them. UserError (65).
std::string unpacked(const InputFile& file, const Entry& e, std::uint64_t most) {
  const std::uint64_t wanted = std::min(most, e.bytes);
  if (e.method == 0) return file.text(e.data, wanted);
  const auto damaged = [&](const std::string& what) {
    throw UserError(file.path().string() + ": " + shown(e.name) + ": damaged: " + what, Exit::data);
  };
  struct Inflate {
    z_stream stream{};
    Inflate() { check(inflateInit2(&stream, -MAX_WBITS) == Z_OK, "zlib can begin"); }
    ~Inflate() { inflateEnd(&stream); }
  } inflating;
  z_stream& z = inflating.stream;
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  std::string out(wanted, '\0'), piece;
  std::uint64_t read = 0, made = 0;
  int code = Z_OK;
  while (code != Z_STREAM_END && (made < wanted || most >= e.bytes)) {
    if (z.avail_in == 0) {
      if (read == e.packed) damaged("it ends too early");
      piece = file.text(e.data + read, std::min(kPiece, e.packed - read));
      read += piece.size();
      z.next_in = reinterpret_cast<Bytef*>(piece.data());
      z.avail_in = static_cast<uInt>(piece.size());
    }
    char beyond = 0;  // more bytes than the directory says
    const auto space = static_cast<uInt>(std::min(kPiece, wanted - made));
    z.next_out = reinterpret_cast<Bytef*>(space > 0 ? out.data() + made : &beyond);
    z.avail_out = space > 0 ? space : 1;
    const uInt before = z.avail_out;
    code = inflate(&z, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
      damaged(std::string("zlib: ") + (z.msg == nullptr ? "bad data" : z.msg));
    if (space == 0 && z.avail_out == 0) damaged("more bytes than its directory says");
    made += before - z.avail_out;
  }
  if (made < wanted) damaged("fewer bytes than its directory says");
  if (code == Z_STREAM_END && most >= e.bytes && (z.avail_in > 0 || read < e.packed)) damaged("bytes after its end");
  return out;
}

std::string dtype_of(const std::string& descr) {
  if (descr == "<f8") return "F64";
  if (descr == "<i4") return "I32";
  if (descr == "<i8") return "I64";
  return descr == "<f2" ? "F16" : "F32";
}

class NpzFile final : public WeightsFile {
 public:
  NpzFile(std::unique_ptr<InputFile> file, std::vector<Entry> entries, std::vector<StoredTensor> tensors)
      : WeightsFile(file->path().string(), std::move(tensors)), file_(std::move(file)), entries_(std::move(entries)) {}

  NpyData read(int tensor) const override {
    const Entry& e = at(entries_, tensor);
    const std::string bytes = unpacked(*file_, e, e.bytes);
    uLong crc = crc32_z(0, nullptr, 0);
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    if (crc != e.crc)
      damaged(fmt::format("{}: its values are damaged: checksum {:08x}, expected {:08x}", shown(e.name), crc, e.crc));
    return parse_npy(name() + ": " + shown(e.name), bytes).data;
  }

 private:
  std::unique_ptr<InputFile> file_;
  std::vector<Entry> entries_;
};

template <class... T>
std::string packed_fields(T... fields) {
  std::string out;
  (out.append(reinterpret_cast<const char*>(&fields), sizeof fields), ...);
  return out;
}

class NpzWriter final : public WeightsWriter {
 public:
  NpzWriter(const FileIn& file, std::vector<StoredTensor> tensors, std::uint64_t zip64_from)
      : file_(file), tensors_(std::move(tensors)), from_(zip64_from) {}

  void add(const NpyData& values) override {
    const StoredTensor& its = at(tensors_, done_++);
    const auto bytes = bytes_in(values);
    check(static_cast<Index>(bytes.size()) == *elements_of(its.extents) * bytes_of_dtype(its.dtype),
          "as many values as the extents say");
    const std::string start =
        npy_start((its.dtype.starts_with('F') ? "<f" : "<i") + std::to_string(bytes_of_dtype(its.dtype)), its.extents);
    const std::string name = its.name + kEnding;
    if (name.size() > 0xffff)
      throw UserError(shown(its.name) + ": a name of " + std::to_string(name.size()) + " bytes", Exit::data);
    uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(start.data()), start.size());
    if (!bytes.empty()) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    const std::uint64_t size = start.size() + bytes.size();
    const bool large = size >= from_, far = here_ >= from_;
    const std::string sizes64 = large ? packed_fields(size, size) : "";
    const std::string local64 = large ? packed_fields(std::uint16_t{1}, std::uint16_t{16}) + sizes64 : "";
    std::string extra = sizes64 + (far ? packed_fields(here_) : "");
    if (!extra.empty()) extra = packed_fields(std::uint16_t{1}, static_cast<std::uint16_t>(extra.size())) + extra;
    const auto size32 = large ? kIn64 : static_cast<std::uint32_t>(size), here32 = far ? kIn64 : static_cast<std::uint32_t>(here_);
    const std::uint16_t version = large || far ? 45 : 20, utf8 = 1U << 11U, method = 0, time = 0, date = 33;  // 1980-01-01
    const auto name_bytes = static_cast<std::uint16_t>(name.size());
    const std::string common =
        packed_fields(version, utf8, method, time, date, static_cast<std::uint32_t>(crc), size32, size32, name_bytes);
    const std::string local =
        packed_fields(kLocal) + common + packed_fields(static_cast<std::uint16_t>(local64.size())) + name + local64;
    directory_ += packed_fields(kCentral, version) + common +
                  packed_fields(static_cast<std::uint16_t>(extra.size()), std::uint16_t{0}, std::uint16_t{0}, std::uint16_t{0},
                                std::uint32_t{0}, here32) +
                  name + extra;
    put(local);
    put(start);
    file_.write(bytes);
    here_ += bytes.size();
  }

  void finish() override {
    check(done_ == tensors_.size(), "all tensors were added");
    const std::uint64_t begin = here_, bytes = directory_.size(), count = done_;
    put(directory_);
    const bool large = begin >= from_ || bytes >= from_ || count >= 0xffff;
    if (large) {
      const std::uint64_t end64 = here_;
      put(packed_fields(kEnd64, kEnd64Bytes - 12, std::uint16_t{45}, std::uint16_t{45}, std::uint32_t{0}, std::uint32_t{0}, count,
                        count, bytes, begin));
      put(packed_fields(kLocator64, std::uint32_t{0}, end64, std::uint32_t{1}));
    }
    const std::uint16_t count16 = large ? 0xffff : static_cast<std::uint16_t>(count);
    put(packed_fields(kEnd, std::uint16_t{0}, std::uint16_t{0}, count16, count16, large ? kIn64 : static_cast<std::uint32_t>(bytes),
                      large ? kIn64 : static_cast<std::uint32_t>(begin), std::uint16_t{0}));
    file_.keep();
  }

 private:
  void put(const std::string& bytes) {
    file_.write(std::as_bytes(std::span(bytes)));
    here_ += bytes.size();
  }

  NewFile file_;
  std::vector<StoredTensor> tensors_;
  std::uint64_t from_, here_ = 0;
  std::string directory_{};
  std::size_t done_ = 0;
};

}  // namespace

std::unique_ptr<WeightsFile> open_npz(const fs::path& path) {
  auto file = std::make_unique<InputFile>(path);
  std::vector<Entry> entries = Directory(*file).read();
  std::vector<StoredTensor> tensors;
  for (const Entry& e : entries) {
    const std::string where = path.string() + ": " + shown(e.name);
    const NpyHeader header = parse_npy_header(where, unpacked(*file, e, kMostNpyHeader + 12));
    StoredTensor& its = tensors.emplace_back(
        StoredTensor{e.name.substr(0, e.name.size() - std::strlen(kEnding)), dtype_of(header.descr), header.extents});
    const std::uint64_t bytes = header.elements * static_cast<std::uint64_t>(bytes_of_dtype(its.dtype));
    if (header.elements > e.bytes || header.data + bytes != e.bytes)
      throw UserError(fmt::format("{}: {} {} takes {} bytes after its header, there are {}", where, its.dtype, to_text(its.extents),
                                  bytes, e.bytes - header.data),
                      Exit::data);
  }
  return std::make_unique<NpzFile>(std::move(file), std::move(entries), std::move(tensors));
}

std::unique_ptr<WeightsWriter> new_npz(const FileIn& file, const std::vector<StoredTensor>& tensors, std::uint64_t zip64_from) {
  require_writable(file);
  require_names(tensors);
  return std::make_unique<NpzWriter>(file, tensors, zip64_from);
}

}  // namespace motley
