// SPDX-License-Identifier: Apache-2.0
// safetensors (huggingface/safetensors, README "Format"): 8 bytes with the length of the header, the header (JSON), the values. In
// addition, "__metadata__" keeps a hash of each tensor that motley wrote: "xxh3:NAME".
#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>
#include <set>

#include "base/at.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "weights/weights_file.h"

namespace motley {

namespace {

constexpr const char* kRead = "F32, F64, F16, BF16, I32 and I64 can be read";

// Bits of an element. A file may have tensors of the format's other dtypes, which motley does not read (a mask, a counter). 0: no
// dtype of the format.
Index bits_of(const std::string& dtype) {
  if (const Index bytes = bytes_of_dtype(dtype); bytes > 0) return 8 * bytes;
  if (dtype == "U64" || dtype == "C64") return 64;
  if (dtype == "U32") return 32;
  if (dtype == "U16" || dtype == "I16") return 16;
  if (dtype == "F6_E2M3" || dtype == "F6_E3M2") return 6;
  if (dtype == "F4") return 4;
  return dtype == "U8" || dtype == "I8" || dtype == "BOOL" || dtype.starts_with("F8_") ? 8 : 0;
}

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the files are little endian");

constexpr std::uint64_t kMostHeader = 100'000'000;  // bytes: the reference implementation's limit
constexpr const char* kHash = "xxh3:";
constexpr const char* kClasses = "classes";  // its value is a list of texts, as JSON

struct Stretch {  // bytes of the buffer that follows the header
  std::uint64_t begin = 0, end = 0;
};

struct Header {
  std::vector<StoredTensor> tensors{};
  std::vector<Stretch> extents{};
  std::map<std::string, std::string> hashes{};  // of tensors that have one
  std::map<std::string, std::string> aliases{};
  std::vector<std::string> classes{};
  std::uint64_t data = 0;  // the buffer's first byte in the file
};

// What another program has written under this key is its own affair: nothing, unless it is such a list.
std::vector<std::string> classes_in(const std::string& text) {
  Complaints ignored;
  const std::optional<Json> json = read_json(kClasses, text, ignored, kByMotley);
  const auto* list = json ? std::get_if<Json::Array>(&json->value) : nullptr;
  std::vector<std::string> out;
  for (std::size_t i = 0; list != nullptr && i < list->size(); i++) {
    const auto* name = std::get_if<std::string>(&(*list)[i].value);
    if (name == nullptr) return {};
    out.push_back(*name);
  }
  return out;
}

class HeaderReader {
 public:
  explicit HeaderReader(const InputFile& file) : file_(file) {}

  Header read() {
    const Json json = parse();
    for (const Json::Member& m : std::get<Json::Object>(json.value)) {
      if (m.key == kMetadata)
        metadata(m.value);
      else
        tensor(m);
    }
    tiles();
    std::set<std::string> names;
    for (const StoredTensor& t : out_.tensors) names.insert(t.name);
    for (const auto& [name, hash] : out_.hashes)
      if (!names.contains(name)) damaged("__metadata__ has a hash of " + shown(name) + ", a tensor that is not there");
    std::erase_if(out_.aliases, [&](const auto& a) { return !names.contains(a.second) || names.contains(a.first); });
    return std::move(out_);
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw UserError(file_.path().string() + ": not a valid .safetensors file: " + what, Exit::data);
  }

  Json parse() {
    std::uint64_t length = 0;
    if (file_.size() < sizeof length)
      damaged(fmt::format("{} bytes; it begins with 8 bytes, the length of its header", file_.size()));
    file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > kMostHeader) {
      const std::string begin = file_.text(0, sizeof length);
      const bool reads_as_text =
          std::all_of(begin.begin(), begin.end(), [](unsigned char c) { return std::isspace(c) || std::isprint(c); });
      damaged(fmt::format("a header of {} bytes; at most {} are allowed{}", length, kMostHeader,
                          reads_as_text ? "; it begins like a text" : ""));
    }
    if (length > file_.size() - sizeof length)
      damaged(fmt::format("a header of {} bytes, and {} bytes follow", length, file_.size() - sizeof length));
    out_.data = sizeof length + length;
    buffer_ = file_.size() - out_.data;
    const std::string text = file_.text(sizeof length, length);
    if (!text.starts_with('{')) damaged("byte 8: expected {, the begin of the header");
    Complaints complaints;
    std::optional<Json> json = read_json("header", text, complaints, kByMotley);
    if (!complaints.empty()) {
      const Complaints::One& first = complaints.list.front();
      damaged(fmt::format("byte {}: {}{}", sizeof length + first.where.byte, first.path.empty() ? "" : shown(first.path) + ": ",
                          first.text.substr(0, 300)));
    }
    if (!json || !std::holds_alternative<Json::Object>(json->value)) damaged("its header is not a JSON object");
    return std::move(*json);
  }

  void metadata(const Json& json) {
    const auto* members = std::get_if<Json::Object>(&json.value);
    if (members == nullptr) damaged("__metadata__: expected an object, found " + Reader::kind(json).substr(0, 80));
    for (const Json::Member& m : *members) {
      const auto* text = std::get_if<std::string>(&m.value.value);
      if (text == nullptr)
        damaged("__metadata__: " + shown(m.key) + ": expected a text, found " + Reader::kind(m.value).substr(0, 80));
      if (m.key == kClasses)
        out_.classes = classes_in(*text);
      else if (m.key.starts_with(kHash))
        out_.hashes[m.key.substr(std::strlen(kHash))] = *text;
      else
        out_.aliases[m.key] = *text;  // safetensors.torch.save_model: a tied weight's other name -> the tensor that has it
    }
  }

  std::int64_t size_in(const Json& json, const std::string& where) const {
    const auto* size = std::get_if<std::int64_t>(&json.value);
    if (size == nullptr || *size < 0 || json.where.source->text[json.where.byte] == '-')
      damaged(where + ": expected an integer from 0, found " + Reader::kind(json).substr(0, 80));
    return *size;
  }

  const Json::Array& list_in(const Json& of, const char* key, const std::string& where) const {
    const Json* json = of.find(key);
    if (json == nullptr) damaged(where + ": \"" + key + "\" is missing");
    const auto* list = std::get_if<Json::Array>(&json->value);
    if (list == nullptr) damaged(where + ": \"" + key + "\": expected a list, found " + Reader::kind(*json).substr(0, 80));
    return *list;
  }

  void tensor(const Json::Member& m) {
    const std::string where = shown(m.key);
    const auto* members = std::get_if<Json::Object>(&m.value.value);
    if (members == nullptr) damaged(where + ": expected an object, found " + Reader::kind(m.value).substr(0, 80));
    for (const Json::Member& key : *members)
      if (key.key != "dtype" && key.key != "shape" && key.key != "data_offsets") damaged(where + ": unknown key " + shown(key.key));
    const Json* dtype = m.value.find("dtype");
    const auto* word = dtype == nullptr ? nullptr : std::get_if<std::string>(&dtype->value);
    if (word == nullptr) damaged(where + ": \"dtype\" is missing, or not a text");
    const Index bits = bits_of(*word);
    if (bits == 0) damaged(where + ": dtype " + shown(*word) + "; " + kRead);
    StoredTensor tensor{m.key, *word, {}};
    for (const Json& n : list_in(m.value, "shape", where)) tensor.extents.push_back(size_in(n, where + ": \"shape\""));
    const Json::Array& offsets = list_in(m.value, "data_offsets", where);
    if (offsets.size() != 2) damaged(where + ": \"data_offsets\": expected two numbers, found " + std::to_string(offsets.size()));
    const Stretch at{static_cast<std::uint64_t>(size_in(offsets[0], where + ": \"data_offsets\"")),
                     static_cast<std::uint64_t>(size_in(offsets[1], where + ": \"data_offsets\""))};
    if (at.begin > at.end || at.end > buffer_)
      damaged(fmt::format("{}: data_offsets [{}, {}] of {} bytes of values", where, at.begin, at.end, buffer_));
    const auto elements = elements_of(tensor.extents);
    Index bytes = 0;
    if (!elements || __builtin_mul_overflow(*elements, bits, &bytes))
      damaged(where + ": shape " + to_text(tensor.extents) + " has more elements than a file can hold");
    bytes = bytes / 8 + (bytes % 8 != 0 ? 1 : 0);
    if (static_cast<std::uint64_t>(bytes) != at.end - at.begin)
      damaged(fmt::format("{}: {} {} takes {} bytes, its data_offsets give it {}", where, *word, to_text(tensor.extents), bytes,
                          at.end - at.begin));
    out_.tensors.push_back(std::move(tensor));
    out_.extents.push_back(at);
  }

  // Checks that the tensors' extents, in order, cover the buffer without overlap or gap.
  void tiles() const {
    std::vector<std::size_t> order(out_.tensors.size());
    for (std::size_t i = 0; i < order.size(); i++) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const Stretch &x = out_.extents[a], &y = out_.extents[b];
      return std::pair(x.begin, x.end) < std::pair(y.begin, y.end);
    });
    std::uint64_t here = 0;
    for (std::size_t i : order) {
      const Stretch& its = out_.extents[i];
      if (its.begin != here)
        damaged(fmt::format("{}: its values begin at {}, those before it end at {}: {}", shown(out_.tensors[i].name), its.begin,
                            here, its.begin < here ? "they overlap" : "a gap"));
      here = its.end;
    }
    if (here != buffer_) damaged(fmt::format("{} bytes of values, its tensors take {}", buffer_, here));
  }

  const InputFile& file_;
  std::uint64_t buffer_ = 0;  // bytes after the header
  Header out_{};
};

class SafetensorsFile final : public WeightsFile {
 public:
  SafetensorsFile(std::unique_ptr<InputFile> file, Header header)
      : WeightsFile(file->path().string(), header.tensors, header.aliases), file_(std::move(file)), header_(std::move(header)) {}

  std::vector<std::string> classes() const override { return header_.classes; }
  NpyData read(int tensor) const override {
    const StoredTensor& its = at(tensors(), tensor);
    const Stretch& extent = at(header_.extents, tensor);
    if (bytes_of_dtype(its.dtype) == 0) damaged(shown(its.name) + ": dtype " + its.dtype + "; " + kRead);
    const std::string bytes = file_->text(header_.data + extent.begin, extent.end - extent.begin);
    if (const auto hash = header_.hashes.find(its.name); hash != header_.hashes.end())
      if (const std::string found = to_hex(hash_of_tensor(its, std::as_bytes(std::span(bytes)))); found != hash->second)
        damaged(
            fmt::format("{}: its values are damaged: hash {}, expected {} (of \"{}...\" in its metadata; a program that changes "
                        "values must remove these hashes)",
                        shown(its.name), found, hash->second.substr(0, 16), kHash));
    return values_of(its, bytes);
  }

 private:
  std::unique_ptr<InputFile> file_;
  Header header_;
};

class SafetensorsWriter final : public WeightsWriter {
 public:
  SafetensorsWriter(const FileIn& file, std::vector<StoredTensor> tensors, Metadata metadata)
      : file_(file), tensors_(std::move(tensors)), metadata_(std::move(metadata)) {
    for (const StoredTensor& t : tensors_) metadata_[kHash + t.name] = to_hex(0);
    write_header([this](const std::string& bytes) { file_.write(std::as_bytes(std::span(bytes))); });
  }

  void add(const NpyData& values) override {
    const StoredTensor& its = at(tensors_, done_);
    const auto bytes = bytes_in(values);
    check(static_cast<Index>(bytes.size()) == *elements_of(its.extents) * bytes_of_dtype(its.dtype),
          "as many values as the header says");
    metadata_[kHash + its.name] = to_hex(hash_of_tensor(its, bytes));
    file_.write(bytes);
    done_++;
  }

  void finish() override {
    check(done_ == tensors_.size(), "all tensors that the header names were added");
    write_header([this](const std::string& bytes) { file_.rewrite_start(std::as_bytes(std::span(bytes))); });
    file_.keep();
  }

 private:
  template <class Write>
  void write_header(Write&& write) const {
    Json header{Json::Object{}}, metadata{Json::Object{}};
    for (const auto& [key, value] : metadata_) metadata.set(key, value);
    header.set(kMetadata, std::move(metadata));
    Index begin = 0;
    for (const StoredTensor& t : tensors_) {
      Json one, shape{Json::Array{}}, offsets{Json::Array{}};
      for (Index n : t.extents) shape.push(n);
      const Index end = begin + *elements_of(t.extents) * bytes_of_dtype(t.dtype);
      one.set("dtype", t.dtype).set("shape", std::move(shape)).set("data_offsets", std::move(offsets.push(begin).push(end)));
      header.set(t.name, std::move(one));
      begin = end;
    }
    std::string text = to_text(header);
    text.append((8 - text.size() % 8) % 8, ' ');  // values are aligned
    if (text.size() > kMostHeader) throw UserError("too many tensors for a .safetensors file", Exit::data);
    const std::uint64_t length = text.size();
    write(std::string(reinterpret_cast<const char*>(&length), sizeof length) + text);
  }

  NewFile file_;
  std::vector<StoredTensor> tensors_;
  Metadata metadata_;
  std::size_t done_ = 0;
};

}  // namespace

std::unique_ptr<WeightsFile> open_safetensors(const fs::path& path) {
  auto file = std::make_unique<InputFile>(path);
  Header header = HeaderReader(*file).read();
  return std::make_unique<SafetensorsFile>(std::move(file), std::move(header));
}

Metadata metadata_of(const std::vector<std::string>& classes) {
  if (classes.empty()) return {};
  Json list{Json::Array{}};
  for (const std::string& name : classes) list.push(name);
  return {{kClasses, to_text(list)}};
}

std::unique_ptr<WeightsWriter> new_safetensors(const FileIn& file, const std::vector<StoredTensor>& tensors,
                                               const Metadata& metadata) {
  require_writable(file);
  require_names(tensors);
  return std::make_unique<SafetensorsWriter>(file, tensors, metadata);
}

}  // namespace motley
