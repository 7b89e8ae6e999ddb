// SPDX-License-Identifier: Apache-2.0
// Measures kernel times on this rank's device. The ranks of one host measure at the same time: they share its memory.
#pragma once
#include <motley/backend.h>
#include <motley/profile.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace motley {

struct MeasureProgress {
  int done = 0, total = 0;               // timed runs; the total shrinks when the times have settled
  std::optional<double> seconds_left{};  // none before the first runs
  bool waits = false;                    // for other processes to leave the cores
};

// What a rank requests after a round; the greatest request of all ranks is carried out. again: other processes disturbed this
// round, which counts on no rank; there is another one when they have left this rank's cores.
enum class Wish : int { enough, more, again, too_slow };
// Collective: called before the first round and after each, returns the greatest of all ranks' requests.
using RoundBarrier = std::function<Wish(Wish mine)>;

struct KernelTimingOptions {
  double budget_seconds = 60;
  int least_rounds = 3, most_rounds = 25;
  double settled = 0.03;      // stop (after five rounds) when every (q25 - min) / min is at most this
  std::uint64_t seed = 1;     // for the order of kernels in each round
  Index memory_bytes = 0;     // limit of operands and workspaces; 0: half of the device's
  Index step_bytes = 0;       // memory of the step that has these kernels: operands move through so much of it
  double spread_seconds = 0;  // rounds are spread over so long at least: interference comes and goes in seconds
  // So long, beside the budget, rounds that other processes disturb are made again and their end is waited for; then every round
  // counts. 0 where ranks of one host share cores: each would take the others for such processes.
  double patience_seconds = 0;
  std::vector<int> cores{};                                // that this process may use
  std::function<void(const MeasureProgress&)> progress{};  // between kernels, at most four times a second
};

struct Measurement {
  // One per distinct spec, in the order given, for its fastest implementation; without seconds if the device does not support the
  // spec; none if it is too large for the memory. Empty if the kernels do not fit the budget.
  std::vector<KernelPoint> points{};
  bool fits = true;           // false: least_rounds take needed_seconds, more than the budget (a smaller batch takes less)
  double needed_seconds = 0;  // for least_rounds, including compilation
  int rounds = 0;
  double waited_seconds = 0;         // of the patience: disturbed rounds, and waiting
  double drift = 0;                  // the reference kernel's slowest round over its fastest, minus 1
  double slow = 1, fast = 1;         // quartiles, over the measurement, of kernel seconds relative to their usual seconds
  double wall_over_cpu = 1;          // above 1.1: other processes used this rank's cores
  std::vector<std::string> notes{};  // "contended ...", "drifting ...": for Profile::notes
};

// Every kernel is compiled, first touched and run once outside the timing; then come rounds in shuffled order, each kernel once
// untimed and once timed (kernels below 20 us several times within one timing). seconds are wall time, corrected for interference
// (steady.h). Operands are stored in memory that all kernels share, each run's after those of the previous run:
// inputs hold normal numbers and are never results. If the device has a choice of implementations each is timed, except those that
// take twice as long as another from the start. Instead of a kernel that is larger than half of the memory a smaller one is timed,
// and its seconds are multiplied; a note says so.
Measurement measure_kernels(Backend& backend, int device, std::span<const KernelSpec> specs,
                            const KernelTimingOptions& options = {}, const RoundBarrier& barrier = {});

// The facts that are written into a profile of this device, and by which a profile of another device is refused (names may differ).
// UserError.
DeviceFacts facts_of(const Device& device, const Backend& backend);
std::string missing_profile(const std::string& file);  // the sentence for a command that may not measure it
// UserError: there is a file with this name that is not a profile and would be overwritten by one.
void require_profile_place(const std::filesystem::path& file);
void check_device_count(const Profile& profile, int ranks, const std::string& profile_name);
void check_same_device(const DeviceFacts& profiled, const DeviceFacts& here, const std::string& profile_name);

}  // namespace motley
