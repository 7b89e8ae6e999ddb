// SPDX-License-Identifier: Apache-2.0
#include <motley/measure.h>

#include <motley/error.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "balance/candidate_sizes.h"
#include "balance/needed_kernels.h"
#include "base/at.h"
#include "base/json.h"
#include "kernels/operands.h"
#include "mesh/parts.h"
#include "plan/planner.h"
#include "profiler/join.h"
#include "profiler/measure_kernels.h"
#include "program/predict.h"

namespace motley {

namespace {

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Shares of what is left of the budget; each gets so much of the whole at least.
constexpr double kCandidates = 0.7, kOfPlan = 0.6, kChoices = 0.8, kLeast = 0.05;
constexpr int kMostPlans = 5, kMostRounds = 25, kMostScale = 3, kRunsOfThreeRounds = 8;  // with those that touch and warm
constexpr std::size_t kMostAnchors = 8;

bool has(const std::vector<KernelSpec>& list, const KernelSpec& spec) {
  return std::find(list.begin(), list.end(), spec) != list.end();
}

using Alike = bool (*)(const KernelSpec&, const KernelSpec&);
bool same_pass(const KernelSpec& a, const KernelSpec& b) {
  return a.op == b.op && a.pass == b.pass;
}
// A larger batch is as many times slower: what a kernel does once for its weights weighs as much beside what it does per sample.
bool scale_alike(const KernelSpec& a, const KernelSpec& b) {
  return same_pass(a, b) && a.roles.p * a.roles.q == b.roles.p * b.roles.q;
}

// "device 0: drifting" of "device 0: drifting: one kernel's ...": of each kind the last is kept.
std::string kind_of_note(const std::string& note) {
  return note.starts_with("device ") ? note.substr(0, note.find(':', note.find(':') + 1)) : note;
}

// Positions of the largest kernel, by flops, of each kind.
std::vector<std::size_t> largest_of(const std::vector<KernelSpec>& specs, Alike alike) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < specs.size(); i++) {
    const auto same = std::find_if(out.begin(), out.end(), [&](std::size_t k) { return alike(specs[k], specs[i]); });
    if (same == out.end())
      out.push_back(i);
    else if (flops(specs[i]) > flops(specs[*same]))
      *same = i;
  }
  return out;
}

class Measurer {
 public:
  Measurer(Runtime& rt, const Mesh& mesh, const Step& step, const LayoutRules& rules, const MeasureOptions& options)
      : rt_(rt),
        mesh_(mesh),
        step_(step),
        rules_(rules),
        options_(options),
        passes_(passes_for(step, rules)),
        backend_(rt.backend(mesh)) {
    PlanData plan =
        plan_with(passes_, mesh_,
                  with_parts(rules_, mesh_, variables_of(passes_, mesh_, rules_), even_parts(variables_of(passes_, mesh_, rules_))),
                  {}, DType::f32);
    predict(plan, {});
    step_bytes_ = at(plan.predicted, rt_.rank()).memory_bytes;
  }

  Profile run(const std::filesystem::path& file) {
    Profile profile = read(file);
    if (options_.when != Measure::never && complete(profile)) keep(profile, file);
    return profile;
  }

 private:
  // True: something was missing.
  bool complete(Profile& profile) {
    const StopsAtOnce nothing_to_save;
    const bool all_new = profile.devices.empty();
    if (all_new) profile = of_candidates();
    const bool changed = settle(profile, all_new, all_new) || all_new;
    for (int round = 0; changed && round < kMostPlans; round++) {
      const PlanData plan = balance(step_, mesh_, rules_, profile, {.baselines = false}).data();
      const std::vector<KernelSpec> missing = missing_choices(profile, plan);
      if (!anywhere(missing) || !measure(profile, missing, kChoices)) break;
      settle(profile, false, all_new);  // what was timed again may move the cuts, and other kernels run then
    }
    if (all_new) measure_alone(profile);
    return changed;
  }

  void say(const std::string& line) const {
    if (rt_.rank() == 0 && options_.progress) options_.progress(line);
  }

  // Rank 0 reads; every rank gets its text, or its error.
  Profile read(const std::filesystem::path& file) {
    std::string text;
    int status = 0;
    if (rt_.rank() == 0 && options_.when != Measure::always && std::filesystem::exists(file)) text = read_file(file.string());
    if (rt_.rank() == 0 && text.empty() && options_.when == Measure::never) status = static_cast<int>(Exit::missing);
    const Verdict verdict = agree(rt_.transport(), status, missing_profile(file.string()));
    if (verdict.status != 0) throw UserError(verdict.text, Exit::missing);
    text = text_of(rt_.transport().gather_all(bytes_of_text(text)).front());
    if (text.empty()) return {};
    Profile profile = Profile::parse(file.string(), text);
    if (static_cast<int>(profile.devices.size()) != mesh_.ranks())
      throw UserError(file.string() + " is a profile of " + std::to_string(profile.devices.size()) + " devices, the mesh has " +
                      std::to_string(mesh_.ranks()) + "; measure again (\"measure\": \"always\") or name another file");
    std::string wrong;
    try {
      check_same_device(at(profile.devices, rt_.rank()), facts_of(mesh_.device(rt_.rank()), backend_), file.string());
    } catch (const UserError& e) {
      wrong = e.what();
    }
    const Verdict same = agree(rt_.transport(), wrong.empty() ? 0 : static_cast<int>(Exit::config), wrong);
    if (same.status != 0) throw UserError(same.text);
    return profile;
  }

  // Devices, links, and every kernel at the candidates' sizes.
  Profile of_candidates() {
    rt_.phase("measuring the link to the device");
    Profile profile = devices();
    rt_.phase("measuring links");
    if (rt_.ranks() > 1) say("measuring links");
    add_links(profile, backend_, rt_.transport(), options_.budget_seconds);
    const std::vector<KernelSpec> missing = missing_candidates(profile);
    rt_.phase("measuring kernels");
    if (anywhere(missing) && !measure(profile, missing, kCandidates)) refuse_budget();
    return profile;
  }

  // What the plan made from the profile runs besides, until it guesses no kernel: who reads the profile later makes the same plan
  // and measures nothing. True: something was measured.
  bool settle(Profile& profile, bool near, bool interpolated) {
    for (int round = 0; round < kMostPlans; round++) {
      rt_.phase("planning what to measure");
      const std::vector<KernelSpec> missing = missing_of_plan(profile, near && round == 0, interpolated);
      rt_.phase("measuring the plan's kernels");
      if (!anywhere(missing)) return round > 0;
      if (!measure(profile, missing, kOfPlan)) return true;  // the rest is interpolated
    }
    return true;
  }

  // Every rank's device and its link to the host; nothing else yet.
  Profile devices() {
    Profile mine;
    mine.devices = {facts_of(mesh_.device(rt_.rank()), backend_)};
    mine.device_links = own_device_links(backend_, rt_.transport(), options_.budget_seconds);
    return joined(rt_.transport(), mine);
  }

  // Not measured, nor (but for `interpolated`) between measured ones.
  std::vector<KernelSpec> unknown(const Profile& profile, std::vector<KernelSpec> specs, bool interpolated) const {
    std::erase_if(specs, [&](const KernelSpec& s) {
      const Known known = flops(s) == 0 ? Known::measured : profile.seconds(rt_.rank(), s).known;
      return known == Known::measured || (!interpolated && known == Known::interpolated);
    });
    return specs;
  }
  std::vector<KernelSpec> missing_candidates(const Profile& profile) const {
    return unknown(profile,
                   needed_kernels(passes_, mesh_, rules_, {}, DType::f32, rt_.rank(),
                                  [](const Variable& v) { return candidate_sizes(v.size, most_); }),
                   true);
  }
  // What the plan made from the profile runs. A new profile: measured itself also where it is between measured sizes
  // (interpolated), and the sizes around its cuts (near); some kernels have no granule, or cost more below one.
  std::vector<KernelSpec> missing_of_plan(const Profile& profile, bool near_too, bool interpolated) const {
    const Plan plan = balance(step_, mesh_, rules_, profile, {.baselines = false});
    std::vector<KernelSpec> specs = kernels_of(plan.data(), rt_.rank());
    if (near_too) {
      for (KernelSpec& s : kernels_tiled(plan.data(), rt_.rank())) specs.push_back(std::move(s));
      auto near = [&](const Variable& v) {
        for (const CutChoice& c : plan.data().cuts)
          if (c.dim == v.dim && static_cast<int>(c.parts.front().size()) == v.parts)
            return sizes_near(at(c.parts.front(), part_of(mesh_, v.axes, rt_.rank())), v.size, 4);
        return std::vector<Index>{};
      };
      for (KernelSpec& s : needed_kernels(passes_, mesh_, rules_, profile, DType::f32, rt_.rank(), near))
        specs.push_back(std::move(s));
    }
    std::vector<KernelSpec> different;
    for (KernelSpec& s : unknown(profile, std::move(specs), interpolated))
      if (!has(different, s)) different.push_back(std::move(s));
    return different;
  }
  // Kernels of the plan with the bias and activation that they take in, where this device has a choice that was not timed so.
  std::vector<KernelSpec> missing_choices(const Profile& profile, const PlanData& plan) const {
    std::vector<KernelSpec> specs = kernels_as_run(plan, rt_.rank());
    std::erase_if(specs, [&](const KernelSpec& s) {
      return !profile.implementation(rt_.rank(), s).empty() || backend_.implementations(s).size() < 2;
    });
    return specs;
  }
  bool anywhere(const std::vector<KernelSpec>& missing) { return agree(rt_.transport(), missing.empty() ? 0 : 1).status != 0; }

  // Kernels that were measured before, timed again beside new ones: what the machine's speed has done since.
  std::vector<KernelSpec> anchors(const Profile& profile) const {
    std::vector<KernelSpec> out = own_largest(profile);
    if (out.size() > kMostAnchors) out.resize(kMostAnchors);
    return out;
  }
  // Of their usual times then over now.
  static double speed_since(const Profile& profile, const std::vector<KernelSpec>& anchors, const Measurement& made) {
    std::vector<double> ratios;
    for (const KernelPoint& p : made.points)
      if (has(anchors, p.spec) && p.seconds.typical() > 0)
        ratios.push_back(profile.seconds(p.device, p.spec).seconds / p.seconds.typical());
    if (ratios.empty()) return 1;
    const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::nth_element(ratios.begin(), middle, ratios.end());
    return *middle;
  }
  static void multiply(Spread& seconds, double by) {
    seconds.min *= by;
    seconds.q25 *= by;
    seconds.median *= by;
  }

  // On all ranks at the same time, within this share of what is left of the budget: at a smaller batch where it takes that, checked
  // at the full one. False: it does not fit.
  bool measure(Profile& profile, const std::vector<KernelSpec>& specs, double share) {
    const double least = options_.budget_seconds * kLeast, until = seconds() + share * (options_.budget_seconds - seconds());
    auto budget = [&] { return std::max(until - seconds(), least); };
    say("measuring " + std::to_string(specs.size()) + " kernels on rank 0 (budget " +
        std::to_string(static_cast<int>(std::ceil(budget()))) + " s)");
    const std::vector<KernelSpec> again = specs.empty() ? specs : anchors(profile);
    std::vector<KernelSpec> tried = specs;
    for (const KernelSpec& a : again)
      if (!has(tried, a)) tried.push_back(a);
    Measurement made;
    for (int scale = 0;;) {  // the batch by 4 to that power
      const double allowed =
          scale == kMostScale ? std::max(budget(), options_.budget_seconds) : budget();  // rather late than not at all
      made = measured(tried, allowed, kMostRounds);
      const double over = std::log(made.needed_seconds / allowed) / std::log(4.0);
      const int more = agree(rt_.transport(), made.fits ? 0 : std::clamp(static_cast<int>(std::ceil(over)), 1, kMostScale)).status;
      if (more == 0) {
        if (scale == 0) {
          const double by = speed_since(profile, again, made);
          std::erase_if(made.points, [&](const KernelPoint& p) { return !has(specs, p.spec); });
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
        if (s.op != KernelOp::fold && s.op != KernelOp::sgd) s.roles.n = std::max<Index>(1, s.roles.n >> (2 * scale));
    }
    merge(profile, made);
    return true;
  }

  // Collective.
  [[noreturn]] void refuse_budget() const {
    const std::vector<double> needed = of_all(needed_seconds_);
    const auto most = std::max_element(needed.begin(), needed.end());
    throw UserError("the kernels of this job do not fit a budget of " + std::to_string(static_cast<int>(options_.budget_seconds)) +
                    " s (three rounds on rank " + std::to_string(most - needed.begin()) + " need " +
                    std::to_string(static_cast<int>(std::ceil(*most))) + " s); raise --budget-seconds or use a smaller batch");
  }
  // One number of every rank.
  std::vector<double> of_all(double mine) const {
    std::vector<double> out;
    for (const auto& bytes : rt_.transport().gather_all(std::as_bytes(std::span(&mine, 1))))
      std::memcpy(&out.emplace_back(), bytes.data(), sizeof(double));
    return out;
  }

  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  Measurement measured(const std::vector<KernelSpec>& specs, double budget, int most_rounds) {
    KernelTimingOptions o;
    o.budget_seconds = budget;
    o.least_rounds = std::min(o.least_rounds, most_rounds);
    o.most_rounds = most_rounds;
    o.step_bytes = step_bytes_;
    o.progress = [&](const MeasureProgress& p) {
      char line[96];
      std::snprintf(line, sizeof line, "measured %d of %d kernel runs, about %.0f s left", p.done, p.total, p.seconds_left);
      say(line);
    };
    return measure_kernels(backend_, rt_.rank(), specs, o, together());
  }
  // All ranks go on to a next round, or none.
  RoundBarrier together() {
    return [this](Wish mine) { return static_cast<Wish>(agree(rt_.transport(), static_cast<int>(mine)).status); };
  }

  // Of those that take a two-hundredth of the budget at most. By flops: what took longest may just have been disturbed.
  std::vector<KernelSpec> own_largest(const Profile& profile) const {
    std::vector<KernelSpec> specs, out;
    for (const KernelPoint& p : profile.kernels())
      if (p.device == rt_.rank() && p.seconds.median <= options_.budget_seconds / 200 && p.spec.op != KernelOp::fold &&
          p.spec.op != KernelOp::sgd)
        specs.push_back(p.spec);
    for (std::size_t i : largest_of(specs, same_pass)) out.push_back(specs[i]);
    return out;
  }

  // The same kernels in the same way, all ranks at once and then each rank in turn.
  void measure_alone(Profile& profile) {
    if (rt_.ranks() == 1) return;
    rt_.phase("measuring each rank alone");
    const std::vector<KernelSpec> specs = own_largest(profile);
    auto seconds = [&](const RoundBarrier& barrier) {
      const Measurement made =
          measure_kernels(backend_, rt_.rank(), specs,
                          {.budget_seconds = options_.budget_seconds / 20, .most_rounds = 7, .step_bytes = step_bytes_}, barrier);
      double sum = 0;
      for (const KernelPoint& p : made.points) sum += p.seconds.typical();
      return made.points.size() == specs.size() ? sum : 0;
    };
    // Together, alone, together, alone: the machine's speed moves meanwhile.
    std::array<double, 2> shared{}, alone{};
    for (std::size_t turn = 0; turn < 2; turn++) {
      shared[turn] = seconds(together());
      for (int r = 0; r < rt_.ranks(); r++) {
        if (r == rt_.rank()) alone[turn] = seconds({});
        agree(rt_.transport(), 0);
      }
    }
    const bool all_known = shared[0] > 0 && shared[1] > 0 && alone[0] > 0 && alone[1] > 0;
    const std::vector<double> all = of_all(all_known ? std::clamp((alone[0] + alone[1]) / (shared[0] + shared[1]), 0.1, 1.0) : 1);
    for (std::size_t r = 0; r < all.size(); r++) profile.devices[r].alone_over_shared = all[r];
  }

  // The largest kernel of each kind at the full batch gives the factor for all of that kind.
  void rescale(Measurement& made, const std::vector<KernelSpec>& full, const std::vector<KernelSpec>& smaller, double budget) {
    auto seconds_of = [](const Measurement& m, const KernelSpec& s) {
      for (const KernelPoint& p : m.points)
        if (p.spec == s) return p.seconds.typical();
      return 0.0;
    };
    const std::vector<std::size_t> largest = largest_of(full, scale_alike);
    std::vector<KernelSpec> checks;
    double once = 0;
    for (std::size_t i : largest) {
      checks.push_back(full[i]);
      const Index n = smaller[i].roles.n;  // 0: a fold
      once += seconds_of(made, smaller[i]) * (n > 0 ? static_cast<double>(full[i].roles.n) / static_cast<double>(n) : 1.0);
    }
    const Measurement whole = measured(checks, 1e6, kRunsOfThreeRounds * once <= budget ? 3 : 1);
    std::vector<KernelPoint> points;
    for (std::size_t i = 0; i < full.size(); i++) {
      std::size_t here = 0;
      for (std::size_t k = 0; k < largest.size(); k++)
        if (scale_alike(full[largest[k]], full[i])) here = k;
      const double small = seconds_of(made, smaller[largest[here]]), big = seconds_of(whole, checks[here]);
      const double factor = small > 0 && big > 0 ? big / small : 1.0;
      for (KernelPoint p : made.points)
        if (p.spec == smaller[i]) {
          p.spec = full[i];
          p.choices = 1;  // another batch may have another fastest one
          multiply(p.seconds, factor);
          points.push_back(std::move(p));
          break;
        }
    }
    made.points = std::move(points);
  }

  // Every rank gets every rank's points, in rank order.
  void merge(Profile& profile, const Measurement& made) {
    Profile mine;
    mine.devices = profile.devices;
    mine.notes = made.notes;
    DeviceFacts& me = at(mine.devices, rt_.rank());
    me.slow = made.slow;  // the greatest of all measurements is kept, below
    me.fast = made.fast;
    for (const KernelPoint& p : made.points) mine.add(p);
    for (const auto& bytes : rt_.transport().gather_all(bytes_of_text(mine.json()))) {
      const Profile one = Profile::parse("rank", text_of(bytes));
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

  void keep(const Profile& profile, const std::filesystem::path& file) {
    std::string failed;
    if (rt_.rank() == 0 && !file.empty()) {
      try {
        if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
        profile.save(file);
      } catch (const std::exception& e) {
        failed = e.what();
      }
    }
    const Verdict verdict = agree(rt_.transport(), failed.empty() ? 0 : static_cast<int>(Exit::io), failed);
    if (verdict.status != 0) throw UserError(verdict.text, Exit::io);
  }

  Runtime& rt_;
  const Mesh& mesh_;
  const Step& step_;
  const LayoutRules& rules_;
  const MeasureOptions& options_;
  const Passes passes_;
  Backend& backend_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double needed_seconds_ = 0;         // for what did not fit
  Index step_bytes_ = 0;              // of this rank's memory, with even parts
  static constexpr Index most_ = 24;  // sizes per dim: multiples of 16, then of 8, then the small ones (candidate_sizes.h)
};

}  // namespace

Profile measure(Runtime& rt, const Mesh& mesh, const Step& step, const LayoutRules& rules, const std::filesystem::path& keep_in,
                const MeasureOptions& options) {
  return Measurer(rt, mesh, step, rules, options).run(keep_in);
}

}  // namespace motley
