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
// Reads bytes [from, from + out.size()) of a part, which are whole chunks of it, and compares their hashes.
void read_chunks(const InputFile& file, const StoredPart& part, std::uint64_t from, std::span<std::byte> out) {
  for (std::size_t at_byte = 0; at_byte < out.size(); at_byte += kChunkBytes) {
    const std::uint64_t begin = from + at_byte, size = std::min<std::uint64_t>(kChunkBytes, out.size() - at_byte);
    file.read(part.offset + begin, out.subspan(at_byte, size));
    const std::string &expected = at(part.hashes, begin / kChunkBytes), found = to_hex(hash_bytes(out.data() + at_byte, size));
    if (found != expected)
      throw UserError(fmt::format("{}: bytes {} to {} are damaged: hash {}, expected {}", file.path().string(), part.offset + begin,
                                  part.offset + begin + size, found, shown(expected)),
                      Exit::data);
  }
}

// Whether the elements of `part` are next to each other in a row-major box.
bool is_together(const Box& box, const Box& part) {
  std::size_t d = box.size();
  while (d > 0 && part[d - 1] == box[d - 1]) d--;
  return std::all_of(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(d == 0 ? 0 : d - 1),
                     [](Range r) { return r.size() == 1; });
}

// Bytes of a part from `from` on, read chunk by chunk.
class CopyWindow {
 public:
  CopyWindow(const InputFile& file, const StoredPart& part, std::uint64_t from, std::vector<std::byte>& room)
      : file_(file), part_(part), room_(room), from_(from) {}
  std::uint64_t end() const { return from_ + size_; }
  void grow() {
    const std::size_t more = std::min(kChunkBytes, part_.bytes - end());
    if (size_ + more > room_.size()) room_.resize(2 * size_ + kChunkBytes);
    read_chunks(file_, part_, end(), std::span(room_).subspan(size_, more));
    size_ += more;
  }
  const std::byte* data(std::uint64_t at) const { return room_.data() + (at - from_); }
  void drop_before(std::uint64_t at) {
    if (at <= from_) return;
    size_ -= at - from_;
    std::memmove(room_.data(), data(at), size_);
    from_ = at;
  }

 private:
  const InputFile& file_;
  const StoredPart& part_;
  std::vector<std::byte>& room_;  // holds [from_, from_ + size_) of the part
  std::uint64_t from_;
  std::size_t size_ = 0;
};

// The first name in it that is not part of a checkpoint; empty: there is none.
std::string foreign_name(const OpenDirectory& checkpoint) {
  for (const std::string& name : checkpoint.names())
    if (const std::string its = made_for(name); its != kManifest && its != kMarker && !rank_of(its)) return name;
  return "";
}

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

  std::vector<std::string> classes() const override { return checkpoint_->manifest().classes; }
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
  CheckpointWriter(const fs::path& directory, std::vector<StoredTensor> tensors, const std::vector<std::string>& classes)
      : final_(plain_path(directory), Links::refuse), tensors_(std::move(tensors)) {
    manifest_.classes = classes;
    if (::faccessat(final_.in.fd(), ".", W_OK, AT_EACCESS) != 0)
      throw UserError(
          final_.path().string() + ": the directory " + final_.in.path().string() + " is not writable: " + std::strerror(errno),
          Exit::io);
    require_names(tensors_);
    for (const StoredTensor& t : tensors_)
      if (t.dtype == "I64") throw UserError(shown(t.name) + ": a checkpoint cannot hold I64 values", Exit::data);
    made_.emplace(made_beside(final_, [](int at, const char* name) { return ::mkdirat(at, name, 0777) == 0; }));
    file_.emplace(made_->in.made(made_->name) / shard_name(0));
  }
  ~CheckpointWriter() override {
    file_.reset();
    if (made_) made_->in.remove_all(made_->name);
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
    finish_checkpoint(*made_, final_, manifest_);
  }

 private:
  FileIn final_;
  std::optional<FileIn> made_{};
  std::vector<StoredTensor> tensors_;
  std::optional<ShardWriter> file_{};
  Manifest manifest_{};
};

}  // namespace

StoredPart ShardWriter::add(const Box& box, std::span<const std::byte> values) {
  StoredPart part{box, 0, bytes_, values.size(), {}};
  for (std::size_t at = 0; at < values.size(); at += kChunkBytes)
    part.hashes.push_back(to_hex(hash_bytes(values.data() + at, std::min<std::size_t>(kChunkBytes, values.size() - at))));
  file_.write(values);
  bytes_ += values.size();
  return part;
}

void finish_checkpoint(const FileIn& made, const FileIn& last, const Manifest& manifest) {
  const std::string text = to_text(manifest), name = last.path().string();
  check_structure(manifest, name);
  if (text.size() > kMostManifest) throw UserError(name + ": a manifest of more than 64 MiB", Exit::io);
  const auto in = made.in.find(made.name);
  if (!in) throw UserError(made.path().string() + " was removed while it was written", Exit::io);
  write_text(*in / kManifest, text);
  write_text(*in / kMarker, to_hex(hash_bytes(text)) + "\n");
  made.in.require_here();
  if (::renameat2(made.in.fd(), made.name.c_str(), last.in.fd(), last.name.c_str(), RENAME_EXCHANGE) == 0) {
    made.in.remove_all(made.name);  // the previous checkpoint
  } else if (errno == ENOENT) {
    made.in.rename(made.name, last);
  } else {  // a file system that cannot exchange two names
    const FileIn old(last.in, last.name + ".old");
    refuse_other_files(old);
    old.in.remove_all(old.name);
    last.in.rename(last.name, old);
    try {
      made.in.rename(made.name, last);
    } catch (const UserError&) {
      old.in.rename(old.name, last);
      throw;
    }
    old.in.remove_all(old.name);
  }
  last.in.sync();
}

void refuse_other_files(const FileIn& checkpoint) {
  const OpenDirectory::Kind kind = checkpoint.in.kind(checkpoint.name);
  if (kind == OpenDirectory::Kind::none) return;
  const auto refuse = [&](const std::string& what) {
    throw UserError(checkpoint.path().string() + ": " + what + "; a checkpoint needs a directory of its own, name another one",
                    Exit::io);
  };
  if (kind != OpenDirectory::Kind::directory) refuse("it exists and is not a directory");
  if (const std::string name = foreign_name(checkpoint.in.made(checkpoint.name)); !name.empty())
    refuse("it holds " + shown(name) + ", which is not part of a checkpoint");
}

bool is_own_checkpoint(const FileIn& checkpoint, Whole whole) {
  if (checkpoint.in.kind(checkpoint.name) != OpenDirectory::Kind::directory) return false;
  const auto directory = checkpoint.in.find(checkpoint.name);
  if (!directory || !foreign_name(*directory).empty()) return false;
  return whole == Whole::any || directory->kind(kManifest) == OpenDirectory::Kind::file;
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
  const std::string text = file.text(), hash = to_hex(hash_bytes(text));
  if (marker.text() != hash + "\n") damaged("its manifest is not the one that was marked complete: hash " + hash);
  manifest_ = parse_manifest(file.path().string(), text);
  check_structure(manifest_, file.path().string());
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

const InputFile& Checkpoint::file_of(const StoredPart& part) const {
  constexpr std::size_t kMostOpen = 64;
  if (open_.size() == kMostOpen && !open_.contains(part.file)) open_.clear();
  return open_.try_emplace(part.file, directory_ / at(manifest_.files, part.file).name, Links::refuse).first->second;
}

// With an empty `out` the values are not kept.
void Checkpoint::visit(const StoredEntry& entry, const Box& box, std::span<std::byte> out) const {
  const auto item = static_cast<std::size_t>(bytes_of_dtype(entry.tensor.dtype));
  for (const StoredPart& part : entry.parts) {
    const Box shared = intersect(part.box, box);
    if (volume(shared) == 0) continue;
    if (!out.empty() && shared == part.box && is_together(box, shared)) {  // the whole part is contiguous in the box
      read_chunks(file_of(part), part, 0,
                  out.subspan(static_cast<std::size_t>(item_of(box, row_major(box), shared)) * item, part.bytes));
      continue;
    }
    // Along the first dim: its rows are contiguous in the part.
    const bool scalar = part.box.empty();
    const Index rows = scalar ? 1 : part.box[0].size(), origin = scalar ? 0 : part.box[0].begin;
    const Range wanted = scalar ? Range{0, 1} : Range{shared[0].begin - origin, shared[0].end - origin};
    const std::uint64_t row = part.bytes / static_cast<std::uint64_t>(rows), end = static_cast<std::uint64_t>(wanted.end) * row;
    CopyWindow window(file_of(part), part, static_cast<std::uint64_t>(wanted.begin) * row / kChunkBytes * kChunkBytes, room_);
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
  for (const StoredEntry& entry : manifest_.entries)
    for (const StoredPart& part : entry.parts)
      for (CopyWindow window(file_of(part), part, 0, room_); window.end() < part.bytes; window.drop_before(window.end()))
        window.grow();
}

std::unique_ptr<WeightsFile> open_checkpoint(const fs::path& directory) {
  return CheckpointWeights::open(directory);
}

std::unique_ptr<WeightsWriter> new_checkpoint(const fs::path& directory, const std::vector<StoredTensor>& tensors,
                                              const std::vector<std::string>& classes) {
  return std::make_unique<CheckpointWriter>(directory, tensors, classes);
}

std::string step_directory(Index step) {
  return "step-" + std::to_string(step);
}

std::string checkpoint_name(Index step) {
  return std::string(kCheckpoints) + "/" + step_directory(step);
}

std::optional<Index> step_of(const fs::path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  Index step = 0;
  if (!name.starts_with("step-")) return std::nullopt;
  const auto [at, error] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
  return error == std::errc{} && at == name.data() + name.size() && step_directory(step) == name ? std::optional(step)
                                                                                                 : std::nullopt;
}

std::vector<std::string> checkpoints_in(const OpenDirectory& run) {
  std::vector<std::string> out;
  if (run.kind(kCheckpoints) != OpenDirectory::Kind::directory) return out;
  const auto checkpoints = run.find(kCheckpoints);
  if (checkpoints) out = checkpoints->names();
  std::erase_if(
      out, [&](const std::string& name) { return !step_of(name) || checkpoints->kind(name) != OpenDirectory::Kind::directory; });
  std::sort(out.begin(), out.end(), [](const std::string& a, const std::string& b) { return *step_of(a) > *step_of(b); });
  return out;
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
