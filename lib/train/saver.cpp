// SPDX-License-Identifier: Apache-2.0
#include "train/saver.h"

#include <fmt/format.h>
#include <motley/error.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "base/at.h"
#include "base/copy_box.h"
#include "mesh/control.h"
#include "program/views.h"
#include "run/agreed.h"
#include "run/start.h"
#include "train/beside.h"
#include "train/keep.h"
#include "train/same_network.h"

namespace motley {

namespace {

// Merges another rank's parts into rank 0's; all list the same entries in the same order.
void merge(Manifest& all, const Manifest& its) {
  const int first_file = static_cast<int>(all.files.size());
  all.files.insert(all.files.end(), its.files.begin(), its.files.end());
  check(all.entries.size() == its.entries.size(), "all ranks list the same tensors");
  for (std::size_t e = 0; e < its.entries.size(); e++)
    for (StoredPart part : its.entries[e].parts) {
      part.file += first_file;
      all.entries[e].parts.push_back(std::move(part));
    }
}

}  // namespace

Saver::~Saver() {
  if (!begun()) return;
  end(*writing_);
  try {
    if (std::uncaught_exceptions() == 0) static_cast<void>(agree(rt_.transport(), 0));  // the other ranks no longer write either
  } catch (const Error&) {                                                              // another rank's error, which ends the run
  }
  remove_beside(*writing_);
}

void Saver::remove_beside(const Writing& writing) const {
  if (rt_.rank() == 0) writing.beside.in.remove_all(writing.beside.name);
}

void Saver::begin(const FileIn& directory, const Manifest& facts) {
  finish();
  rt_.phase("copying for a checkpoint");
  std::unique_ptr<Writing> writing(
      new Writing{.directory = directory, .beside = directory.in / (directory.name + ".new"), .facts = facts});
  agreed(rt_.transport(), [&] {
    if (const std::string wrong = position_mistake(facts); !wrong.empty())
      throw UserError(fmt::format("{}: {}", directory.path().string(), wrong));
    if (rt_.rank() == 0) {
      for (const FileIn& mine : {writing->directory, writing->beside}) refuse_other_files(mine);
      remove_beside(*writing);
      static_cast<void>(writing->beside.in.made(writing->beside.name));
    }
  });
  try {
    agreed(rt_.transport(), [&] {
      copy(*writing);
      start(*writing);
    });
  } catch (...) {
    abandon(*writing);
    throw;
  }
  writing_ = std::move(writing);
}

void Saver::start(Writing& writing) {
  try {
    writing.thread =
        start_beside(spare_cores(), [its = &writing, copies = room_.get(), rank = rt_.rank()] { work(*its, copies, rank); });
  } catch (const std::system_error& e) {
    throw UserError(fmt::format("rank {}: no thread to write a checkpoint: {}", rt_.rank(), e.what()), Exit::io);
  }
}

// Removes everything that was written.
void Saver::abandon(Writing& writing) {
  if (writing.thread.joinable()) end(writing);
  remove_beside(writing);
}

void Saver::work(Writing& writing, const std::byte* copies, int rank) {
  try {
    writing.manifests.assign(1, to_text(write(writing, copies, rank)));
    writing.stage = Stage::written;
    writing.stage.notify_all();
    if (rank > 0) return;
    writing.word.wait(Word::wait);
    if (writing.word == Word::give_up) return;
    complete(writing);
    writing.stage = Stage::complete;
  } catch (const Error& e) {
    writing.failed.emplace(e.what(), e.code());
    writing.stage = Stage::failed;
  } catch (const std::exception& e) {
    writing.failed.emplace(writing.beside.path().string() + ": " + e.what(), Exit::io);
    writing.stage = Stage::failed;
  }
  writing.stage.notify_all();
}

void Saver::copy(Writing& writing) {
  writing.entries = state_.entries();
  std::size_t bytes = 0;
  for (const StoredBox& box : state_.stored()) {
    writing.boxes.push_back({box.slot, box.as, bytes});
    bytes += (static_cast<std::size_t>(box.as.bytes) + 63) / 64 * 64;
  }
  if (bytes > room_bytes_) {
    room_.reset();
    room_bytes_ = 0;
    constexpr std::size_t kPage = std::size_t{2} << 20;  // few large pages: small ones take longer to allocate than to fill
    const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
    room_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, whole)));
    if (room_ == nullptr)
      throw UserError(fmt::format("rank {}: no memory to copy {} bytes for a checkpoint", rt_.rank(), bytes), Exit::io);
    static_cast<void>(madvise(room_.get(), whole, MADV_HUGEPAGE));  // if there are no large pages it is ordinary memory
    room_bytes_ = whole;
  }
  for (std::size_t b = 0; b < writing.boxes.size(); b++) {
    const StoredBox& box = at(state_.stored(), b);
    std::byte* const to = room_.get() + writing.boxes[b].at;
    if (state_.device() != nullptr)
      copy_and_wait(*state_.device(), to, box.memory.get(), static_cast<std::size_t>(box.as.bytes));
    else
      std::memcpy(to, box.memory.get(), static_cast<std::size_t>(box.as.bytes));
  }
}

// Writes this rank's file and returns its contents.
Manifest Saver::write(const Writing& writing, const std::byte* copies, int rank) {
  const auto beside = writing.beside.in.find(writing.beside.name);
  if (!beside)
    throw UserError(fmt::format("rank {} cannot find {}, which rank 0 created; use a directory that all hosts share", rank,
                                writing.beside.path().string()),
                    Exit::io);
  Manifest mine;
  std::optional<ShardWriter> file;
  std::vector<std::byte> row_major_values;
  std::map<std::pair<std::string_view, std::string_view>, std::vector<const Copied*>> boxes;  // by name and slot
  for (const Copied& box : writing.boxes) boxes[{box.as.name, box.slot}].push_back(&box);
  for (const StateEntry& e : writing.entries) {
    StoredEntry& entry = mine.entries.emplace_back(StoredEntry{e.slot, stored_tensor(e), {}});
    for (const Copied* const its : boxes[{e.name, e.slot}]) {
      const Copied& box = *its;
      const Buffer& as = box.as;
      const std::byte* values = copies + box.at;
      const auto bytes = static_cast<std::size_t>(as.bytes);
      const View view = view_of(as, 0, as.box);
      if (const std::vector<Index> dense = row_major(as.box); view.strides != dense) {
        row_major_values.resize(bytes);
        copy_box(view.extents, bytes_of(as.dtype), values, view.strides, row_major_values.data(), dense);
        values = row_major_values.data();
      }
      if (!file) file.emplace(*beside / shard_name(rank));
      entry.parts.push_back(file->add(as.box, {values, bytes}));
    }
  }
  if (!file) return mine;
  file->finish();
  mine.files.push_back({shard_name(rank), file->bytes()});
  return mine;
}

void Saver::collect() {
  Writing& writing = *writing_;
  const std::string mine = writing.manifests.front();
  control::to_first(rt_.transport(), std::as_bytes(std::span(mine)), "collecting a checkpoint's manifest",
                    [&](int rank, std::span<const std::byte> bytes) {
                      if (rank > 0) writing.manifests.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                    });
  writing.collected = true;
  writing.word = Word::go_on;
  writing.word.notify_all();
}

void Saver::complete(Writing& writing) {
  Manifest all = writing.facts;
  for (std::size_t rank = 0; rank < writing.manifests.size(); rank++) {
    Manifest its = parse_manifest("rank " + std::to_string(rank), writing.manifests[rank]);
    if (rank == 0)
      all.entries = std::move(its.entries), all.files = std::move(its.files);
    else
      merge(all, its);
  }
  finish_checkpoint(writing.beside, writing.directory, all);
}

// Ends the thread, whatever it waits for.
void Saver::end(Writing& writing) {
  Word waits = Word::wait;
  writing.word.compare_exchange_strong(waits, Word::give_up);
  writing.word.notify_all();
  writing.thread.join();
}

void Saver::finish() {
  if (!begun()) return;
  rt_.phase("saving a checkpoint");
  const auto fail = [&] {
    if (writing_->failed) throw UserError(*writing_->failed);
  };
  try {
    if (!collected()) {
      writing_->stage.wait(Stage::copied);
      agreed(rt_.transport(), fail);
      collect();
    }
    end(*writing_);
    agreed(rt_.transport(), fail);
  } catch (...) {
    abandon(*writing_);
    writing_.reset();
    throw;
  }
  writing_.reset();
}

}  // namespace motley
