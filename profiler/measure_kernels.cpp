// SPDX-License-Identifier: Apache-2.0
#include "profiler/measure_kernels.h"

#include <motley/error.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>
#include <unordered_map>

#include "base/core_use.h"
#include "base/files.h"
#include "base/json.h"
#include "base/quantile.h"
#include "profiler/halved.h"
#include "profiler/operand_memory.h"
#include "profiler/run_clock.h"
#include "profiler/steady.h"

namespace motley {

namespace {

constexpr int kTries = 4;                             // attempts at a run that loses its core
constexpr double kTold = 0.1;                         // of the budget: after that the first runs show how long all runs will take
constexpr double kShortest = 20e-6;                   // seconds in one timing; the clock costs about 50 ns
constexpr double kShortestOnDevice = 500e-6;          // a mark's clock steps by about 0.5 us
constexpr int kFirstRuns = 3;                         // of each of several implementations: the fastest counts
constexpr double kOutOfRace = 2;                      // an implementation so many times slower than another is no longer timed
constexpr double kSteady = 0.02, kLongestWarmUp = 2;  // seconds; at most a twentieth of the budget

// One of the implementations of a spec.
struct TimedChoice {
  std::size_t spec = 0;  // index into the specs
  int choices = 1;       // implementations of the spec
  std::unique_ptr<Kernel> kernel{};
  double first = 0;  // seconds of the run after the very first
  int repeats = 1;
  std::vector<double> wall{};
};

// How long kernels take relative to each other, before they are timed: a byte counts as 50 flops, as in plans without a
// profile.
double effort(const KernelSpec& spec) {
  return flops(spec) + 50 * static_cast<double>(bytes_touched(spec));
}

double quartile(std::vector<double> v, int of_four) {
  return quantile(v, of_four / 4.0);
}

class KernelMeasurer {
 public:
  KernelMeasurer(Backend& backend, int device, std::span<const KernelSpec> specs, const KernelTimingOptions& options)
      : backend_(backend), device_(device), options_(options), random_(options.seed), queue_(backend.device_memory()) {
    if (queue_ != nullptr) {
      begin_ = queue_->make_mark();
      end_ = queue_->make_mark();
    }
    std::unordered_map<std::size_t, std::vector<const KernelSpec*>> seen;
    for (const KernelSpec& spec : specs) {
      auto& same = seen[hash_of(spec)];
      if (std::any_of(same.begin(), same.end(), [&](const KernelSpec* s) { return *s == spec; })) continue;
      same.push_back(&spec);
      specs_.push_back(spec);
    }
    timed_ = specs_;
  }

  Measurement run(const RoundBarrier& barrier) {
    auto agreed = [&](Wish mine) { return barrier ? barrier(mine) : mine; };
    const bool touched = compile_and_touch();
    Wish wish = agreed(touched && needed() <= options_.budget_seconds ? Wish::more : Wish::too_slow);
    rounds_start_ = seconds_now();
    double paused = 0;
    while (wish == Wish::more) {
      paused += pause_until(rounds_start_ + rounds_ * options_.spread_seconds / std::max(1, rounds_that_fit()));
      const double began = seconds_now();
      const std::size_t runs = runs_.size();
      const CoreUse cores(options_.cores);
      round();
      const bool disturbed = has_patience(began) && cores.others_share().value_or(0) > kDisturbed;
      rounds_++;
      per_round_ = (seconds_now() - rounds_start_ - paused) / rounds_;
      wish = agreed(disturbed ? Wish::again : next_wish());
      if (wish != Wish::again) continue;
      if (options_.progress) options_.progress({.waits = true});
      do {
        wish = agreed(has_patience(began) && others_use(options_.cores) ? Wish::again : Wish::more);
      } while (wish == Wish::again);
      take_back_round(runs);
      const double lost = seconds_now() - began;
      paused += lost;
      waited_ += lost;
    }
    return result(wish != Wish::too_slow);
  }

 private:
  // False: by the first runs, not all kernels fit the budget.
  bool compile_and_touch() {
    compile_all();
    memory_.wander(static_cast<std::size_t>(step_bytes()));
    memory_.allocate(queue_);
    const double compiled = seconds_now() - start_;
    double work = 0, all = 0;
    for (const TimedChoice& s : subjects_) all += effort(timed_[s.spec]);
    for (TimedChoice& s : subjects_) {
      once(s);  // first touch, packing
      s.first = first_seconds(s);
      first_sum_ += s.first;
      work += effort(timed_[s.spec]);
      const double elapsed = seconds_now() - start_, rest = all / std::max(work, 1.0);
      if (elapsed > options_.budget_seconds * kTold && &s != &subjects_.back()) {
        setup_ = compiled + (elapsed - compiled) * rest;
        per_round_ = 2 * first_sum_ * rest;
        if (needed() > options_.budget_seconds) return false;
      }
      report(0);
    }
    drop_slow();
    for (TimedChoice& s : subjects_)
      s.repeats = static_cast<int>(std::ceil((queue_ == nullptr ? kShortest : kShortestOnDevice) / std::max(s.first, 0.1e-6)));
    std::vector<double> firsts;
    for (const TimedChoice& s : subjects_) firsts.push_back(s.first);
    if (!subjects_.empty()) {
      const double middle = quartile(firsts, 2);
      reference_ = static_cast<std::size_t>(std::find(firsts.begin(), firsts.end(), middle) - firsts.begin());
      if (queue_ != nullptr) warm_up(subjects_[reference_]);
    }
    setup_ = seconds_now() - start_;
    per_round_ = 2 * first_sum_;
    return true;
  }

  void compile_all() {
    for (std::size_t i = 0; i < specs_.size(); i++) {
      if (!backend_.supports(specs_[i])) continue;
      bool any = false;
      for (std::optional<KernelSpec> next = specs_[i]; next && !any; next = halved(*next)) {
        timed_[i] = *next;
        any = compile(i);
      }
      left_out_ = left_out_ || !any;
      smaller_ = smaller_ || (any && timed_[i] != specs_[i]);
    }
  }

  // False: there is no memory for this one. A kernel gets half of the limit, since the largest inputs, results and workspace may be
  // those of different kernels.
  bool compile(std::size_t i) {
    const std::size_t most = limit() > 0 ? static_cast<std::size_t>(limit() / 2) : SIZE_MAX,
                      own = OperandMemory::bytes_of(timed_[i]);
    if (own > most || !backend_.supports(timed_[i])) return false;
    std::vector<std::string> names = backend_.implementations(timed_[i]);
    if (names.size() < 2) names = {""};
    const std::size_t before = subjects_.size();
    for (const std::string& name : names) {
      std::unique_ptr<Kernel> kernel = name.empty() ? backend_.compile(timed_[i]) : backend_.compile_as(timed_[i], name);
      const std::size_t workspace = kernel->workspace_bytes();
      report(0);
      if (workspace > most - own) continue;
      memory_.reserve(timed_[i], workspace);
      subjects_.push_back({.spec = i, .choices = static_cast<int>(names.size()), .kernel = std::move(kernel)});
    }
    return subjects_.size() > before;
  }

  double first_seconds(TimedChoice& s) {
    double least = HUGE_VAL;
    for (int i = 0; i < (s.choices > 1 ? kFirstRuns : 1); i++) {
      const double start = seconds_now();
      if (queue_ == nullptr) once(s);
      least = std::min(least, queue_ == nullptr ? seconds_now() - start : on_device(s, 1));
    }
    return least;
  }

  void drop_slow() {
    std::vector<double> fastest(specs_.size(), HUGE_VAL);
    for (const TimedChoice& s : subjects_) fastest[s.spec] = std::min(fastest[s.spec], s.first);
    std::erase_if(subjects_, [&](const TimedChoice& s) { return s.first > kOutOfRace * fastest[s.spec]; });
    first_sum_ = 0;
    for (const TimedChoice& s : subjects_) first_sum_ += s.first;
  }

  Index limit() const { return options_.memory_bytes > 0 ? options_.memory_bytes : backend_.memory_bytes() / 2; }
  Index step_bytes() const { return limit() > 0 ? std::min(options_.step_bytes, limit()) : options_.step_bytes; }

  void once(TimedChoice& s) { s.kernel->run(memory_.operands(timed_[s.spec]), memory_.workspace()); }
  // Operands are determined before the clock starts.
  using Runs = std::vector<std::vector<void*>>;
  Runs runs_of(const TimedChoice& s, int runs) {
    Runs out;
    for (int k = 0; k < runs; k++) out.push_back(memory_.operands(timed_[s.spec]));
    return out;
  }
  void run(TimedChoice& s, const Runs& runs) {
    for (const std::vector<void*>& operands : runs) s.kernel->run(operands, memory_.workspace());
  }

  // Seconds on the device, measured by marks around the runs.
  double on_device(TimedChoice& s, int times) {
    const Runs runs = runs_of(s, times);
    begin_->set(DeviceMemory::Queue::compute);
    run(s, runs);
    end_->set(DeviceMemory::Queue::compute);
    while (!end_->passed()) std::this_thread::yield();
    return end_->seconds_since(*begin_);
  }

  // Runs until the device's clock is steady: three consecutive times are equal.
  void warm_up(TimedChoice& s) {
    const double start = seconds_now();
    double before = 0;
    for (int steady = 0; steady < 3 && seconds_now() - start < std::min(kLongestWarmUp, options_.budget_seconds / 20);) {
      const double now = on_device(s, s.repeats * 20);
      steady = std::abs(now - before) <= kSteady * now ? steady + 1 : 0;
      before = now;
    }
  }

  // The first run that kept its core; if kTries runs all lost it, the fastest of them.
  double timed(TimedChoice& s) {
    if (queue_ != nullptr) {
      once(s);
      return on_device(s, s.repeats) / s.repeats;
    }
    double least = HUGE_VAL;
    for (int i = 0; i < kTries; i++) {
      once(s);
      const Runs runs = runs_of(s, s.repeats);
      const RunClock clock;
      run(s, runs);
      const RunTime took = clock.stop();
      wall_sum_ += took.wall;
      cpu_sum_ += took.cpu;
      if (!took.lost_core) return took.wall / s.repeats;
      least = std::min(least, took.wall / s.repeats);
    }
    return least;
  }

  void round() {
    if (subjects_.empty()) return;
    double fastest = HUGE_VAL;
    for (int i = 0; i < 3; i++) fastest = std::min(fastest, timed(subjects_[reference_]));
    reference_rounds_.push_back(fastest);
    std::vector<std::size_t> order(subjects_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    int done = 0;
    for (std::size_t i : order) {
      subjects_[i].wall.push_back(timed(subjects_[i]));
      runs_.push_back({i, subjects_[i].wall.back()});
      report(++done);
    }
  }

  // Seconds that it has waited.
  static double pause_until(double moment) {
    const double pause = moment - seconds_now();
    if (pause <= 0) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    return pause;
  }

  bool has_patience(double since) const { return waited_ + seconds_now() - since < options_.patience_seconds; }
  // The last round, whose runs begin with this one, does not count.
  void take_back_round(std::size_t first) {
    rounds_--;
    for (std::size_t i = first; i < runs_.size(); i++) subjects_[runs_[i].kernel].wall.pop_back();
    runs_.resize(first);
    if (!subjects_.empty()) reference_rounds_.pop_back();
  }

  double needed() const { return setup_ + options_.least_rounds * per_round_; }
  int rounds_that_fit() const {
    const double left = options_.budget_seconds - setup_;
    return std::clamp(static_cast<int>(left / std::max(per_round_, 1e-9)), options_.least_rounds,
                      std::max(options_.least_rounds, options_.most_rounds));
  }
  bool settled() const {
    return rounds_ >= std::max(5, options_.least_rounds) &&
           std::all_of(subjects_.begin(), subjects_.end(), [&](const TimedChoice& s) {
             const double least = quartile(s.wall, 0);
             return quartile(s.wall, 1) - least <= options_.settled * least;
           });
  }
  Wish next_wish() const {
    if (subjects_.empty()) return Wish::enough;
    if (rounds_ < options_.least_rounds) return needed() > options_.budget_seconds ? Wish::too_slow : Wish::more;
    const bool spread = seconds_now() - rounds_start_ >= options_.spread_seconds;
    return rounds_ < rounds_that_fit() && !(spread && settled()) ? Wish::more : Wish::enough;
  }

  void report(int done_in_round) {
    const double now = seconds_now();
    if (!options_.progress || now - reported_ < 0.25) return;
    reported_ = now;
    const int count = static_cast<int>(subjects_.size()),
              total = count * (per_round_ > 0 ? rounds_that_fit() : options_.most_rounds);
    const int done = std::min(total, rounds_ * count + done_in_round);
    MeasureProgress progress{done, total};
    if (per_round_ > 0) progress.seconds_left = per_round_ * (total - done) / count;
    options_.progress(progress);
  }

  // The point of a smaller kernel becomes that of this one.
  void scale(KernelPoint& point, const KernelSpec& to) const {
    const double times = flops(to) / std::max(flops(point.spec), 1.0);
    for (double* seconds : {&point.seconds.min, &point.seconds.q25, &point.seconds.median}) *seconds *= times;
    point.spec = to;
    point.choices = 1;  // another size may have another fastest implementation
    point.workspace_bytes = static_cast<Index>(backend_.compile(to)->workspace_bytes());
  }

  Measurement result(bool fits) const {
    Measurement out{.fits = fits, .needed_seconds = needed(), .rounds = rounds_, .waited_seconds = waited_};
    if (!fits) return out;
    const Steadied steady = without_drift(runs_);
    out.slow = steady.slow;
    out.fast = steady.fast;
    std::vector<std::vector<double>> seconds(subjects_.size());
    for (std::size_t i = 0; i < runs_.size(); i++) seconds[runs_[i].kernel].push_back(steady.seconds[i]);
    std::vector<std::size_t> fastest(specs_.size(), subjects_.size());
    for (std::size_t s = 0; s < subjects_.size(); s++)
      if (std::size_t& best = fastest[subjects_[s].spec];
          best == subjects_.size() || quartile(seconds[s], 2) < quartile(seconds[best], 2))
        best = s;
    for (std::size_t i = 0; i < fastest.size(); i++) {
      const std::size_t s = fastest[i];
      if (s == subjects_.size()) {
        if (!backend_.supports(specs_[i])) out.points.push_back({.device = device_, .spec = specs_[i], .supported = false});
        continue;
      }
      out.points.push_back(
          {device_,
           timed_[i],
           {quartile(seconds[s], 0), quartile(seconds[s], 1), quartile(seconds[s], 2), static_cast<int>(seconds[s].size())},
           subjects_[s].kernel->implementation(),
           subjects_[s].choices,
           static_cast<Index>(subjects_[s].kernel->workspace_bytes())});
      if (timed_[i] != specs_[i]) scale(out.points.back(), specs_[i]);
    }
    const std::string who = "device " + std::to_string(device_) + ": ";
    const std::string small = " of more than " + std::to_string(limit() / 2) + " bytes, a quarter of the memory";
    if (smaller_) out.notes.push_back(who + "scaled: of kernels" + small + ", a part of the samples or filters was timed");
    if (left_out_) out.notes.push_back(who + "not timed: kernels whose smallest part is" + small);
    if (subjects_.empty()) return out;
    const auto [low, high] = std::minmax_element(reference_rounds_.begin(), reference_rounds_.end());
    out.drift = *high / *low - 1;
    if (queue_ == nullptr) out.wall_over_cpu = wall_sum_ / std::max(cpu_sum_, 1e-9);
    auto percent = [](double v) { return std::to_string(std::lround(v * 100)) + " %"; };
    if (const std::string condition = backend_.condition(); !condition.empty())
      out.notes.push_back(who + "after measuring: " + condition);
    if (out.wall_over_cpu > 1.1)
      out.notes.push_back(who + "contended: kernels waited for a core " + percent(1 - 1 / out.wall_over_cpu) + " of the time");
    if (out.drift > 0.1)
      out.notes.push_back(who + "drifting: one kernel's time moved by " + percent(out.drift) + " between rounds");
    return out;
  }

  Backend& backend_;
  int device_;
  const KernelTimingOptions& options_;
  std::mt19937_64 random_;
  std::vector<KernelSpec> specs_{}, timed_{};  // timed_: smaller ones, where the memory does not suffice
  bool smaller_ = false, left_out_ = false;    // some of them
  std::vector<TimedChoice> subjects_{};
  OperandMemory memory_{};
  std::size_t reference_ = 0;  // runs in every round: its times show drift
  std::vector<double> reference_rounds_{};
  std::vector<TimedRun> runs_{};  // of all rounds, in their order
  double start_ = seconds_now(), rounds_start_ = 0, reported_ = 0;
  double setup_ = 0, first_sum_ = 0, per_round_ = 0;  // seconds
  double wall_sum_ = 0, cpu_sum_ = 0, waited_ = 0;
  int rounds_ = 0;
  DeviceMemory* queue_;  // null: kernels have finished when run() returns
  std::unique_ptr<DeviceMemory::Mark> begin_{}, end_{};
};

}  // namespace

Measurement measure_kernels(Backend& backend, int device, std::span<const KernelSpec> specs, const KernelTimingOptions& options,
                            const RoundBarrier& barrier) {
  return KernelMeasurer(backend, device, specs, options).run(barrier);
}

DeviceFacts facts_of(const Device& device, const Backend& backend) {
  return {device.name, to_string(device.kind), backend.model(), backend.isa(), backend.library(), device.host, backend.threads()};
}

void require_profile_place(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored) || std::filesystem::file_size(file, ignored) == 0) return;
  Complaints complaints;
  const std::optional<Json> json = read_json(file.string(), read_file(file.string()), complaints, kByMotley);
  if (!json || json->find("kernels") == nullptr)
    throw UserError(file.string() + " exists and is not a profile; remove it, or give another name for the profile");
}

void check_device_count(const Profile& profile, int ranks, const std::string& profile_name) {
  if (static_cast<int>(profile.devices.size()) != ranks)
    throw UserError(profile_name + " is a profile of " + std::to_string(profile.devices.size()) + " devices, the mesh has " +
                    std::to_string(ranks) + "; measure again (\"measure\": \"always\") or name another file");
}

std::string missing_profile(const std::string& file) {
  if (file.empty())
    return "no profile is kept here (neither XDG_CACHE_HOME nor HOME names a directory), and \"measure\" is \"never\"; name a file "
           "in "
           "profile.path";
  return "no profile " + file + ", and \"measure\" is \"never\"; run `motley profile JOB -o " + file +
         "` or let \"measure\" be \"if_missing\"";
}

void check_same_device(const DeviceFacts& profiled, const DeviceFacts& here, const std::string& profile_name) {
  auto differ = [&](const char* what, const std::string& then, const std::string& now) {
    if (then != now)
      throw UserError(profile_name + ": measured on another device: \"" + here.name + "\" has " + what + " \"" + now +
                      "\", the profile \"" + then + "\"; measure again (motley profile, or \"measure\": \"always\")");
  };
  differ("kind", profiled.kind, here.kind);
  differ("model", profiled.model, here.model);
  differ("isa", profiled.isa, here.isa);
  differ("threads", std::to_string(profiled.threads), std::to_string(here.threads));
  differ("library", profiled.library, here.library);
}

}  // namespace motley
