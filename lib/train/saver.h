// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints while training goes on: what a rank owns is copied, and a thread writes the copy.
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
  ~Saver();  // Collective, unless an error ends the run: of what was begun and not finished nothing is left
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  // Collective, between steps: copies what this rank owns (into host memory that it keeps for the next time) and begins to write
  // it beside `directory`, which all ranks see. facts: step, seed and position. The one before is finished. UserError, on all ranks
  // (74).
  void begin(const std::filesystem::path& directory, const Manifest& facts);
  bool begun() const { return writing_ != nullptr; }  // the same on every rank
  // How far this rank is; complete on rank 0 alone.
  enum class Stage : std::uint8_t { copied, written, complete, failed };
  Stage stage() const { return begun() ? writing_->stage.load() : Stage::copied; }
  // Collective, once all ranks have written: rank 0's thread gets the manifests, names and marks the checkpoint.
  void collect();
  bool collected() const { return begun() && writing_->collected; }
  // Collective: waits until the checkpoint is complete. None was begun: returns at once. UserError, on all ranks (74: nothing is
  // left of it, and a checkpoint that was there is still there).
  void finish();

 private:
  struct Copied {  // a box of the State
    std::string slot{};
    Buffer as{};
    std::size_t at = 0;  // in the copy
  };
  enum class Word : std::uint8_t { wait, go_on, give_up };
  struct Writing {
    std::filesystem::path directory{}, beside{};
    Manifest facts{};
    std::vector<StateEntry> entries{};
    std::vector<Copied> boxes{};
    bool collected = false;
    // The thread's, until it has said `written` and after it has heard go_on; else the rank's.
    std::optional<UserError> failed{};
    std::vector<std::string> manifests{};  // of each rank's file; but for rank 0 its own alone
    std::atomic<Stage> stage = Stage::copied;
    std::atomic<Word> word = Word::wait;  // to rank 0's thread
    std::thread thread{};
  };
  void copy(Writing& writing);
  void start(Writing& writing);
  void abandon(Writing& writing);
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
