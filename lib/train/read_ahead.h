// SPDX-License-Identifier: Apache-2.0
// The next batch is read and decoded while a step computes.
#pragma once
#include <motley/batch.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace motley {

// The requests of a step (inputs and boxes) are the same in every step: what was read of one batch is read ahead for the next ones
// by threads, in pieces; pieces that no thread has begun when the step needs them are read by the step. So a step never reads later
// than without the threads, and the values are those that the feeds give: reading is a pure function.
class ReadAhead {
 public:
  using Feeds = std::map<std::string, ReadBox>;
  // cores: where the threads run, one for each of them, none a rank's; empty: there is no thread and the step reads (on a rank's
  // own core it would only slow the kernels down, measured in lib/train/README.md). first: feeds of the first batch.
  ReadAhead(const std::vector<int>& cores, Feeds first);
  ~ReadAhead();  // waits for the pieces that are being read
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  // Feeds of the batch that was given before, valid until the next call. An error of a thread is thrown where the box is read.
  // next: feeds of the batch after it, which the threads begin; empty: there is none.
  Feeds next(Feeds next);

 private:
  enum class Piece : std::uint8_t { open, taken, read, elsewhere, failed };  // elsewhere: by the step
  struct Request {
    std::string name{};
    Box box{};
    std::size_t bytes = 0;
    bool operator==(const Request&) const = default;
  };
  struct Reading {  // of one batch
    Request request{};
    std::vector<Box> boxes{};         // of the pieces: consecutive bytes
    std::vector<std::size_t> ends{};  // in `values`
    std::vector<Piece> pieces{};
    std::vector<std::byte> values{};
    std::span<std::byte> bytes_of(std::size_t piece, std::span<std::byte> all) const;
  };
  struct Slot {
    Feeds feeds{};
    std::vector<Reading> readings{};
    std::exception_ptr error{};
  };
  void fill(Slot& slot, Feeds feeds);
  void give(Slot& slot, const std::string& name, const Box& box, std::span<std::byte> out);
  void give_reading(Slot& slot, Reading& reading, std::span<std::byte> out);
  void work();
  bool take_one(Slot*& slot, Reading*& reading, std::size_t& piece);

  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::vector<Request> requests_{};
  Slot slots_[2]{};
  int now_ = 1;  // the slot of this step; the other slot is for the next batch
  bool over_ = false;
  std::vector<std::thread> threads_{};
};

}  // namespace motley
