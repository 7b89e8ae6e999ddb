// SPDX-License-Identifier: Apache-2.0
// The contents of a Plan.
#pragma once
#include <motley/exchange.h>
#include <motley/layout.h>
#include <motley/plan.h>
#include <motley/rules.h>
#include <motley/schedule.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "graph/passes.h"

namespace motley {

// One index of a pass, cut over a cut's axes. Axes in no part are demand-driven: each coordinate computes what its own readers
// read.
struct PickPart {
  int index = -1;
  Cut cut{};
  bool operator==(const PickPart&) const = default;
};
using Pick = std::vector<PickPart>;

// A rank's part in a pass: one range per index. Ranks of one alternative hold partial sums that are added; a reader takes all
// partial sums of its own alternative.
struct Work {
  bool any = false;
  Box box{};
  int alternative = 0, partial = 0;
};

struct PassPlan {
  Pick pick{};
  std::vector<Work> work{};           // per rank
  std::vector<int> alternative_of{};  // per rank: the alternative from which it reads this pass's result
};

// One move of a tensor's values between ranks.
struct Hop {
  std::vector<BoxMessage> messages{};
  Schedule schedule{};
  // Tiled (plan/tiles.h): what arrives stays in one buffer per message (for `add`: what leaves is computed message by message), and
  // a message is sent in that many pieces of its first dim. 0: not tiled.
  int tiles = 0;
  bool travels() const {
    for (const BoxMessage& m : messages)
      if (m.from != m.to) return true;
    return false;
  }
};

struct TensorPlan {
  Layout layout{};
  std::vector<Shard> owners{};  // who adds partial sums (home, if nothing is added for several readers)
  std::vector<Shard> home{};    // where finished values are stored before they are read; of a parameter or its gradient: the owners
  std::vector<Shard> readers{};                             // what each rank reads
  Hop add{}, copy{}, fill{};                                // writers -> owners, with addition; owners -> home; home -> readers
  Hop& arriving() { return fill.travels() ? fill : copy; }  // the hop that may be tiled
  const Hop& arriving() const { return fill.travels() ? fill : copy; }
};
inline constexpr std::array<Hop TensorPlan::*, 3> kHops{&TensorPlan::add, &TensorPlan::copy, &TensorPlan::fill};
inline constexpr std::array<const char*, 3> kHopNames{"add", "copy", "fill"};  // in files and texts

struct CutChoice {                   // for people and JSON: one resolved rule
  std::string dim{}, axis{}, per{};  // per: the axis along which the lists of parts differ; empty: there is one
  std::vector<std::vector<Index>> parts{};
  std::string why{};
};

// For people and JSON: what the planner chose for layers that are cut together, where the layout left it open.
struct LayerChoice {
  std::string layers{};  // "conv2d_1", "conv2d_1 to max_pool2d_3"
  std::string cut{};     // "by batch", "on fast alone"
  // The other cut of these layers alone that costs least, and the step with it; empty: there is none, or seconds are unknown.
  std::string next_best{};
  std::optional<double> next_best_seconds{};
};

// For people and JSON: what "axes": "auto" chose. chosen empty: the mesh says its axes.
struct AxesChoice {
  std::string chosen{}, next_best{};                     // "all 4", "outer 2 x inner 2, as listed: [a, b], [c, d]"
  std::optional<double> seconds{}, next_best_seconds{};  // of the predicted step; nothing: not predicted, or no plan fits
  int complete_plans = 0, dropped = 0;                   // arrangements that were planned completely, and that were not
};

// For people and JSON: a device that computes nothing in this plan.
struct IdleDevice {
  int rank = 0;
  std::string why{};                // "the best plan tried with it takes 16.2 ms, 1.04x"
  std::optional<double> with_it{};  // seconds of that plan's step; nothing: there is none, or seconds are unknown
};

struct PredictedRank {
  double seconds = 0;            // busy
  double estimated_seconds = 0;  // of these, those of kernels whose times are guesses (Estimate::is_guess)
  Index bytes = 0, memory_bytes = 0;
};

struct Baseline {  // the same rules with other parts; not set without a profile
  std::optional<double> even{}, proportional{}, fast_alone{};
};

struct ChosenKernel {
  KernelSpec spec{};
  std::string implementation{};
};

struct PlanData {
  DType dtype = DType::f32;
  LayoutRules rules{};  // all parts resolved
  Passes passes{};      // copies merged
  std::vector<PassPlan> pass_plans{};
  std::vector<TensorPlan> tensors{};
  std::vector<Format> formats{};      // per tensor
  std::vector<bool> on_device{};      // per rank: its slices are in a device's own memory
  std::vector<Index> memory_bytes{};  // per rank: the mesh's limit; 0: none
  std::vector<int> busy{};            // ranks that have any part
  std::vector<int> hosts{};           // per rank: ranks with the same number read each other's memory in place; empty: no rank does
  std::vector<std::vector<ChosenKernel>> implementations{};  // per rank, where its device has a choice: the fastest one measured
  std::vector<std::vector<KernelSpec>> apart{};  // per rank: fused kernels measured to be slower than separate ones; empty: none
  bool repeats = false;  // parameters are sent in each micro-batch, frozen ones in each step: a rank lacks the memory to keep them
  std::vector<CutChoice> cuts{};
  std::vector<LayerChoice> layout{};  // in the order of the layers
  AxesChoice axes{};
  std::vector<IdleDevice> idle{};
  std::vector<std::string> notes{};                              // what was assumed, what was gathered
  std::optional<double> step_seconds{}, step_q25{}, step_q75{};  // quartiles: of the machine's speed while its profile was measured
  std::vector<PredictedRank> predicted{};
  Baseline baselines{};
  std::uint64_t hash = 0;
};

inline Index item_bytes(const PlanData& data, std::size_t tensor) {
  return static_cast<Index>(bytes_of(dtype_of(data.passes.tensors[tensor], data.dtype)));
}

// Of the seconds in which the ranks compute, the share that is estimated (PredictedRank). Not known: nothing was predicted.
inline std::optional<double> estimated_share(const PlanData& data) {
  double all = 0, estimated = 0;
  for (const PredictedRank& r : data.predicted) {
    all += r.seconds;
    estimated += r.estimated_seconds;
  }
  if (!data.step_seconds) return std::nullopt;
  return all > 0 ? estimated / all : 0;
}

// Whether, by the prediction, no rank needs more memory than it has.
inline bool fits(const PlanData& data) {
  for (std::size_t r = 0; r < data.memory_bytes.size(); r++)
    if (data.memory_bytes[r] > 0 && data.predicted[r].memory_bytes > data.memory_bytes[r]) return false;
  return true;
}

// Whether kernels may run during a message from one rank to the other; on one host the ranks' own cores do the copying.
inline bool is_far(const PlanData& data, int from, int to) {
  const auto a = static_cast<std::size_t>(from), b = static_cast<std::size_t>(to);
  return data.on_device[a] || data.on_device[b] || (!data.hosts.empty() && data.hosts[a] != data.hosts[b]);
}

}  // namespace motley
