// SPDX-License-Identifier: Apache-2.0
#include "app/job_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/backend.h>
#include <motley/error.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>

#include "app/arranged.h"
#include "app/cpu_isas.h"
#include "app/launcher.h"
#include "app/mpiexec.h"
#include "app/run_directory.h"
#include "app/topology.h"
#include "balance/balance_within.h"
#include "balance/near_rules.h"
#include "balance/needed_kernels.h"
#include "balance/timed_steps.h"
#include "balance/variables.h"
#include "base/at.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/json.h"
#include "explain/explain.h"
#include "kernels/emulated/emulated_backend.h"
#include "mesh/mesh_json.h"
#include "plan/check_rules.h"
#include "plan/plan_file.h"
#include "plan/planner.h"
#include "plan/rules_json.h"
#include "profiler/measure_kernels.h"
#include "profiler/modelled.h"
#include "profiler/part_of.h"
#include "run/agreed.h"
#include "run/complete_for.h"
#include "run/planned.h"
#include "run/same_devices.h"
#include "run/start.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

struct Counted {
  int guesses = 0, all = 0;
};
// Of a rank's kernels: how many there are with arithmetic that counts, and how many of these the profile has to estimate.
Counted estimated(const Profile& profile, int rank, const std::vector<KernelSpec>& kernels) {
  Counted out;
  for (const KernelSpec& s : kernels) {
    if (flops(s) <= 0) continue;
    out.all++;
    out.guesses += profile.supports(rank, s) && profile.seconds(rank, s).is_guess() ? 1 : 0;
  }
  return out;
}

std::vector<int> all_ranks(const Mesh& mesh) {
  std::vector<int> out(static_cast<std::size_t>(mesh.ranks()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// Real steps are of f32 plans, on several ranks.
bool times_steps(const Job& job) {
  return job.mesh.ranks() > 1 && job.train.dtype() != DType::f64;
}

bool is_modelled(const Mesh& mesh, int rank) {
  return mesh.device(rank).kind == DeviceKind::modelled;
}

bool limits_memory(const Mesh& mesh) {
  return std::any_of(mesh.devices().begin(), mesh.devices().end(), [](const Device& d) { return d.memory_bytes > 0; });
}

}  // namespace

Step step_of(const Job& job) {
  const Model model = build_model(job.model, job.train.batch);
  return training(model.loss, job.train.optimizer, planned_options(job.train));
}

namespace {

// The same for all arrangements of the same devices, which have one profile.
std::string text_of_devices(const Mesh& mesh) {
  std::vector<std::string> texts;
  for (const Device& d : mesh.devices()) texts.push_back(to_text(to_json(d)));
  std::sort(texts.begin(), texts.end());
  return fmt::format("{}", fmt::join(texts, "\n"));
}

}  // namespace

fs::path profile_path(const Job& job) {
  if (!job.profile.path.empty()) return job.profile.path;
  const fs::path cache = cache_folder();
  if (cache.empty()) return {};
  std::error_code failed;
  fs::create_directories(cache, failed);
  if (failed || access(cache.c_str(), W_OK) != 0) return {};  // measured, but not kept
  return cache / fmt::format("profile-{:016x}.json", hash_bytes(host_name() + text_of_devices(job.mesh)));
}

namespace {

// Of a mesh with modelled devices: from its numbers, and a profile of the devices that are here, if there are any.
Profile profile_with_modelled(const Job& job) {
  const auto here = std::find_if(job.mesh.devices().begin(), job.mesh.devices().end(),
                                 [](const Device& d) { return d.kind != DeviceKind::modelled; });
  if (here == job.mesh.devices().end()) return modelled_profile(job.mesh);
  if (job.profile.path.empty() || !fs::exists(job.profile.path))
    throw UserError(
        fmt::format("the mesh has modelled devices beside \"{}\", which is measured: \"profile\": {{ \"path\": FILE }} "
                    "must name a profile of the devices that are here, which motley profile JOB --mesh MESH -o FILE writes "
                    "for a mesh of these alone",
                    here->name),
        Exit::missing);
  return modelled_profile(job.mesh, Profile::load(job.profile.path));
}

}  // namespace

Profile profile_at_hand(const Job& job) {
  const bool modelled = has_modelled(job.mesh);
  const fs::path file = modelled ? fs::path(job.profile.path) : profile_path(job);
  // Rules that need no profile are planned with one only if the job names it and it exists: then seconds are known.
  const bool there = fs::exists(file);
  if (!modelled && !needs_profile(job.rules) && !(job.profile.given && there)) return {};
  if (!modelled && !there) throw UserError(missing_profile(file.string()), Exit::missing);
  Profile profile = modelled ? profile_with_modelled(job) : in_order_of(job.mesh, Profile::load(file));
  check_device_count(profile, job.mesh.ranks(), file.string());
  for (int r = 0; r < job.mesh.ranks(); r++) {
    if (is_modelled(job.mesh, r)) continue;
    const DeviceFacts& was = at(profile.devices, r);
    DeviceFacts now = was;
    now.name = job.mesh.device(r).name;
    now.kind = to_string(job.mesh.device(r).kind);
    now.threads = driven(job.mesh.device(r)).threads;
    if (const auto comma = was.model.rfind(", ");
        job.mesh.device(r).kind == DeviceKind::emulated && was.model.ends_with(" times slower"))
      now.model = slowed_model(was.model.substr(0, comma), job.mesh.device(r).slowdown);
    check_same_device(was, now, file.string());
  }
  return profile;
}

namespace {

const std::string& library_of(const Device& device) {
  const std::string& given = driven(device).library;
  return given.empty() ? cpu_libraries().front() : given;
}

}  // namespace

void check_made_here(const Profile& profile, const Job& job) {
  const std::vector<std::string>& names = isa_names();
  const auto order = [&](const std::string& isa) { return std::find(names.begin(), names.end(), isa); };
  std::unique_ptr<Backend> onednn;
  for (int r = 0; r < job.mesh.ranks() && r < static_cast<int>(profile.devices.size()); r++) {
    const Device& device = job.mesh.device(r);
    if (device.kind != DeviceKind::cpu || !device.host.empty()) continue;
    const DeviceFacts& was = profile.devices[static_cast<std::size_t>(r)];
    DeviceFacts here{.name = device.name, .kind = was.kind, .threads = was.threads};
    const bool per_process = library_of(device) == "onednn";  // its ISA is per process: opened once, not capped
    if (per_process && !onednn) onednn = open_backend(Device{.name = "cpu", .library = "onednn"});
    const std::unique_ptr<Backend> other = per_process ? nullptr : open_backend(device);
    const Backend& backend = per_process ? *onednn : *other;
    const bool capped = per_process && !device.isa.empty() && order(device.isa) < order(backend.isa());
    here.model = backend.model();
    here.isa = capped ? device.isa : backend.isa();
    here.library = backend.library();
    if (capped && device.isa.ends_with("_vnni")) here.isa = was.isa;  // this CPU may lack VNNI and use the previous ISA
    check_same_device(was, here, profile_path(job).string());
  }
}

PlanAtHand plan_at_hand(const Job& job, const Step& step, bool with_steps) {
  if (has_modelled(job.mesh)) {
    PlanAtHand out{.profile = profile_at_hand(job)};
    check_made_here(out.profile, job);
    out.plan = plan_of(job, step, out.profile);
    return out;
  }
  bool measures = needs_profile(job.rules) && job.profile.measure != MeasureWhen::never;
  const std::string file = profile_path(job).string();
  if (measures && job.profile.measure == MeasureWhen::always) return {.why_not = "\"measure\" is \"always\""};
  if (measures && !fs::exists(file)) {
    const std::string which = job.profile.path.empty() ? " (there is one for each host and its devices)" : "";
    return {.why_not = file.empty() ? "profiles are not kept here" : "there is no profile " + file + " yet" + which};
  }
  PlanAtHand out{.profile = profile_at_hand(job)};
  if (measures && with_steps && times_steps(job) && timed_steps(out.profile, step, job.mesh, job.rules, DType::f32) == nullptr)
    return {.why_not = fmt::format("the profile {} has no real steps of this job", file)};
  if (is_complete_for(out.profile, step, job.mesh, job.rules)) measures = false;
  // False: why_not names the first rank without some of the kernels.
  const auto has = [&](const char* which, const auto& kernels_of_rank) {
    for (int rank = 0; measures && rank < job.mesh.ranks() && out.why_not.empty(); rank++)
      if (const Counted kernels = estimated(out.profile, rank, kernels_of_rank(rank)); kernels.guesses > 0)
        out.why_not = fmt::format("the profile {} lacks {} of {} kernels that rank {} ({}) {}", file, kernels.guesses, kernels.all,
                                  rank, job.mesh.device(rank).name, which);
    return out.why_not.empty();
  };
  KernelsByRank candidates;
  if (measures) candidates = candidate_kernels(step, job.mesh, job.rules, all_ranks(job.mesh));
  if (!has("may run", [&](int rank) { return at(candidates, rank); })) return out;
  check_made_here(out.profile, job);
  Plan plan = plan_of(job, step, out.profile);
  if (has("runs by its plan", [all = CommonPlan(plan.data())](int rank) { return kernels_of(all, rank); }))
    out.plan = std::move(plan);
  return out;
}

void check_memory(const Job& job) {
  if (!limits_memory(job.mesh) || has_modelled(job.mesh)) return;
  try {
    const Job its = arranged(job);
    static_cast<void>(plan_at_hand(its, step_of(its)));
  } catch (const DeviceError&) {  // a device that is not here
  } catch (const UserError& e) {  // 69: memory; otherwise a profile of another machine, which says nothing about memory here
    if (e.code() == Exit::device) throw;
  }
}

Profile measured_profile(Runtime& rt, const Job& job, const Step& step, const fs::path& file, const MeasureOptions& options,
                         const MeasureStepsOptions& steps) {
  Profile profile = measure(rt, job.mesh, step, job.rules, file, options);
  if (!times_steps(job) || options.when == Measure::never) return profile;
  return measure_steps(rt, job.mesh, step, job.rules, std::move(profile), file, steps);
}

Profile profile_of(Runtime& rt, const Job& job, const Step& step, const MeasureOptions& options, const MeasureStepsOptions& steps) {
  if (needs_profile(job.rules)) return measured_profile(rt, job, step, profile_path(job), options, steps);
  Profile profile = Profile::parse("rank 0's profile", from_rank_0(rt.transport(), [&] { return profile_at_hand(job).json(); }));
  if (!profile.devices.empty()) require_same_devices(rt, job.mesh, profile, profile_path(job).string());
  return profile;
}

std::vector<std::string> device_notes(const Mesh& mesh) {
  std::vector<std::string> notes = absent_cores(mesh.devices());
  for (int r = 0; r < mesh.ranks(); r++) {
    const Device& device = mesh.device(r);
    const bool opens = driven(device).kind == DeviceKind::cuda ||
                       std::count(cpu_libraries().begin(), cpu_libraries().end(), library_of(device)) == 0;
    if (!device.host.empty() || !opens) continue;
    try {
      static_cast<void>(open_backend(device));
    } catch (const Error& e) {
      notes.push_back(fmt::format("rank {} ({}) cannot run on this machine with this build: {}", r, device.name, e.what()));
    }
  }
  return notes;
}

std::string kernels_line(const Mesh& mesh, DType dtype) {
  if (dtype == DType::f64) return "f64: motley's own CPU kernels on all ranks, also on those with a GPU";
  constexpr int kMostNamed = 16;  // ranks
  std::map<std::string, std::vector<int>> ranks;
  for (int r = 0; r < mesh.ranks(); r++)
    if (driven(mesh.device(r)).kind == DeviceKind::cpu) ranks[library_of(mesh.device(r))].push_back(r);
  std::string text;
  for (const std::string& library : cpu_library_names())
    if (const auto found = ranks.find(library); found != ranks.end())
      text += fmt::format("{}{} ({})", text.empty() ? "CPU kernels by " : ", ", library,
                          ranks.size() == 1 ? "all CPU ranks"
                          : mesh.ranks() > kMostNamed
                              ? fmt::format("{} ranks", found->second.size())
                              : fmt::format("rank{} {}", found->second.size() == 1 ? "" : "s", fmt::join(found->second, ", ")));
  return text;
}

std::vector<std::string> core_notes(const Mesh& mesh) {
  std::vector<std::string> notes;
  if (has_modelled(mesh)) return notes;  // no rank is started
  const auto cores = deal_cores(mesh.devices(), units_in_turn());
  std::map<int, std::vector<int>> ranks;  // by core
  for (int r = 0; r < mesh.ranks(); r++) {
    const auto& own = cores[static_cast<std::size_t>(r)];
    if (!mesh.device(r).host.empty()) continue;
    for (const int core : own) ranks[core].push_back(r);
    if (const int threads = driven(mesh.device(r)).threads; threads > static_cast<int>(own.size()))
      notes.push_back(fmt::format("rank {} ({}) has {} threads on {} {}; more threads than cores make kernels slower", r,
                                  mesh.device(r).name, threads, own.size(), own.size() == 1 ? "core" : "cores"));
  }
  std::string shared;
  for (const auto& [core, several] : ranks)
    if (several.size() > 1)
      shared += fmt::format("{}core {} (ranks {})", shared.empty() ? "" : ", ", core, fmt::join(several, ", "));
  for (const std::vector<int>& units : units_by_core()) {
    std::set<int> several;
    for (const int unit : units)
      if (const auto its = ranks.find(unit); its != ranks.end()) several.insert(its->second.begin(), its->second.end());
    if (units.size() > 1 && several.size() > 1)
      shared += fmt::format("{}the core of processing units {} (ranks {})", shared.empty() ? "" : ", ", fmt::join(units, " and "),
                            fmt::join(several, ", "));
  }
  if (!shared.empty())
    notes.push_back("ranks share " + shared + "; predicted seconds assume a core for each rank, so a step will take longer");
  return notes;
}

namespace {

// Whether a mesh says the same about the speed of two devices.
bool look_equal(const Device& a, const Device& b) {
  const Device &x = driven(a), &y = driven(b);
  return a.kind == b.kind && a.slowdown == b.slowdown && x.kind == y.kind && x.threads == y.threads && x.isa == y.isa &&
         library_of(x) == library_of(y) && x.tf32 == y.tf32;
}

// b's time over a's, of the kernels that were measured on both, each once: large ones count more, as they do in a step.
std::optional<double> measured_ratio(const Profile& profile, int a, int b) {
  double of_a = 0, of_b = 0;
  int both = 0;
  for (const KernelPoint& point : profile.kernels()) {
    if (point.device != a || !profile.supports(b, point.spec)) continue;
    const Estimate other = profile.seconds(b, point.spec);
    if (other.known != Known::measured || other.seconds <= 0 || point.seconds.typical() <= 0) continue;
    of_a += point.seconds.typical();
    of_b += other.seconds;
    both++;
  }
  return both < 3 ? std::nullopt : std::optional(of_b / of_a);
}

}  // namespace

std::vector<std::string> equal_notes(const Mesh& mesh, const Profile& profile) {
  constexpr double kEqual = 0.05;
  std::vector<std::string> notes;
  const std::vector<std::string> names = isa_names(), here = usable_isas();
  const auto level = [&](const Device& d) {  // level of the ISA that its kernels use
    const auto at = [&](const std::string& isa) { return std::find(names.begin(), names.end(), isa) - names.begin(); };
    const auto best = here.empty() ? std::ptrdiff_t{0} : at(here.back());
    return driven(d).isa.empty() ? best : std::min(best, at(driven(d).isa));
  };
  for (int r = 0; r < mesh.ranks() && !here.empty(); r++) {
    const Device& d = driven(mesh.device(r));
    if (d.kind != DeviceKind::cpu || !mesh.device(r).host.empty() || d.isa.empty()) continue;
    if (std::find(here.begin(), here.end(), d.isa) == here.end())
      notes.push_back(fmt::format("rank {} ({}): \"isa\": \"{}\" has no effect, this CPU's best is {}", r, mesh.device(r).name,
                                  d.isa, here.back()));
  }
  constexpr int kMostCompared = 32;  // ranks; with more, a note for each pair would not help
  for (int a = 0; a < std::min(mesh.ranks(), kMostCompared); a++)
    for (int b = a + 1; b < std::min(mesh.ranks(), kMostCompared); b++) {
      const Device &x = mesh.device(a), &y = mesh.device(b);
      if (look_equal(x, y)) continue;
      Device with_isa_of_y = x;
      with_isa_of_y.isa = y.isa;
      const bool only_isa = x.kind == DeviceKind::cpu && x.host.empty() && y.host.empty() && look_equal(with_isa_of_y, y);
      if (only_isa && level(x) == level(y))
        notes.push_back(fmt::format(
            "ranks {} ({}) and {} ({}) differ in \"isa\" alone, and on this CPU that makes no difference: they are equal", a,
            x.name, b, y.name));
      else if (const auto ratio = measured_ratio(profile, a, b); ratio && std::abs(*ratio - 1) < kEqual)
        notes.push_back(
            fmt::format("ranks {} ({}) and {} ({}) look unequal in the mesh and measure as equal: kernel times differ by {:.1f} %",
                        a, x.name, b, y.name, 100 * std::abs(*ratio - 1)));
    }
  return notes;
}

std::vector<std::string> doubts(const Job& job, const Step& step, const Plan& plan, const Profile& profile) {
  std::vector<std::string> notes;
  for (const std::string& note : profile.notes)
    if (note.find("contended") != std::string::npos || note.find("drifting") != std::string::npos)
      notes.push_back("the profile was measured on a disturbed machine: " + note);
  const bool may_lack = needs_profile(job.rules) && job.profile.measure == MeasureWhen::never;  // else plan_at_hand() has looked
  if (profile.empty()) return notes;
  const auto ranks = static_cast<std::size_t>(job.mesh.ranks());
  if (const std::size_t pairs = ranks * (ranks - 1); !has_modelled(job.mesh) && profile.links.size() < pairs)
    notes.push_back(
        fmt::format("the profile has {} of {} links between the devices: for the others 5 us and 2e9 bytes per second are "
                    "assumed; measure them with: motley profile JOB",
                    profile.links.size(), pairs));
  const CommonPlan common = plan.data();
  std::map<int, std::string> by_rank;
  const auto note = [&](int rank, const char* which, const std::vector<KernelSpec>& kernels) {
    if (const Counted counted = estimated(profile, rank, kernels); counted.guesses > 0)
      by_rank[rank] =
          fmt::format("rank {} ({}): {} of {} kernel times {}are estimates, not measured; measure them with: motley profile JOB",
                      rank, plan.mesh().device(rank).name, counted.guesses, counted.all, which);
  };
  std::vector<int> others;  // ranks whose kernels in this plan are all measured
  for (const int rank : all_ranks(plan.mesh())) {
    if (is_modelled(plan.mesh(), rank)) continue;
    note(rank, "", kernels_of(common, rank));
    if (!by_rank.contains(rank)) others.push_back(rank);
  }
  if (may_lack && !others.empty()) {
    const KernelsByRank candidates = candidate_kernels(step, job.mesh, job.rules, others);
    for (std::size_t i = 0; i < others.size(); i++) note(others[i], "of other cuts ", candidates[i]);
  }
  for (auto& [rank, text] : by_rank) notes.push_back(std::move(text));
  return notes;
}

Step evaluation_step_of(const Job& job) {
  const Model model = build_model(job.model, job.train.batch / job.train.accumulate);
  return inference({model.logits}, job.train.storage());
}

std::optional<Step> evaluation_beside(const Job& job) {
  return limits_memory(job.mesh) && is_evaluated(job.data) ? std::optional(evaluation_step_of(job)) : std::nullopt;
}

namespace {

Plan with_axes(const Job& job, Plan plan) {
  if (job.axes.chosen.empty()) return plan;
  PlanData data = plan.data();
  data.axes = job.axes;
  if (data.axes.complete_plans == 1) data.axes.seconds = data.step_seconds;
  return plan_from(plan.step(), plan.mesh(), std::move(data));
}

}  // namespace

Plan plan_of(const Job& job, const Step& step, const Profile& profile) {
  const BalanceOptions options{.dtype = job.train.dtype()};
  const std::optional<Step> evaluation = evaluation_beside(job);
  return with_axes(job, evaluation ? balance_both(step, *evaluation, job.mesh, job.rules, profile, options).training
                                   : balance(step, job.mesh, job.rules, profile, options));
}

JobPlans plans_of(const Job& job, const Step& step, const Profile& profile) {
  if (!is_evaluated(job.data)) return {plan_of(job, step, profile)};
  TrainPlans both = balance_both(step, evaluation_step_of(job), job.mesh, job.rules, profile, {.dtype = job.train.dtype()});
  return {with_axes(job, std::move(both.training)), std::move(both.evaluation)};
}

namespace {

// The layout of training, which its evaluation has too; its parts are open.
LayoutRules layout_of(const Job& job, const Step& training, const Profile& profile) {
  if (!job.rules.open.any()) return job.rules;
  return with_open_parts(resolved_rules(job, training, profile), job.rules);
}

}  // namespace

Plan evaluation_plan_of(const Job& job, const Step& training, const Profile& profile) {
  const Step step = evaluation_step_of(job);
  LayoutRules rules = rules_within(step.passes(), layout_of(job, training, profile));
  try {
    rules.homes = plan_of(job, training, profile).homes();
  } catch (const UserError& e) {  // training does not fit, which says nothing about an evaluation
    if (e.code() != Exit::device) throw;
  }
  return balance(step, job.mesh, rules, profile, {.dtype = job.train.dtype(), .baselines = false});
}

namespace {

std::string made_for(const Job& job) {
  return hex(hash_bytes(to_text(to_json(job.mesh)) + to_text(to_json(job.rules))));
}

}  // namespace

std::string plan_file_of(const Job& job, const JobPlans& plans, const Profile& profile, PlanDetail detail) {
  return plan_file_text(plans.training, plans.evaluation ? &*plans.evaluation : nullptr, made_for(job), profile, detail);
}

GivenPlan read_plan_for(const Job& job, const Step& step, const fs::path& file) {
  GivenPlan out{file.string(), read_file(file.string())};
  static_cast<void>(plan_of_text(out.name, out.text, step, job.mesh));
  return out;
}

std::optional<GivenPlan> plan_of_run(const Job& job, const Step& step, const fs::path& run) {
  const fs::path file = run / kPlanFile;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {};
  try {
    if (motley::made_for(file.string(), read_file(file.string())) != made_for(job)) return {};
    return read_plan_for(job, step, file);
  } catch (const UserError&) {  // of another batch, or of an older motley: chosen again
    return {};
  }
}

Plan evaluation_from(const GivenPlan& given, const Job& job, const Step& step,
                     const std::function<void(const std::string&)>& said) {
  const Step evaluation = evaluation_step_of(job);
  if (const auto text = evaluation_text(given.name, given.text))
    return plan_of_text(given.name + ", /evaluation", *text, evaluation, job.mesh);
  said(given.name + " has no plan of the evaluation: it follows from the parts and homes of the training's");
  const Plan training = plan_of_text(given.name, given.text, step, job.mesh);
  LayoutRules rules = rules_within(evaluation.passes(), training.data().rules);
  rules.homes = training.homes();
  return balance(evaluation, job.mesh, rules, {}, {.dtype = job.train.dtype(), .baselines = false});
}

JobPlans plans_from(const GivenPlan& given, const Job& job, const Step& step, const std::function<void(const std::string&)>& said) {
  JobPlans out{plan_of_text(given.name, given.text, step, job.mesh)};
  if (is_evaluated(job.data)) out.evaluation = evaluation_from(given, job, step, said);
  return out;
}

LayoutRules rules_of(const GivenPlan& given, const Job& job, const Step& step) {
  return plan_of_text(given.name, given.text, step, job.mesh).data().rules;
}

JobPlans plans_to_give(const Job& job, const Step& step, const Profile& profile, const Options& options) {
  if (options.verb == Verb::plan && (!options.output.empty() || options.form == Form::json)) return plans_of(job, step, profile);
  return {plan_of(job, step, profile)};
}

Profile profile_beside(Runtime& rt, const Job& job) {
  const std::string text = from_rank_0(rt.transport(), [&] {
    try {
      return fs::exists(profile_path(job)) ? profile_at_hand(job).json() : std::string();
    } catch (const Error&) {
      return std::string();
    }
  });
  if (text.empty()) return {};
  Profile profile = Profile::parse("rank 0's profile", text);
  try {
    if (!profile.devices.empty()) require_same_devices(rt, job.mesh, profile, profile_path(job).string());
  } catch (const UserError&) {  // on all ranks together
    return {};
  }
  return profile;
}

Plan same_plan(Runtime& rt, const Job& job, const Step& step, const std::function<Plan()>& make) {
  return planned(rt.transport(), step, job.mesh, make);
}

JobPlans same_plans(Runtime& rt, const Job& job, const Step& step, const std::function<JobPlans()>& make) {
  std::optional<JobPlans> made;  // rank 0's
  const auto training = [&] { return (made = make())->training; };
  Plan of_training = planned(rt.transport(), step, job.mesh, training);
  if (!is_evaluated(job.data)) return {std::move(of_training)};
  return {std::move(of_training), planned(rt.transport(), evaluation_step_of(job), job.mesh, [&] { return *made->evaluation; })};
}

LayoutRules resolved_rules(const Job& job, const Step& step, const Profile& profile) {
  const DType dtype = job.train.dtype();
  return choose_by_steps(step, job.mesh, job.rules, profile, dtype, timed_steps(profile, step, job.mesh, job.rules, dtype))
      .parts.rules;
}

LayoutRules resolved_evaluation_rules(const Job& job, const Profile& profile) {
  const Step step = evaluation_step_of(job);
  const DType dtype = job.train.dtype();
  const LayoutRules rules = rules_within(step.passes(), layout_of(job, step_of(job), profile));
  return choose_by_steps(step, job.mesh, rules, profile, dtype, timed_steps(profile, step, job.mesh, rules, dtype)).parts.rules;
}

}  // namespace motley::app
