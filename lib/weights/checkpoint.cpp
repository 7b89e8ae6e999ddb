// SPDX-License-Identifier: Apache-2.0
#include "weights/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <motley/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <set>

#include "base/at.h"
#include "base/copy_box.h"
#include "base/hash.h"
#include "base/json_fields.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostManifest = std::uint64_t{64} << 20;
constexpr std::size_t kMostParts = 16384;  // of one tensor: they are compared in pairs

// "rank-3.bin": 3; nothing: another name.
std::optional<int> rank_of(const std::string& file) {
  int rank = 0;
  const char *begin = file.data() + 5, *end = file.data() + file.size() - 4;
  if (!file.starts_with("rank-") || !file.ends_with(".bin") || file.size() < 10) return std::nullopt;
  const auto [at, error] = std::from_chars(begin, end, rank);
  return error == std::errc{} && at == end && shard_name(rank) == file ? std::optional(rank) : std::nullopt;
}

template <class T, class M>
Field<T> count_field(const char* name, const char* doc, M T::*member) {
  return {name, doc, "integer", true, [member](Reader& r, const Json& j, T& out) {
            std::int64_t value = 0;
            if (r.integer(j, value, 0)) out.*member = static_cast<M>(value);
          }};
}

const Table<StoredFile>& file_fields() {
  static const Table<StoredFile> table{{"name", "rank-N.bin", "text", true,
                                        [](Reader& r, const Json& j, StoredFile& out) {
                                          if (r.text(j, out.name) && !rank_of(out.name))
                                            r.complain(j, "expected a file name such as \"rank-0.bin\"");
                                        }},
                                       count_field("bytes", "its size", &StoredFile::bytes)};
  return table;
}

const Table<StoredPart>& part_fields() {
  static const Table<StoredPart> table{
      {"box", "ranges of indices", "list", true,
       [](Reader& r, const Json& j, StoredPart& out) {
         r.list(j, [&](const Json& one, std::size_t) {
           std::vector<Index> ends;
           r.list(one, [&](const Json& end, std::size_t) { r.integer(end, ends.emplace_back(), 0); });
           if (ends.size() != 2) return r.complain(one, "expected [begin, end]");
           out.box.push_back({ends[0], ends[1]});
         });
       }},
      {"file", "its place in \"files\"", "integer", true,
       [](Reader& r, const Json& j, StoredPart& out) {
         std::int64_t file = 0;
         if (r.integer(j, file, 0, INT32_MAX)) out.file = static_cast<int>(file);
       }},
      count_field("offset", "where it begins in the file", &StoredPart::offset),
      count_field("bytes", "its size", &StoredPart::bytes),
      {"xxh3", "of each chunk of 4 MiB", "list", true, [](Reader& r, const Json& j, StoredPart& out) {
         r.list(j, [&](const Json& one, std::size_t) { r.text(one, out.hashes.emplace_back()); });
       }}};
  return table;
}

const Table<StoredEntry>& entry_fields() {
  static const Table<StoredEntry> table{
      {"name", "of the parameter or statistic", "text", true,
       [](Reader& r, const Json& j, StoredEntry& out) { r.text(j, out.tensor.name); }},
      text_field("slot", "of the optimizer; empty: the values themselves", &StoredEntry::slot),
      {"dtype", "F32, F64 or I32", "text", true,
       [](Reader& r, const Json& j, StoredEntry& out) {
         r.text(j, out.tensor.dtype, {"F32", "F64", "I32"});
       }},
      {"shape", "sizes of its dims", "list", true,
       [](Reader& r, const Json& j, StoredEntry& out) {
         r.list(j, [&](const Json& one, std::size_t) { r.integer(one, out.tensor.extents.emplace_back(), 0); });
       }},
      list_field("parts", "its boxes", &StoredEntry::parts, part_fields())};
  return table;
}

const Table<StoredPosition>& position_fields() {
  static const Table<StoredPosition> table{
      count_field("epoch", "of the next step, from 0", &StoredPosition::epoch),
      count_field("batch", "of the next step, in its epoch, from 0", &StoredPosition::batch),
      count_field("batch_size", "samples of a step; 0: not known", &StoredPosition::batch_size),
      count_field("samples", "of the data; 0: not known", &StoredPosition::samples)};
  return table;
}

// An integer of JSON has 63 bits here: a larger seed is the text of its digits.
Json seed_json(std::uint64_t seed) {
  return seed <= INT64_MAX ? Json(static_cast<Index>(seed)) : Json(std::to_string(seed));
}
void read_seed(Reader& r, const Json& j, Manifest& out) {
  const auto* digits = std::get_if<std::string>(&j.value);
  if (std::int64_t seed = 0; digits == nullptr) {
    if (r.integer(j, seed, INT64_MIN)) out.seed = static_cast<std::uint64_t>(seed);  // below 0: a large one, of an older motley
    return;
  }
  const char* end = digits->data() + digits->size();
  if (const auto read = std::from_chars(digits->data(), end, out.seed); read.ec != std::errc{} || read.ptr != end)
    r.complain(j, "expected an integer from 0 to 2^64 - 1, found " + Reader::kind(j));
}

const Table<Manifest>& manifest_fields() {
  static const Table<Manifest> table{
      version_field<Manifest>(VersionKey::required),
      count_field("step", "steps done", &Manifest::step),
      {"seed", "of the training", "integer or text", true, read_seed},
      {"data", "where training is in its data", "object", true,
       [](Reader& r, const Json& j, Manifest& out) { r.object(j, position_fields(), out.data); }},
      list_field("files", "with the values, one per rank that owns any", &Manifest::files, file_fields()),
      list_field("tensors", "with their slots", &Manifest::entries, entry_fields())};
  return table;
}

bool overlap(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.size(); d++)  // every pair of a tensor's boxes: without a list in between
    if (a[d].end <= b[d].begin || b[d].end <= a[d].begin) return false;
  return true;
}

std::uint64_t chunks_of(std::uint64_t bytes) {
  return (bytes + kChunkBytes - 1) / kChunkBytes;
}

// Its parts are the tensors, each element once, and the files are its parts, each byte once.
class Structure {
 public:
  Structure(const Manifest& manifest, std::string name) : manifest_(manifest), name_(std::move(name)) {}

  void check() const {
    constexpr Index kMost = Index{1} << 36;  // what is computed of them is counted in 64 bits
    const StoredPosition& now = manifest_.data;
    const Index batches = now.batch_size > 0 && now.samples > 0 ? now.samples / now.batch_size : kMost;
    if (manifest_.step > kMost || now.epoch > kMost || now.batch > batches)
      damaged(fmt::format("step {}, epoch {}, batch {} (of {} samples, in batches of {}) is not a valid position in a training",
                          manifest_.step, now.epoch, now.batch, now.samples, now.batch_size));
    std::set<std::pair<std::string, std::string>> names;
    std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> used(manifest_.files.size());
    for (const StoredEntry& e : manifest_.entries) {
      const std::string where = shown(e.tensor.name) + (e.slot.empty() ? "" : ", slot " + shown(e.slot));
      if (!names.emplace(e.tensor.name, e.slot).second) damaged(where + ": it is listed twice");
      entry(e, where);
      for (const StoredPart& p : e.parts) {
        if (static_cast<std::size_t>(p.file) >= used.size())
          damaged(where + ": file " + std::to_string(p.file) + " of " + std::to_string(used.size()));
        used[static_cast<std::size_t>(p.file)].emplace_back(p.offset, p.bytes);
      }
    }
    std::set<std::string> files;
    for (std::size_t f = 0; f < used.size(); f++) {
      const StoredFile& its = manifest_.files[f];
      if (!files.insert(its.name).second) damaged(shown(its.name) + " is listed twice");
      std::sort(used[f].begin(), used[f].end());
      std::uint64_t here = 0;
      for (const auto& [offset, bytes] : used[f]) {
        if (offset != here || bytes > its.bytes - here)
          damaged(fmt::format("{}: a part of {} bytes at byte {}, the parts before it end at byte {} of {}", its.name, bytes,
                              offset, here, its.bytes));
        here += bytes;
      }
      if (here != its.bytes) damaged(fmt::format("{}: {} bytes, its parts take {}", its.name, its.bytes, here));
    }
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const { throw UserError(name_ + ": " + what, Exit::data); }

  void entry(const StoredEntry& e, const std::string& where) const {
    const auto elements = elements_of(e.tensor.extents);
    Index all = 0, found = 0;
    if (!elements || __builtin_mul_overflow(*elements, bytes_of_dtype(e.tensor.dtype), &all))
      damaged(where + ": shape " + to_text(e.tensor.extents) + " has more elements than a file can hold");
    if (e.parts.size() > kMostParts) damaged(fmt::format("{}: {} parts; at most {} are read", where, e.parts.size(), kMostParts));
    for (std::size_t i = 0; i < e.parts.size(); i++) {
      const StoredPart& p = e.parts[i];
      bool inside = p.box.size() == e.tensor.extents.size();
      for (std::size_t d = 0; d < p.box.size() && inside; d++)
        inside = p.box[d].begin < p.box[d].end && p.box[d].end <= e.tensor.extents[d];
      if (!inside)
        damaged(fmt::format("{}: the box {} is not one of shape {}", where, to_string(p.box), to_text(e.tensor.extents)));
      const Index bytes = volume(p.box) * bytes_of_dtype(e.tensor.dtype);  // of a part of `all`
      if (p.bytes != static_cast<std::uint64_t>(bytes))
        damaged(fmt::format("{}: the box {} takes {} bytes, the manifest gives it {}", where, to_string(p.box), bytes, p.bytes));
      if (p.hashes.size() != chunks_of(p.bytes))
        damaged(
            fmt::format("{}: {} hashes of a box of {} bytes; expected {}", where, p.hashes.size(), p.bytes, chunks_of(p.bytes)));
      for (std::size_t k = 0; k < i; k++)
        if (overlap(p.box, e.parts[k].box))
          damaged(where + ": the boxes " + to_string(e.parts[k].box) + " and " + to_string(p.box) + " overlap");
      found += bytes;  // no overlap: at most `all`
    }
    if (found != all) damaged(fmt::format("{}: {} of {} bytes are there", where, found, all));
  }

  const Manifest& manifest_;
  std::string name_;
};

// Reads bytes [from, from + out.size()) of a part, which are whole chunks of it, and compares their hashes.
void read_chunks(const InputFile& file, const StoredPart& part, std::uint64_t from, std::span<std::byte> out) {
  file.read(part.offset + from, out);
  for (std::size_t at_byte = 0; at_byte < out.size(); at_byte += kChunkBytes) {
    const std::uint64_t begin = from + at_byte, size = std::min<std::uint64_t>(kChunkBytes, out.size() - at_byte);
    const std::string &expected = at(part.hashes, begin / kChunkBytes), found = to_hex(hash_bytes(out.data() + at_byte, size));
    if (found != expected)
      throw UserError(fmt::format("{}: bytes {} to {} are damaged: hash {}, expected {}", file.path().string(), part.offset + begin,
                                  part.offset + begin + size, found, shown(expected)),
                      Exit::data);
  }
}

// Bytes from `from` on of a part, grown chunk by chunk.
class Window {
 public:
  Window(const InputFile& file, const StoredPart& part, std::uint64_t from) : file_(file), part_(part), from_(from) {}
  std::uint64_t end() const { return from_ + size_; }
  void grow() {
    const std::size_t more = std::min(kChunkBytes, part_.bytes - end());
    if (size_ + more > room_) {
      auto larger = std::make_unique_for_overwrite<std::byte[]>(2 * size_ + kChunkBytes);
      room_ = 2 * size_ + kChunkBytes;
      if (size_ > 0) std::memcpy(larger.get(), held_.get(), size_);
      held_ = std::move(larger);
    }
    read_chunks(file_, part_, end(), {held_.get() + size_, more});
    size_ += more;
  }
  const std::byte* data(std::uint64_t at) const { return held_.get() + (at - from_); }
  void drop_before(std::uint64_t at) {
    if (at <= from_) return;
    size_ -= at - from_;
    std::memmove(held_.get(), data(at), size_);
    from_ = at;
  }

 private:
  const InputFile& file_;
  const StoredPart& part_;
  std::uint64_t from_;
  std::unique_ptr<std::byte[]> held_{};
  std::size_t size_ = 0, room_ = 0;
};

class CheckpointWeights final : public WeightsFile {
 public:
  static std::unique_ptr<WeightsFile> open(const fs::path& directory) {
    auto checkpoint = std::make_unique<Checkpoint>(directory);
    std::vector<const StoredEntry*> entries;
    std::vector<StoredTensor> tensors;
    const std::vector<StoredEntry>& all = checkpoint->manifest().entries;
    for (const StoredEntry& e : all) {
      if (!e.slot.empty()) continue;
      const auto average = std::find_if(
          all.begin(), all.end(), [&](const StoredEntry& a) { return a.slot == kAverageSlot && a.tensor.name == e.tensor.name; });
      entries.push_back(average == all.end() ? &e : &*average);
      tensors.push_back(entries.back()->tensor);
    }
    return std::unique_ptr<WeightsFile>(new CheckpointWeights(std::move(checkpoint), std::move(entries), std::move(tensors)));
  }

  NpyData read(int tensor) const override {
    const StoredTensor& its = at(tensors(), tensor);
    Box all;
    for (Index n : its.extents) all.push_back({0, n});
    return values_in(tensor, all);
  }

  std::vector<std::vector<double>> read_boxes(int tensor, const std::vector<Box>& boxes,
                                              const std::vector<Index>& extents) const override {
    if (extents != at(tensors(), tensor).extents) return WeightsFile::read_boxes(tensor, boxes, extents);
    std::vector<std::vector<double>> out;
    for (const Box& box : boxes)
      out.push_back(
          std::visit([](const auto& values) { return std::vector<double>(values.begin(), values.end()); }, values_in(tensor, box)));
    return out;
  }

 private:
  NpyData values_in(int tensor, const Box& box) const {
    const StoredTensor its{"", at(tensors(), tensor).dtype, {volume(box)}};
    std::string bytes(static_cast<std::size_t>(volume(box) * bytes_of_dtype(its.dtype)), '\0');
    checkpoint_->read(*at(entries_, tensor), box, std::as_writable_bytes(std::span(bytes)));
    return values_of(its, bytes);
  }

  CheckpointWeights(std::unique_ptr<Checkpoint> checkpoint, std::vector<const StoredEntry*> entries,
                    std::vector<StoredTensor> tensors)
      : WeightsFile(checkpoint->path().string(), std::move(tensors)),
        checkpoint_(std::move(checkpoint)),
        entries_(std::move(entries)) {}
  std::unique_ptr<Checkpoint> checkpoint_;
  std::vector<const StoredEntry*> entries_;
};

class CheckpointWriter final : public WeightsWriter {
 public:
  CheckpointWriter(const fs::path& directory, std::vector<StoredTensor> tensors) : final_(directory), tensors_(std::move(tensors)) {
    require_folder(final_);
    for (const StoredTensor& t : tensors_)
      if (t.dtype == "I64") throw UserError(shown(t.name) + ": a checkpoint has no I64 values", Exit::data);
    made_ = made_beside(final_, [](const char* name) { return ::mkdir(name, 0777) == 0; });
    file_.emplace(made_ / shard_name(0));
  }
  ~CheckpointWriter() override {
    file_.reset();
    std::error_code ignored;
    fs::remove_all(made_, ignored);
  }

  void add(const NpyData& values) override {
    const StoredTensor& its = at(tensors_, manifest_.entries.size());
    Box all;
    for (Index n : its.extents) all.push_back({0, n});
    StoredEntry& entry = manifest_.entries.emplace_back(StoredEntry{"", its, {}});
    if (volume(all) > 0) entry.parts.push_back(file_->add(all, bytes_in(values)));
  }

  void finish() override {
    file_->finish();
    manifest_.files.push_back({shard_name(0), file_->bytes()});
    finish_checkpoint(made_, final_, manifest_);
  }

 private:
  fs::path final_, made_;
  std::vector<StoredTensor> tensors_;
  std::optional<ShardWriter> file_{};
  Manifest manifest_{};
};

}  // namespace

std::string shard_name(int rank) {
  return "rank-" + std::to_string(rank) + ".bin";
}

std::string to_text(const Manifest& m) {
  Json out, files{Json::Array{}}, entries{Json::Array{}}, data;
  data.set("epoch", m.data.epoch).set("batch", m.data.batch).set("batch_size", m.data.batch_size).set("samples", m.data.samples);
  for (const StoredFile& f : m.files) {
    Json one;
    files.push(one.set("name", f.name).set("bytes", static_cast<Index>(f.bytes)));
  }
  for (const StoredEntry& e : m.entries) {
    Json entry, shape{Json::Array{}}, parts{Json::Array{}};
    for (Index n : e.tensor.extents) shape.push(n);
    for (const StoredPart& p : e.parts) {
      Json part, box{Json::Array{}}, hashes{Json::Array{}};
      for (const Range& r : p.box) box.push(Json(Json::Array{Json(r.begin), Json(r.end)}));
      for (const std::string& hash : p.hashes) hashes.push(hash);
      part.set("box", std::move(box)).set("file", p.file).set("offset", static_cast<Index>(p.offset));
      parts.push(part.set("bytes", static_cast<Index>(p.bytes)).set("xxh3", std::move(hashes)));
    }
    entry.set("name", e.tensor.name).set("slot", e.slot).set("dtype", e.tensor.dtype);
    entries.push(entry.set("shape", std::move(shape)).set("parts", std::move(parts)));
  }
  out.set("version", 1).set("step", m.step).set("seed", seed_json(m.seed)).set("data", std::move(data));
  return to_text(out.set("files", std::move(files)).set("tensors", std::move(entries)), 1) + "\n";
}

Manifest parse_manifest(const std::string& name, const std::string& text) {
  Complaints complaints;
  const auto json = read_json(name, text, complaints);
  Reader reader{complaints};
  Manifest out;
  if (json) reader.object(*json, manifest_fields(), out);
  complaints.raise(Exit::data);
  return out;
}

StoredPart ShardWriter::add(const Box& box, std::span<const std::byte> values) {
  StoredPart part{box, 0, bytes_, values.size(), {}};
  for (std::size_t at = 0; at < values.size(); at += kChunkBytes)
    part.hashes.push_back(to_hex(hash_bytes(values.data() + at, std::min<std::size_t>(kChunkBytes, values.size() - at))));
  file_.write(values);
  bytes_ += values.size();
  return part;
}

void finish_checkpoint(const fs::path& made, const fs::path& final_path, const Manifest& manifest) {
  const std::string text = to_text(manifest);
  Structure(manifest, final_path.string()).check();
  if (text.size() > kMostManifest) throw UserError(final_path.string() + ": a manifest of more than 64 MiB", Exit::data);
  write_file((made / kManifest).string(), text);
  write_file((made / kMarker).string(), to_hex(hash_bytes(text)) + "\n");
  std::error_code failed, ignored;
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, final_path.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(made, ignored);  // the one that was there
  } else if (errno == ENOENT) {
    fs::rename(made, final_path, failed);
  } else {  // a file system that does not exchange names
    const fs::path old = final_path.string() + ".old";
    fs::remove_all(old, failed);
    if (!failed) fs::rename(final_path, old, failed);
    if (!failed) {
      fs::rename(made, final_path, failed);
      failed ? fs::rename(old, final_path, ignored) : static_cast<void>(fs::remove_all(old, ignored));
    }
  }
  if (failed) throw UserError(final_path.string() + ": cannot be replaced: " + failed.message(), Exit::io);
  sync_folder(final_path.has_parent_path() ? final_path.parent_path() : ".");
}

Checkpoint::Checkpoint(fs::path directory) : directory_(std::move(directory)) {
  std::error_code ignored;
  if (!fs::exists(directory_, ignored)) throw UserError(directory_.string() + ": no such checkpoint", Exit::missing);
  const auto damaged = [&](const std::string& what) { throw UserError(directory_.string() + ": " + what, Exit::data); };
  for (const char* name : {kManifest, kMarker})
    if (!fs::exists(directory_ / name, ignored)) damaged(std::string("not a complete checkpoint: it has no ") + name);
  const InputFile file(directory_ / kManifest, Links::refuse), marker(directory_ / kMarker, Links::refuse);
  if (file.size() > kMostManifest) damaged("its manifest has more than 64 MiB");
  if (marker.size() != 17) damaged("its marker is damaged");
  const std::string text = file.text(0, file.size()), hash = to_hex(hash_bytes(text));
  if (marker.text(0, marker.size()) != hash + "\n") damaged("its manifest is not the one that was marked complete: hash " + hash);
  manifest_ = parse_manifest(file.path().string(), text);
  Structure(manifest_, file.path().string()).check();
  for (const StoredFile& f : manifest_.files) {
    if (!fs::exists(fs::symlink_status(directory_ / f.name, ignored))) damaged("its file " + f.name + " is missing");
    if (const InputFile its(directory_ / f.name, Links::refuse); its.size() != f.bytes)
      damaged(fmt::format("{} has {} bytes, the manifest says {}", f.name, its.size(), f.bytes));
  }
}

void Checkpoint::read(const StoredEntry& entry, const Box& box, std::span<std::byte> out) const {
  visit(entry, box, out);
}
void Checkpoint::check(const StoredEntry& entry, const Box& box) const {
  visit(entry, box, {});
}

// out empty: nothing is kept.
void Checkpoint::visit(const StoredEntry& entry, const Box& box, std::span<std::byte> out) const {
  const auto item = static_cast<std::size_t>(bytes_of_dtype(entry.tensor.dtype));
  for (const StoredPart& part : entry.parts) {
    const Box shared = intersect(part.box, box);
    if (volume(shared) == 0) continue;
    // Along the first dim: its rows follow each other in the part.
    const bool scalar = part.box.empty();
    const Index rows = scalar ? 1 : part.box[0].size(), origin = scalar ? 0 : part.box[0].begin;
    const Range wanted = scalar ? Range{0, 1} : Range{shared[0].begin - origin, shared[0].end - origin};
    const std::uint64_t row = part.bytes / static_cast<std::uint64_t>(rows), end = static_cast<std::uint64_t>(wanted.end) * row;
    const InputFile file(directory_ / at(manifest_.files, part.file).name, Links::refuse);
    Window window(file, part, static_cast<std::uint64_t>(wanted.begin) * row / kChunkBytes * kChunkBytes);
    for (Index done = wanted.begin; window.end() < end;) {
      window.grow();
      const Index ready = std::min<Index>(wanted.end, static_cast<Index>(window.end() / row));
      if (!out.empty() && ready > done) {
        Box whole = part.box, slab = shared;  // the rows [done, ready): of the part, and what is wanted of them
        if (!scalar) whole[0] = slab[0] = {origin + done, origin + ready};
        const std::vector<Index> from = row_major(whole), to = row_major(box);
        copy_box(extents_of(slab), item,
                 window.data(static_cast<std::uint64_t>(done) * row) + static_cast<std::size_t>(item_of(whole, from, slab)) * item,
                 from, out.data() + static_cast<std::size_t>(item_of(box, to, slab)) * item, to);
      }
      done = std::max(done, ready);
      window.drop_before(out.empty() ? window.end() : static_cast<std::uint64_t>(done) * row);
    }
  }
}

void Checkpoint::check_chunks() const {
  std::vector<std::byte> room;
  for (const StoredEntry& entry : manifest_.entries)
    for (const StoredPart& part : entry.parts) {
      const InputFile file(directory_ / at(manifest_.files, part.file).name, Links::refuse);
      for (std::uint64_t begin = 0; begin < part.bytes; begin += kChunkBytes) {
        room.resize(std::min(kChunkBytes, part.bytes - begin));
        read_chunks(file, part, begin, room);
      }
    }
}

std::unique_ptr<WeightsFile> open_checkpoint(const fs::path& directory) {
  return CheckpointWeights::open(directory);
}

std::unique_ptr<WeightsWriter> new_checkpoint(const fs::path& directory, const std::vector<StoredTensor>& tensors) {
  return std::make_unique<CheckpointWriter>(directory, tensors);
}

std::optional<Index> step_of(const fs::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  Index step = 0;
  if (!name.starts_with("step-")) return std::nullopt;
  const auto [at, error] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
  return error == std::errc{} && at == name.data() + name.size() && "step-" + std::to_string(step) == name ? std::optional(step)
                                                                                                           : std::nullopt;
}

std::vector<fs::path> checkpoints_of(const fs::path& run_directory) {
  std::vector<fs::path> out;
  std::error_code failed;
  for (fs::directory_iterator it(run_directory / kCheckpoints, failed), end; !failed && it != end; it.increment(failed))
    if (step_of(it->path())) out.push_back(it->path());
  std::sort(out.begin(), out.end(), [](const fs::path& a, const fs::path& b) { return *step_of(a) > *step_of(b); });
  return out;
}

}  // namespace motley
