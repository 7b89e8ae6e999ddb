// SPDX-License-Identifier: Apache-2.0
// Measures what kernels take on this rank's device. The ranks of one host measure at the same time: they share its memory.
#pragma once
#include <motley/backend.h>
#include <motley/profile.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace motley {

struct MeasureProgress {
  int done = 0, total = 0;  // timed runs; the total shrinks when the times have settled
  double seconds_left = 0;
};

// What a rank wishes after a round; the greatest wish of all ranks is what happens.
enum class Wish : int { enough, more, too_slow };
// Collective: called before the first round and after each, returns the greatest of all ranks' wishes.
using RoundBarrier = std::function<Wish(Wish mine)>;

struct KernelTimingOptions {
  double budget_seconds = 60;
  int least_rounds = 3, most_rounds = 25;
  double settled = 0.03;   // stop (after five rounds) when every (q25 - min) / min is at most this
  std::uint64_t seed = 1;  // of the rounds' orders
  Index memory_bytes = 0;  // most for operands and workspaces; 0: half of the device's
  Index step_bytes = 0;    // memory of the step whose kernels these are: operands wander through so much of it
  std::function<void(const MeasureProgress&)> progress{};  // between kernels, at most four times a second
};

struct Measurement {
  // One per different spec, in the order given, of its fastest implementation; without seconds where the device does not support
  // it. Empty when it does not fit the budget.
  std::vector<KernelPoint> points{};
  bool fits = true;           // false: least_rounds take needed_seconds, more than the budget (a smaller batch takes less)
  double needed_seconds = 0;  // for least_rounds, compilation included
  int rounds = 0;
  double drift = 0;                  // the reference kernel's slowest round over its fastest, minus 1
  double slow = 1, fast = 1;         // quartiles of the machine's speed meanwhile: what kernels took beside what they usually take
  double wall_over_cpu = 1;          // above 1.1: somebody else used this rank's cores
  std::vector<std::string> notes{};  // "contended ...", "drifting ...": for Profile::notes
};

// Every kernel is compiled, first touched and run untimed outside the timing; then rounds in shuffled order, each kernel once
// untimed and once timed (kernels below 20 us several times within one timing). seconds are wall time, without the machine's own
// changes of speed (steady.h). Operands are stored in
// memory that all kernels share, those of each run after those of the one before: inputs hold normal numbers and are never results.
// Where the device has a choice of implementations each is timed, but for those that take twice as long as another from the start.
// UserError: the operands of one kernel are larger than the memory.
Measurement measure_kernels(Backend& backend, int device, std::span<const KernelSpec> specs,
                            const KernelTimingOptions& options = {}, const RoundBarrier& barrier = {});

// What is written into a profile of this device, and the refusal of a profile of another one (names may differ). UserError.
DeviceFacts facts_of(const Device& device, const Backend& backend);
std::string missing_profile(const std::string& file);  // the sentence of who may not measure it
void check_same_device(const DeviceFacts& profiled, const DeviceFacts& here, const std::string& profile_name);

}  // namespace motley
