// SPDX-License-Identifier: Apache-2.0
#include "weights/manifest.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "base/at.h"
#include "base/json_fields.h"

namespace motley {

namespace {

constexpr double kMostValue = 1e300;
constexpr Index kMostStep = Index{1} << 36;  // numbers computed from them are counted in 64 bits
constexpr std::size_t kMostParts = 16384;    // of one tensor: they are compared pairwise

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
  static const Table<StoredPart> table{{"box", "ranges of indices", "list", true,
                                        [](Reader& r, const Json& j, StoredPart& out) {
                                          r.list(j, [&](const Json& one, std::size_t) {
                                            std::vector<Index> ends;
                                            r.list(one,
                                                   [&](const Json& end, std::size_t) { r.integer(end, ends.emplace_back(), 0); });
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
                                       texts_field("xxh3", "of each chunk of 4 MiB", &StoredPart::hashes)};
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

template <class T>
Field<T> steps_field(const char* name, const char* doc, Index T::*member, bool required = true) {
  return {name, doc, "integer", required, [member](Reader& r, const Json& j, T& out) { r.integer(j, out.*member, 0, kMostStep); }};
}

const Table<Gains>& gains_fields() {
  static const Table<Gains> table{word_field("watch", "test_loss or test_accuracy", &Gains::watch, kWatchedWords, true),
                                  number_or_null("best", "of the values so far", &Gains::best, -kMostValue, kMostValue),
                                  steps_field("step", "after which the best was found", &Gains::step),
                                  steps_field("without_gain", "evaluations since then", &Gains::without_gain),
                                  steps_field("evaluated", "the step of the last evaluation", &Gains::evaluated)};
  return table;
}

const Table<RunMemory>& memory_fields() {
  static const Table<RunMemory> table{
      number_or_null("learning_rate", "of the caller, in place of the schedule's", &RunMemory::learning_rate, 0, kMostValue, false),
      {"plateau", "of the schedule", "object", false,
       [](Reader& r, const Json& j, RunMemory& out) { r.object(j, gains_fields(), out.plateau); }},
      {"scale", "product of the schedule's falls", "number", false,
       [](Reader& r, const Json& j, RunMemory& out) { r.number(j, out.scale, {.least = 0, .most = 1}); }},
      {"gains", "of the run", "object", false,
       [](Reader& r, const Json& j, RunMemory& out) { r.object(j, gains_fields(), out.gains); }},
      steps_field("kept", "the step of the best checkpoint", &RunMemory::kept, false),
      boolean_field("kept_as_best", "whether it was written for that alone", &RunMemory::kept_as_best)};
  return table;
}

Json to_json(const Gains& gains) {
  Json out;
  out.set("watch", at(kWatchedNames, gains.watch)).set("best", json_or_null(gains.best)).set("step", gains.step);
  return out.set("without_gain", gains.without_gain).set("evaluated", gains.evaluated);
}

Json to_json(const RunMemory& memory) {
  Json out{Json::Object{}};
  if (memory.learning_rate) out.set("learning_rate", *memory.learning_rate);
  if (memory.plateau.evaluated >= 0) out.set("plateau", to_json(memory.plateau)).set("scale", memory.scale);
  if (memory.gains.evaluated >= 0) out.set("gains", to_json(memory.gains));
  if (memory.kept >= 0) out.set("kept", memory.kept).set("kept_as_best", memory.kept_as_best);
  return out;
}

// JSON integers have 63 bits here: a larger seed is written as text.
Json seed_json(std::uint64_t seed) {
  return seed <= INT64_MAX ? Json(static_cast<Index>(seed)) : Json(std::to_string(seed));
}
void read_seed(Reader& r, const Json& j, Manifest& out) {
  const auto* digits = std::get_if<std::string>(&j.value);
  if (std::int64_t seed = 0; digits == nullptr) {
    if (r.integer(j, seed, INT64_MIN)) out.seed = static_cast<std::uint64_t>(seed);  // below 0: a large one, by an older motley
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
      text_field("optimizer", "its kind", &Manifest::optimizer, false),
      {"learning_rate", "of the last step", "number", false,
       [](Reader& r, const Json& j, Manifest& out) {
         if (double rate = 0; r.number(j, rate, {.least = 0})) out.learning_rate = rate;
       }},
      texts_field("classes", "their names, by number", &Manifest::classes, false),
      {"data", "where training is in its data", "object", true,
       [](Reader& r, const Json& j, Manifest& out) { r.object(j, position_fields(), out.data); }},
      {"memory", "of evaluations, and of a learning rate that was set", "object", false,
       [](Reader& r, const Json& j, Manifest& out) { r.object(j, memory_fields(), out.memory); }},
      list_field("files", "with the values, one per rank that owns any", &Manifest::files, file_fields()),
      list_field("tensors", "with their slots", &Manifest::entries, entry_fields())};
  return table;
}

bool overlap(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.size(); d++)  // every pair of a tensor's boxes: no temporary list
    if (a[d].end <= b[d].begin || b[d].end <= a[d].begin) return false;
  return true;
}

std::uint64_t chunks_of(std::uint64_t bytes) {
  return (bytes + kChunkBytes - 1) / kChunkBytes;
}

// Checks that the parts make up the tensors, each element once, and the files consist of the parts, each byte once.
class Structure {
 public:
  Structure(const Manifest& manifest, std::string name) : manifest_(manifest), name_(std::move(name)) {}

  void check() const {
    if (const std::string wrong = position_mistake(manifest_); !wrong.empty()) damaged(wrong);
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
      const Index bytes = volume(p.box) * bytes_of_dtype(e.tensor.dtype);  // at most the bytes of the tensor, `all`
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

}  // namespace

std::string position_mistake(const Manifest& manifest) {
  const StoredPosition& now = manifest.data;
  const auto counts = [](Index value, Index most) { return value >= 0 && value <= most; };
  const Index samples = now.samples > 0 ? now.samples : kMostStep,
              batches = now.batch_size > 0 ? samples / now.batch_size : kMostStep;
  if (counts(manifest.step, kMostStep) && counts(now.epoch, kMostStep) && counts(now.batch, batches) && now.samples >= 0 &&
      now.batch_size >= 0)
    return "";
  return fmt::format("step {}, epoch {}, batch {} (of {} samples, in batches of {}) is not a valid position in a training",
                     manifest.step, now.epoch, now.batch, now.samples, now.batch_size);
}

std::string shard_name(int rank) {
  return "rank-" + std::to_string(rank) + ".bin";
}

std::optional<int> rank_of(const std::string& file) {
  int rank = 0;
  const char *begin = file.data() + 5, *end = file.data() + file.size() - 4;
  if (!file.starts_with("rank-") || !file.ends_with(".bin") || file.size() < 10) return std::nullopt;
  const auto [at, error] = std::from_chars(begin, end, rank);
  return error == std::errc{} && at == end && shard_name(rank) == file ? std::optional(rank) : std::nullopt;
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
  out.set("version", 1).set("step", m.step).set("seed", seed_json(m.seed));
  if (!m.optimizer.empty()) out.set("optimizer", m.optimizer);
  if (m.learning_rate) out.set("learning_rate", *m.learning_rate);
  if (!m.classes.empty()) {
    Json classes{Json::Array{}};
    for (const std::string& name : m.classes) classes.push(name);
    out.set("classes", std::move(classes));
  }
  out.set("data", std::move(data));
  if (Json memory = to_json(m.memory); !std::get<Json::Object>(memory.value).empty()) out.set("memory", std::move(memory));
  return to_text(out.set("files", std::move(files)).set("tensors", std::move(entries)), 1) + "\n";
}

Manifest parse_manifest(const std::string& name, const std::string& text) {
  Complaints complaints;
  const auto json = read_json(name, text, complaints, kByMotley);
  Reader reader{complaints};
  Manifest out;
  if (json) reader.object(*json, manifest_fields(), out);
  complaints.raise(Exit::data);
  return out;
}

void check_structure(const Manifest& manifest, const std::string& name) {
  Structure(manifest, name).check();
}

}  // namespace motley
