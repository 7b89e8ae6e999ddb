// SPDX-License-Identifier: Apache-2.0
// The last training steps of all ranks, measured and simulated.
#pragma once
#include <motley/plan.h>
#include <motley/program.h>
#include <motley/transport.h>

#include <optional>
#include <string>
#include <vector>

#include "run/step_trace.h"

namespace motley {

struct TracePeer {
  int rank = -1;
  Index bytes = 0;
};

// One event of every training step: a step of the rank's Program, or a TracePart.
struct TraceItem {
  enum class Kind : std::uint8_t { kernel, post, wait, part };
  Kind kind = Kind::kernel;
  std::string name{};   // of the pass ("conv2d_2 forward"), of the exchange, of the part
  std::string group{};  // "conv2d forward", "update", "copies", "reads in place", "waits", "posts", "agreements", "feed", ...
  std::string layer{};  // that it counts for; empty: none, or several
  std::vector<TracePeer> peers{};  // kernel: whose memory it reads in place; post: receivers; wait: senders
  int exchange = -1;               // of a post or wait
  bool message = false;            // of a post or wait: it has bytes in flight while other steps may run
};

// In the order of the events in a StepTrace.
std::vector<TraceItem> trace_items(const Program& program);

struct RankTrace {
  std::string device{};    // its name in the mesh
  bool own_clock = false;  // kernels were timed by the device, which runs in parallel with the host's waits and posts
  std::vector<TraceItem> items{};
  std::vector<TraceSpan> measured{};  // for each step one per item; by rank 0's clock
  std::vector<TraceSpan>
      simulated{};  // one per item, in seconds from when the first rank begins the training step; empty: no profile
  TraceSpan at(std::size_t step, std::size_t item) const { return measured[step * items.size() + item]; }
  // The timed part of the training step: from after reading the inputs to before exchanging the figures.
  TraceSpan step(std::size_t step) const { return timed(std::span(measured).subspan(step * items.size(), items.size())); }
  TraceSpan simulated_step() const { return timed(simulated); }

 private:
  static TraceSpan timed(std::span<const TraceSpan> events) {
    const auto parts = events.last(kTraceParts);
    return {parts[static_cast<std::size_t>(TracePart::feed)].end, parts[static_cast<std::size_t>(TracePart::figures)].begin};
  }
};

struct RunTrace {
  std::vector<Index> steps{};  // numbers of the steps that every rank's ring holds
  std::vector<RankTrace> ranks{};
  std::optional<double> predicted_step_seconds{};
  std::vector<std::string> notes{};
};

// Collective. Every rank's trace on rank 0, nothing on other ranks. `profile`: the profile that the plan was made from; empty:
// nothing is simulated. Clocks of other hosts are adjusted by the shortest of several round trips.
RunTrace gather_trace(const Plan& plan, const Profile& profile, const StepTrace& mine, Transport& transport);

}  // namespace motley
