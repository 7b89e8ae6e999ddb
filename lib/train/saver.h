// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints while training continues: what a rank owns is copied, and a thread writes the copy.
#pragma once
#include <motley/runtime.h>
#include <motley/state.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "weights/checkpoint.h"

namespace motley {

class Saver {
 public:
  Saver(Runtime& rt, const State& state) : rt_(rt), state_(state) {}
  ~Saver();  // Collective, unless an error ends the run: a checkpoint that was begun and not finished is removed
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  // Collective, between steps: copies what this rank owns (into host memory that is kept for the next time) and begins to write the
  // copy beside `directory`, whose own directory all ranks have opened. facts: step, seed and position. A previous checkpoint is
  // finished first. UserError, on all ranks (74).
  void begin(const FileIn& directory, const Manifest& facts);
  bool begun() const { return writing_ != nullptr; }  // the same on every rank
  // The progress of this rank; `complete` only on rank 0.
  enum class Stage : std::uint8_t { copied, written, complete, failed };
  Stage stage() const { return begun() ? writing_->stage.load() : Stage::copied; }
  // Collective, once all ranks have written: passes the manifests to rank 0's thread, which names and marks the checkpoint.
  void collect();
  bool collected() const { return begun() && writing_->collected; }
  // Collective: waits until the checkpoint is complete. Returns at once if none was begun. UserError, on all ranks (74: it is
  // removed, and a checkpoint that was there before is still there).
  void finish();

 private:
  struct Copied {  // a box of the State
    std::string slot{};
    Buffer as{};
    std::size_t at = 0;  // position in the copy
  };
  enum class Word : std::uint8_t { wait, go_on, give_up };
  struct Writing {
    FileIn directory, beside;
    Manifest facts{};
    std::vector<StateEntry> entries{};
    std::vector<Copied> boxes{};
    bool collected = false;
    // Used by the thread until it has set `written` and after it has read go_on; else by the rank.
    std::optional<UserError> failed{};
    std::vector<std::string> manifests{};  // of each rank's file; on other ranks than 0 only its own
    std::atomic<Stage> stage = Stage::copied;
    std::atomic<Word> word = Word::wait;  // to rank 0's thread
    std::thread thread{};
  };
  void copy(Writing& writing);
  void start(Writing& writing);
  void abandon(Writing& writing);
  void remove_beside(const Writing& writing) const;
  static void work(Writing& writing, const std::byte* copies, int rank);
  static Manifest write(const Writing& writing, const std::byte* copies, int rank);
  static void complete(Writing& writing);
  static void end(Writing& writing);

  Runtime& rt_;
  const State& state_;
  std::unique_ptr<std::byte, void (*)(void*)> room_{nullptr, std::free};
  std::size_t room_bytes_ = 0;
  std::unique_ptr<Writing> writing_{};
};

}  // namespace motley
