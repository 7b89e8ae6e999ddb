// SPDX-License-Identifier: Apache-2.0
#include "run/kernel_timer.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/at.h"
#include "kernels/operands.h"
#include "mesh/control.h"
#include "run/start.h"

namespace motley {

namespace {

constexpr double kLeast = 0.05;                                               // of the budget: the least for each measurement
constexpr int kMostTimerRounds = 25, kMostScale = 3, kRunsOfThreeRounds = 8;  // including those that touch and warm up
constexpr std::size_t kMostAnchors = 8;
constexpr double kSpread = 1.0 / 6, kSpreadSeconds = 10;  // of the budget, and at most
constexpr double kPatience = 6;                           // times the spread: for the whole profile
constexpr int kTurnsAlone = 3;
constexpr double kPatienceAlone = 5;  // seconds: the other ranks wait
constexpr double kFaster = 1.02;      // anchors' earlier seconds over those now, beyond which the earlier measurement was disturbed

bool has(const std::vector<KernelSpec>& list, const KernelSpec& spec) {
  return std::find(list.begin(), list.end(), spec) != list.end();
}

using Same = bool (*)(const KernelSpec&, const KernelSpec&);
bool same_pass(const KernelSpec& a, const KernelSpec& b) {
  return a.op == b.op && a.pass == b.pass;
}
// A larger batch is as many times slower: what a kernel does once for its weights must have the same proportion to what it does per
// sample.
bool scale_alike(const KernelSpec& a, const KernelSpec& b) {
  return same_pass(a, b) && a.roles.p * a.roles.q == b.roles.p * b.roles.q;
}

// "device 0: drifting" for "device 0: drifting: one kernel's ...": the last note of each kind is kept.
std::string kind_of_note(const std::string& note) {
  return note.starts_with("device ") ? note.substr(0, note.find(':', note.find(':') + 1)) : note;
}

// How many times as many samples.
double samples_over(const KernelSpec& full, const KernelSpec& smaller) {
  return smaller.roles.n > 0 ? static_cast<double>(full.roles.n) / static_cast<double>(smaller.roles.n) : 1.0;  // 0: a map
}

double seconds_of(const std::vector<KernelPoint>& points, const KernelSpec& spec) {
  const auto found = std::find_if(points.begin(), points.end(), [&](const KernelPoint& p) { return p.spec == spec; });
  return found == points.end() ? 0 : found->seconds.typical();
}

// Positions of the largest kernel, by flops, of each kind.
std::vector<std::size_t> largest_of(const std::vector<KernelSpec>& specs, Same same_kind) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < specs.size(); i++) {
    const auto same = std::find_if(out.begin(), out.end(), [&](std::size_t k) { return same_kind(specs[k], specs[i]); });
    if (same == out.end())
      out.push_back(i);
    else if (flops(specs[i]) > flops(specs[*same]))
      *same = i;
  }
  return out;
}

// The ratio of the anchors' usual times then to those now.
double speed_since(const Profile& profile, const std::vector<KernelSpec>& anchors, const Measurement& made) {
  std::vector<double> ratios;
  for (const KernelPoint& p : made.points)
    if (has(anchors, p.spec) && p.seconds.typical() > 0)
      ratios.push_back(profile.seconds(p.device, p.spec).seconds / p.seconds.typical());
  if (ratios.empty()) return 1;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}
void multiply(Spread& seconds, double by) {
  seconds.min *= by;
  seconds.q25 *= by;
  seconds.median *= by;
}

}  // namespace

void KernelTimer::say(const std::string& line) const {
  if (rt_.rank() == 0 && options_.progress) options_.progress(line);
}

// Of rank 0; if it has nothing to measure, of the rank that has most. Collective.
void KernelTimer::say_what_is_measured(Index kernels, double budget) {
  const std::vector<Index> all = control::all_of(rt_.transport(), kernels);
  const auto rank = all.front() > 0 ? all.begin() : std::max_element(all.begin(), all.end());
  say(fmt::format("measuring {} kernel{} on rank {} (budget {:.0f} s){}", *rank, *rank == 1 ? "" : "s", rank - all.begin(),
                  std::ceil(budget), rank == all.begin() ? "" : "; rank 0 has none to measure"));
}

// A barrier by which all ranks go on to a next round, or none does.
RoundBarrier KernelTimer::together() {
  return [this](Wish mine) { return static_cast<Wish>(agree(rt_.transport(), static_cast<int>(mine)).status); };
}

// Seconds over which the first measurement of a profile is spread at least; $MOTLEY_SPREAD_SECONDS: for tests.
double KernelTimer::spread() const {
  if (const char* given = std::getenv("MOTLEY_SPREAD_SECONDS"); given != nullptr) return std::atof(given);
  return backend_.device_memory() != nullptr ? 0 : std::min(options_.budget_seconds * kSpread, kSpreadSeconds);
}

// Seconds that are left to wait for other processes.
double KernelTimer::patience() const {
  return own_cores_ && backend_.device_memory() == nullptr ? std::max(0.0, spread() * kPatience - waited_) : 0;
}

Measurement KernelTimer::with_wait_counted(Measurement made) {
  waited_ += made.waited_seconds;
  return made;
}

Measurement KernelTimer::measured(const std::vector<KernelSpec>& specs, double budget, int most_rounds, double spread_seconds) {
  KernelTimingOptions o;
  o.spread_seconds = spread_seconds;
  o.patience_seconds = patience();
  o.cores = allowed_cores();
  o.budget_seconds = budget;
  o.least_rounds = std::min(o.least_rounds, most_rounds);
  o.most_rounds = most_rounds;
  o.step_bytes = step_bytes;
  o.progress = [&](const MeasureProgress& p) {
    if (p.waits) return say(kWaitsForOthers);
    if (p.total == 0) return;
    say(fmt::format("measured {} of {} kernel runs{}", p.done, p.total,
                    p.seconds_left ? fmt::format(", about {:.0f} s left", *p.seconds_left) : ""));
  };
  return with_wait_counted(measure_kernels(backend_, rt_.rank(), specs, o, together()));
}

// Of the kernels that take at most a two-hundredth of the budget. Chosen by flops: the one that took longest may just have been
// disturbed.
std::vector<KernelSpec> KernelTimer::own_largest(const Profile& profile) const {
  std::vector<KernelSpec> specs, out;
  for (const KernelPoint& p : profile.kernels())
    if (p.device == rt_.rank() && p.supported && p.seconds.median <= options_.budget_seconds / 200 && p.spec.op != KernelOp::map)
      specs.push_back(p.spec);
  for (std::size_t i : largest_of(specs, same_pass)) out.push_back(specs[i]);
  return out;
}

// Kernels that were measured before, timed again together with new ones: they show how the machine's speed has changed since.
std::vector<KernelSpec> KernelTimer::anchors(const Profile& profile) const {
  std::vector<KernelSpec> out = own_largest(profile);
  if (out.size() > kMostAnchors) out.resize(kMostAnchors);
  return out;
}

bool KernelTimer::measure(Profile& profile, const std::vector<KernelSpec>& specs, double share, bool required) {
  const double least = options_.budget_seconds * kLeast, until = seconds() + share * (options_.budget_seconds - seconds());
  auto budget = [&] { return std::max(until - seconds(), least); };
  say_what_is_measured(static_cast<Index>(specs.size()), budget());
  const std::vector<KernelSpec> again = specs.empty() ? specs : anchors(profile);
  std::vector<KernelSpec> tried = specs;
  for (const KernelSpec& a : again)
    if (!has(tried, a)) tried.push_back(a);
  Measurement made;
  double before = 1;       // by which this device's earlier points are multiplied
  for (int scale = 0;;) {  // the batch is divided by 4 to that power
    const double allowed = required && scale == kMostScale ? std::max(budget(), options_.budget_seconds) : budget();
    made = measured(tried, allowed, kMostTimerRounds, required ? spread() : 0);
    const double over = std::log(made.needed_seconds / allowed) / std::log(4.0);
    const int more = agree(rt_.transport(), made.fits ? 0 : std::clamp(static_cast<int>(std::ceil(over)), 1, kMostScale)).status;
    if (more == 0) {
      if (scale == 0) {
        const double by = speed_since(profile, again, made);
        std::erase_if(made.points, [&](const KernelPoint& p) { return !has(specs, p.spec); });
        // Interference only slows down: of the two measurements the faster one had the quieter machine.
        if (by > kFaster)
          before = 1 / by;
        else
          for (KernelPoint& p : made.points) multiply(p.seconds, by);
        break;
      }
      rescale(made, specs, tried, budget());
      made.notes.push_back("batch scaled by 1/" + std::to_string(1 << (2 * scale)) +
                           ", the largest kernel of each op, pass and output size checked at the full batch");
      break;
    }
    needed_seconds_ = made.needed_seconds;
    if (scale == kMostScale) return false;
    scale = std::min(scale + more, kMostScale);
    tried = specs;
    for (KernelSpec& s : tried)
      if (s.op != KernelOp::map) s.roles.n = std::max<Index>(1, s.roles.n >> (2 * scale));
  }
  const std::vector<double> factors = control::all_of(rt_.transport(), before);
  for (std::size_t r = 0; r < factors.size(); r++)
    if (factors[r] != 1) profile.scale(static_cast<int>(r), factors[r]);
  merge(profile, made);
  return true;
}

void KernelTimer::refuse_budget() const {
  const std::vector<double> needed = control::all_of(rt_.transport(), needed_seconds_);
  const auto most = std::max_element(needed.begin(), needed.end());
  throw UserError(fmt::format(
      "the kernels of this job do not fit a budget of {:g} s (three rounds on rank {} need {:.0f} s); raise --budget-seconds or "
      "use a smaller batch",
      options_.budget_seconds, most - needed.begin(), std::ceil(*most)));
}

// Times the same kernels in the same way, on all ranks at once and then on each rank in turn.
void KernelTimer::measure_alone(Profile& profile) {
  if (rt_.ranks() == 1) return;
  rt_.phase("measuring each rank alone");
  const std::vector<KernelSpec> specs = own_largest(profile);
  // Per kernel the least of all turns: what disturbs the machine makes kernels slower, for seconds at a time.
  const auto time = [&](const RoundBarrier& barrier, double patience, std::vector<double>& least) {
    const Measurement made = with_wait_counted(measure_kernels(backend_, rt_.rank(), specs,
                                                               {.budget_seconds = options_.budget_seconds / 30,
                                                                .most_rounds = 5,
                                                                .step_bytes = step_bytes,
                                                                .patience_seconds = std::min(patience, kPatienceAlone),
                                                                .cores = allowed_cores()},
                                                               barrier));
    for (std::size_t i = 0; i < specs.size(); i++)
      for (const KernelPoint& p : made.points)
        if (p.spec == specs[i]) least[i] = std::min(least[i], p.seconds.typical());
  };
  std::vector<double> shared(specs.size(), HUGE_VAL), alone(specs.size(), HUGE_VAL);
  for (int turn = 0; turn < kTurnsAlone; turn++) {  // together, alone, together, alone ...
    time(together(), patience(), shared);
    const double left = patience();
    for (int r = 0; r < rt_.ranks(); r++) {
      if (r == rt_.rank()) time({}, left, alone);
      agree(rt_.transport(), 0);
    }
  }
  double of_shared = 0, of_alone = 0;
  for (std::size_t i = 0; i < specs.size(); i++) {
    if (!std::isfinite(shared[i]) || !std::isfinite(alone[i])) continue;
    of_shared += shared[i];
    of_alone += alone[i];
  }
  const std::vector<double> all =
      control::all_of(rt_.transport(), of_shared > 0 && of_alone > 0 ? std::clamp(of_alone / of_shared, 0.1, 1.0) : 1);
  for (std::size_t r = 0; r < all.size(); r++) profile.devices[r].alone_over_shared = all[r];
}

// The largest kernel of each kind is timed at the full batch.
void KernelTimer::rescale(Measurement& made, const std::vector<KernelSpec>& full, const std::vector<KernelSpec>& smaller,
                          double budget) {
  std::vector<KernelSpec> checks;
  double once = 0;
  for (std::size_t i : largest_of(full, scale_alike)) {
    checks.push_back(full[i]);
    once += seconds_of(made.points, smaller[i]) * samples_over(full[i], smaller[i]);
  }
  made.points =
      at_full_batch(made.points, smaller, full, measured(checks, 1e6, kRunsOfThreeRounds * once <= budget ? 3 : 1).points);
  for (KernelPoint& p : made.points)
    if (p.supported) p.workspace_bytes = static_cast<Index>(backend_.compile(p.spec)->workspace_bytes());
}

std::vector<KernelPoint> at_full_batch(const std::vector<KernelPoint>& made, const std::vector<KernelSpec>& smaller,
                                       const std::vector<KernelSpec>& full, const std::vector<KernelPoint>& checks) {
  std::vector<KernelPoint> out;
  for (std::size_t i = 0; i < full.size(); i++) {
    double beyond = 1;
    for (const KernelPoint& check : checks) {
      if (!scale_alike(check.spec, full[i])) continue;
      const auto its = static_cast<std::size_t>(std::find(full.begin(), full.end(), check.spec) - full.begin());
      const double expected = seconds_of(made, at(smaller, its)) * samples_over(check.spec, at(smaller, its));
      if (expected > 0 && check.seconds.typical() > 0) beyond = check.seconds.typical() / expected;
    }
    for (KernelPoint p : made)
      if (p.spec == smaller[i]) {
        p.spec = full[i];
        p.choices = 1;  // another batch may have another fastest implementation
        multiply(p.seconds, samples_over(full[i], smaller[i]) * beyond);
        out.push_back(std::move(p));
        break;
      }
  }
  return out;
}

// Every rank receives every rank's points, in rank order.
void KernelTimer::merge(Profile& profile, const Measurement& made) {
  Profile mine;
  mine.devices = profile.devices;
  mine.notes = made.notes;
  DeviceFacts& me = at(mine.devices, rt_.rank());
  me.slow = made.slow;  // the greatest of all measurements is kept, below
  me.fast = made.fast;
  for (const KernelPoint& p : made.points) mine.add(p);
  const std::string text = mine.json();
  for (const auto& bytes : rt_.transport().gather_all(std::as_bytes(std::span(text)))) {
    const Profile one = Profile::parse("rank", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    for (const KernelPoint& p : one.kernels()) profile.add(p);
    for (std::size_t r = 0; r < profile.devices.size(); r++) {
      profile.devices[r].slow = std::max(profile.devices[r].slow, one.devices[r].slow);
      profile.devices[r].fast = std::min(profile.devices[r].fast, one.devices[r].fast);
    }
    for (const std::string& n : one.notes) {
      std::erase_if(profile.notes, [&](const std::string& old) { return kind_of_note(old) == kind_of_note(n); });
      profile.notes.push_back(n);
    }
  }
  for (const std::string& n : profile.notes) say("note: " + n);
}

}  // namespace motley
