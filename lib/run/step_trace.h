// SPDX-License-Identifier: Apache-2.0
// When each event of the last training steps began and ended on this rank.
#pragma once
#include <motley/program.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace motley {

struct TraceSpan {  // seconds of CLOCK_MONOTONIC (std::chrono::steady_clock), which ranks of one host share
  double begin = 0, end = 0;
};

// What a training step does outside its Program: reading the inputs, the ranks' agreement on the loss (before the update), and
// their exchange of figures at the end: those of the previous step are received, this step's are sent.
enum class TracePart : std::uint8_t { feed, loss, figures };
constexpr std::size_t kTraceParts = 3;

struct TraceLimits {
  std::size_t steps = 100;          // at most so many training steps, the last ones
  std::size_t bytes = 4ULL << 20U;  // memory for events; at least one training step
};

// The steps of a Program, and one for the ranks' meeting on norms, which comes between two of them, if it has one.
inline std::size_t recorded_steps(const Program& program) {
  return program.steps.size() + (program.directs ? 1 : 0);
}

// A ring of training steps. Each has one event per step of the Program (by its number; after these the meeting on norms) and then
// one per TracePart, so that an event is two numbers at a known place: its name, peers and bytes are the Program's. All memory is
// allocated here: recording is two stores.
class StepTrace {
 public:
  explicit StepTrace(std::size_t program_steps, const TraceLimits& limits = {})
      : events_(program_steps + kTraceParts),
        capacity_(std::clamp<std::size_t>(limits.bytes / (events_ * sizeof(TraceSpan)), 1, std::max<std::size_t>(limits.steps, 1))),
        spans_(capacity_ * events_),
        numbers_(capacity_, 0) {}
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  void begin(Index step) {  // replaces the oldest step
    kept_ = std::min(kept_, capacity_ - 1);
    numbers_[at_] = step;
    row_ = spans_.data() + at_ * events_;
  }
  void end() {  // all events of the step are recorded; without this call the step does not count
    at_ = (at_ + 1) % capacity_;
    kept_++;
    row_ = nullptr;
  }
  bool open() const { return row_ != nullptr; }  // between begin() and end(); outside nothing is recorded
  void program_step(std::size_t i, double begin, double end) {
    if (open()) row_[i] = {begin, end};
  }
  void part(TracePart part, double begin, double end) {
    program_step(events_ - kTraceParts + static_cast<std::size_t>(part), begin, end);
  }

  std::size_t events() const { return events_; }      // of a step
  std::size_t capacity() const { return capacity_; }  // steps
  std::size_t steps() const { return kept_; }         // complete ones, the oldest first:
  Index number(std::size_t k) const { return numbers_[row_of(k)]; }
  std::span<const TraceSpan> spans(std::size_t k) const { return std::span(spans_).subspan(row_of(k) * events_, events_); }

 private:
  std::size_t row_of(std::size_t k) const { return (at_ + capacity_ - kept_ + k) % capacity_; }
  std::size_t events_, capacity_;
  std::vector<TraceSpan> spans_;
  std::vector<Index> numbers_;
  TraceSpan* row_ = nullptr;  // of the step that is being recorded
  std::size_t at_ = 0, kept_ = 0;
};

}  // namespace motley
