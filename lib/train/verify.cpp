// SPDX-License-Identifier: Apache-2.0
#include "train/verify.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <span>

#include "balance/balance_within.h"
#include "base/at.h"
#include "graph/magnitudes.h"
#include "mesh/control.h"
#include "mesh/host_memory.h"
#include "plan/plan_data.h"
#include "plan/planner.h"
#include "run/agreed.h"
#include "run/each_alone.h"
#include "run/fits_hosts.h"
#include "run/planned.h"
#include "train/dump.h"
#include "train/verify_parts.h"
#include "train/verify_run.h"

namespace motley {

namespace {

// The unsharded plan, whose means over a rank's own part are over the parts of the sharded one. Passes are found by name: rules may
// keep copies, which the unsharded plan does not have.
Plan with_parts_of(const Plan& sharded, const Step& step, const Mesh& one, const BalanceOptions& options) {
  const Plan plan = balance_unlimited(step, one, {}, {}, options);
  PlanData data = plan.data();
  bool any = false;
  const std::vector<Pass>& passes = sharded.data().passes.passes;
  for (Pass& p : data.passes.passes) {
    OwnPart& own = p.own;
    if (own.of < 0) continue;
    any = true;
    const auto its = std::find_if(passes.begin(), passes.end(), [&](const Pass& other) { return other.name == p.name; });
    check(its != passes.end(), "a mean over a rank's own part is a pass of every plan");
    std::set<Index> borders;
    for (const Work& w : at(sharded.data().pass_plans, static_cast<int>(its - passes.begin())).work)
      if (w.any) borders.insert(at(w.box, own.of).begin);
    own.borders.assign(borders.begin(), borders.end());
  }
  return any ? plan_from(step, one, std::move(data)) : plan;
}

// A rank beside rank 0 for a second unsharded run at the same time: the first other one of its host, so as fast, if both have a
// core for themselves and both runs take at most half of the free memory (records of the results need some). 0: none. bytes(): of
// the run that this rank would make. Collective.
int second_rank(Transport& transport, const std::function<Index()>& bytes) {
  const std::vector<int>& hosts = transport.hosts();
  const auto found = std::find(hosts.begin() + 1, hosts.end(), hosts.front());
  if (found == hosts.end()) return 0;
  const int second = static_cast<int>(found - hosts.begin());
  struct Claim {
    std::uint64_t bytes = 0, free = 0;
    bool crowded = false;
  } mine{.crowded = transport.crowded()};
  agreed(transport, [&] {
    if (transport.rank() == 0 || transport.rank() == second) mine.bytes = static_cast<std::uint64_t>(bytes());
    if (transport.rank() == 0) mine.free = free_bytes(read_memory());
  });
  const std::vector<Claim> all = control::all_of(transport, mine);
  const Claim &first = all.front(), &other = at(all, second);
  return first.crowded || other.crowded || first.bytes + other.bytes > first.free / 2 ? 0 : second;
}

// Fetches to rank 0 what rank `from` has recorded; `like`: any run of the same step. Collective.
void fetch(Transport& transport, int from, const RunRecord& like, RunRecord& run) {
  const auto bring = [&](std::vector<double>& values) {
    const auto mine = transport.rank() == from ? std::as_bytes(std::span(values)) : std::span<const std::byte>{};
    control::to_first(transport, mine, "collecting an unsharded run", [&](int rank, std::span<const std::byte> bytes) {
      if (rank != from) return;
      values.resize(bytes.size() / sizeof(double));
      std::memcpy(values.data(), bytes.data(), bytes.size());
    });
  };
  bring(run.losses);
  bring(run.loss.values);
  bring(run.logits.values);
  for (const auto tensors : {&RunRecord::gradients, &RunRecord::weights_after, &RunRecord::averages_after})
    for (const auto& [name, its] : like.*tensors) {
      WholeTensor& whole = (run.*tensors)[name];
      whole.name = name;
      whole.shape = its.shape;
      bring(whole.values);
    }
}

constexpr double kZero =
    kCancelled;  // a tensor this much smaller than the largest one is zero but for rounding: a bias before a norm
// One this much smaller than the largest may be a difference of values like that one's (a weight between two norms), with their
// rounding. Differences are then divided by so much of the largest: in f64 what is wrong shows still.
constexpr double kSmall = 1e-3;

using Tensors = std::map<std::string, WholeTensor>;

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  return most;
}

}  // namespace

// Where it is known what is added into the tensor, others that have cancelled say nothing of it.
double Scale::largest_of_all() const {
  return summed.complete ? all : std::max(all, cancelled);
}

bool Scale::is_rounding(double most) const {
  return (most > 0 || summed.most > 0) && (most < kZero * summed.most || most < kZero * largest_of_all());
}

double Scale::of(double most) const {
  if (most < kZero * summed.most) return summed.most;
  if (most < 1e-30) return most;
  return most < kZero * largest_of_all() ? largest_of_all() : std::max(most, kSmall * all);
}

double apart(const std::vector<double>& values, const std::vector<double>& truth, const Scale& scale, double excused) {
  if (values.size() != truth.size()) return std::numeric_limits<double>::quiet_NaN();
  double worst = 0;
  for (std::size_t i = 0; i < truth.size(); i++) {
    if (!std::isfinite(values[i]) || !std::isfinite(truth[i])) return std::numeric_limits<double>::quiet_NaN();
    worst = std::max(worst, std::abs(values[i] - truth[i]) - excused);
  }
  const double by = scale.of(largest(truth));
  return by < 1e-30 ? worst : worst / by;
}

namespace {

double worse(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

double farthest(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); i++) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

using Summed = std::map<std::string, RunRecord::Summed>;

// Of each tensor; `summed` as RunRecord's.
std::function<Scale(const std::string&)> scales_of(const Tensors& truth, const Summed& summed) {
  Scale all;
  const auto its = [&summed](const std::string& name) {
    const auto found = summed.find(name);
    return found == summed.end() ? RunRecord::Summed{} : found->second;
  };
  for (const auto& [name, whole] : truth) {
    const double most = largest(whole.values), added = its(name).most;
    all.all = std::max(all.all, most);
    if (most < kZero * added) all.cancelled = std::max(all.cancelled, added);
  }
  return [all, its](const std::string& name) { return Scale{all.all, all.cancelled, its(name)}; };
}

// `excused`: per tensor the absolute difference that is not counted.
Distances distances(const Tensors& values, const Tensors& truth, const Summed& summed = {},
                    const std::function<double(const std::string&)>& excused = nullptr) {
  const auto scale = scales_of(truth, summed);
  Distances out;
  for (const auto& [name, whole] : values) out[name] = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [name, whole] : truth) {
    const auto found = values.find(name);
    out[name] = found == values.end() ? std::numeric_limits<double>::quiet_NaN()
                                      : apart(found->second.values, whole.values, scale(name), excused ? excused(name) : 0);
  }
  return out;
}

void set_name(std::span<char> its, const std::string& name) {
  its[name.copy(its.data(), its.size() - 1)] = 0;
}

double farthest_of(const Distances& distances, std::span<char> its) {
  double most = 0;
  for (const auto& [name, one] : distances) {
    if (!(one <= most)) set_name(its, name);
    most = worse(most, one);
  }
  return most;
}

void dump_run(Dump& dump, const std::string& folder, const Passes& passes, const RunRecord& run, DType dtype) {
  const auto is_statistic = [&](const std::string& name) { return passes.statistic(passes.find(name)) != nullptr; };
  for (const auto& [name, w] : run.weights_before)
    if (!is_statistic(name)) dump.tensor(folder + "weights_before/" + name + ".npy", w, dtype);
  dump.tensor(folder + "logits.npy", run.logits, dtype);
  dump.tensor(folder + "loss.npy", run.loss, dtype);
  for (const auto& [name, w] : run.gradients) dump.tensor(folder + "gradients/" + name + ".npy", w, dtype);
  for (const auto& [name, w] : run.weights_after)
    dump.tensor(folder + (is_statistic(name) ? "statistics_after/" : "weights_after/") + name + ".npy", w, dtype);
}

}  // namespace

void dump_inputs(Dump& dump, const std::string& folder, const Passes& passes, const VerifyInput& in, DType dtype) {
  const auto all_samples = [&](int tensor) {
    std::vector<Dim> dims = at(passes.tensors, tensor).shape.dims();
    dims.front().size *= passes.accumulate;
    return Shape(dims);
  };
  const Batch batch = first_batch(in, all_samples(passes.find(in.names.label))[0].size);
  for (const auto& [name, read] : feeds_from(batch, in.names, passes)) {
    const Shape shape = all_samples(passes.find(name));
    const std::string file = folder + "inputs/" + name + ".npy";
    if (at(passes.tensors, passes.find(name)).dtype == DType::i32) {
      std::vector<std::int32_t> numbers(static_cast<std::size_t>(shape.elements()));
      read(whole(shape), std::as_writable_bytes(std::span(numbers)));
      dump.integers(file, name, shape.dims(), {numbers.begin(), numbers.end()});
    } else {
      WholeTensor values{name, shape, std::vector<double>(static_cast<std::size_t>(shape.elements()))};
      read(whole(shape), std::as_writable_bytes(std::span(values.values)));
      dump.tensor(file, values, dtype);
    }
  }
}

namespace {

void write_dump(const VerifyInput& in, const Passes& passes, const RunRecord& f64, const RunRecord& f32) {
  Dump dump(in.dump);
  dump_inputs(dump, "", passes, in, DType::f64);
  dump_run(dump, "", passes, f64, DType::f64);
  dump_inputs(dump, "f32/", passes, in, DType::f32);
  dump_run(dump, "f32/", passes, f32, DType::f32);
  dump.finish();
}

}  // namespace

Difference difference(const RunRecord& run, const RunRecord& truth) {
  Difference out{apart(run.losses, truth.losses), apart(run.logits.values, truth.logits.values)};
  out.gradients = farthest_of(distances(run.gradients, truth.gradients, truth.summed), out.worst_gradient);
  // Adam and LAMB divide a gradient by its own size: of one that is rounding alone, a bias before a batch norm's, they make a step
  // of any direction. Such a bias is not compared. The norm's running mean moves with the biases of all steps, of which the last is
  // known here: ten times its distance is allowed.
  const auto scale = scales_of(truth.gradients, truth.summed);
  const auto is_rounding = [&](const std::string& name) {
    const auto gradient = truth.gradients.find(name);
    return truth.moves_by_rounding && gradient != truth.gradients.end() &&
           scale(name).is_rounding(largest(gradient->second.values));
  };
  for (const auto& [name, w] : truth.weights_after)
    if (const auto found = run.weights_after.find(name); found != run.weights_after.end() && is_rounding(name))
      out.adrift = std::max(out.adrift, farthest(found->second.values, w.values));
  const auto excused = [&](const std::string& name) {
    if (is_rounding(name)) return std::numeric_limits<double>::infinity();
    return truth.gradients.contains(name) ? 0 : 10 * out.adrift;
  };
  Distances weights = distances(run.weights_after, truth.weights_after, {}, excused);
  for (const auto& [name, average] : distances(run.averages_after, truth.averages_after, {}, excused))
    weights["the average of " + name] = average;
  out.weights = farthest_of(weights, out.worst_weights);
  return out;
}

Distances gradient_distances(const RunRecord& run, const RunRecord& truth) {
  return distances(run.gradients, truth.gradients, truth.summed);
}

Farthest farthest_gradient(const Distances& cut, const Distances& own) {
  std::vector<double> all;
  for (const auto& [name, one] : own) all.push_back(one);
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  Farthest out;
  for (const auto& [name, one] : cut) {
    const double times = one <= kF32Weights ? 0 : one / std::max(own.at(name), *middle);
    if (!(times <= out.times)) set_name(out.gradient, name);
    out.times = worse(out.times, times);
  }
  return out;
}

bool is_within_bounds(const VerifyReport& report) {
  return report.f64.gradients <= kF64 && report.f64.weights <= kF64 && report.f32.gradients <= kF32Weights &&
         report.f32.weights <= kF32Weights;
}

bool stores_bf16(const Step& step) {
  const auto& tensors = step.passes().tensors;
  return std::any_of(tensors.begin(), tensors.end(), [](const StepTensor& t) { return t.dtype == DType::bf16; });
}

// Of each the larger one.
Difference larger(Difference a, const Difference& b) {
  for (const auto of : {&Difference::loss, &Difference::logits, &Difference::gradients, &Difference::weights, &Difference::adrift})
    if (!(a.*of >= b.*of)) a.*of = b.*of;
  return a;
}

VerifyReport verify(Runtime& rt, const VerifyInput& in) {
  check(in.step != nullptr && in.mesh != nullptr && in.data != nullptr, "verify has a step, a mesh and samples");
  const Passes& passes = in.step->passes();
  if (passes.logits() < 0 || passes.find(in.names.label) < 0 || passes.outputs.size() != 1 || !passes.trains)
    throw UserError("verify needs a training step with one loss, which compares with labels");
  if (in.steps < 1) throw UserError("verify runs one step at least, not " + std::to_string(in.steps), Exit::usage);
  std::optional<StopsAtOnce> nothing_to_save(std::in_place);
  auto phases = [&rt](const std::string& run) { return [&rt, run](const char* what) { rt.phase(run + what); }; };
  Backend& device = rt.backend(*in.mesh);  // before any other call of a vendor's
  const auto in_f64 = f64_backend();
  const auto plan_in = [&](DType dtype) {
    return planned(rt.transport(), *in.step, *in.mesh, [&] {
      return (dtype == DType::f64 ? balance_unlimited : balance)(*in.step, *in.mesh, in.rules, in.profile, {.dtype = dtype});
    });
  };
  const Plan f32_plan = plan_in(DType::f32);
  const RunRecord f32 = run_steps(f32_plan, device, rt.transport(), in, phases("f32: "), Recorded::decisions);
  const Plan f64_plan = plan_in(DType::f64);
  const RunRecord f64 = run_steps(f64_plan, *in_f64, rt.transport(), in, phases("f64: "));
  const Mesh one({{"one", 1}}, {in.mesh->device(0)});
  const Step& in_one = in.whole != nullptr ? *in.whole : *in.step;
  std::optional<Plan> whole, deciding;  // made where they are needed
  const auto whole_plan = [&]() -> const Plan& {
    if (!whole) whole = with_parts_of(f64_plan, in_one, one, {.dtype = DType::f64});
    return *whole;
  };
  const auto deciding_plan = [&]() -> const Plan& {
    if (!deciding) deciding = with_parts_of(f32_plan, *in.step, one, {.dtype = DType::f64});
    return *deciding;
  };
  const auto plain = [&](const Plan& of, const Alive& alive, const RunRecord* like, double nudge = 0) {
    return run_steps(of, *in_f64, *in_memory(1).front(), in, alive, Recorded::results, like, {nudge}, Kernels::separate);
  };
  // In f64, the unsharded network and, where f32 may decide otherwise, one that takes the f32 run's decisions.
  RunRecord truth;
  std::optional<RunRecord> decided;
  const int second = second_rank(rt.transport(), [&] {
    return memory_of(
        compiled(rt.rank() == 0 ? deciding_plan() : whole_plan(), *in_memory(1).front(), Recorded::results, Kernels::separate), 0);
  });
  if (second != 0) {
    each_alone(rt, "unsharded: ", [&](const Alive& alive) {
      if (rt.rank() == 0) decided = plain(deciding_plan(), alive, &f32);
      if (rt.rank() == second) truth = plain(whole_plan(), alive, nullptr);
    });
    fetch(rt.transport(), second, f64, truth);
  }
  VerifyReport report;
  each_alone(rt, "unsharded: ", [&](const Alive& alive) {
    if (rt.rank() != 0) return;
    if (second == 0) truth = plain(whole_plan(), alive, nullptr);
    report = {difference(f64, truth), difference(f32, truth)};
    report.bf16 = stores_bf16(*in.step);
    if (!is_within_bounds(report)) {  // is a gradient 0 but for rounding?
      truth.summed = summed_magnitudes(whole_plan(), *in_f64, in, alive);
      report.f64 = difference(f64, truth);
      report.f32 = difference(f32, truth);
    }
    for (const double loss : truth.losses) report.diverged = report.diverged || !std::isfinite(loss);
    for (const auto& [name, w] : truth.weights_after)
      for (const double value : w.values) report.diverged = report.diverged || !std::isfinite(value);
    for (const double nudge : kNudges)  // is it rounding, or the cut?
      if (!report.exact() && !report.diverged)
        report.nudged = larger(report.nudged, difference(plain(whole_plan(), alive, nullptr, nudge), truth));
    if (report.exact() && !report.ok()) {  // is it a decision?
      if (!decided) decided = plain(deciding_plan(), alive, &f32);
      decided->logits = truth.logits;  // before any gradient nothing depends on decisions
      decided->losses.front() = truth.losses.front();
      decided->summed = truth.summed;
      // With the f64 run that decides by itself: where decisions lie too far apart to be taken over.
      VerifyReport as_is = report;
      report.f32 = difference(f32, *decided);
      const Distances cut = gradient_distances(f32, *decided);
      Distances uncut;
      std::optional<Plan> own;
      const auto lose = [&](Difference VerifyReport::*by, Backend& backend, Kernels kernels, const Nudge& nudge) {
        const RunRecord alone =
            run_steps(*own, backend, *in_memory(1).front(), in, alive, Recorded::decisions, nullptr, nudge, kernels);
        RunRecord like = plain(whole_plan(), alive, &alone);
        like.logits = truth.logits;
        like.losses.front() = truth.losses.front();
        like.summed = truth.summed;
        report.*by = larger(report.*by, difference(alone, like));
        as_is.*by = larger(as_is.*by, difference(alone, truth));
        for (const auto& [name, its] : gradient_distances(alone, like)) uncut[name] = worse(uncut[name], its);
      };
      for (Nudge nudge : kF32Nudges) {  // is it f32, or the cut?
        if (report.ok() || as_is.ok()) break;
        if (!own) own = with_parts_of(f32_plan, in_one, one, {.dtype = DType::f32});
        if (report.bf16) nudge = {nudge.parameters * kBf16Factor, nudge.stored * kBf16Factor};
        lose(&VerifyReport::alone, device, Kernels::fused, {nudge.parameters});
        lose(&VerifyReport::plain, *in_f64, Kernels::separate, nudge);
        report.farthest = as_is.farthest = farthest_gradient(cut, uncut);
      }
      if (!report.ok() && as_is.ok()) report = as_is;
    }
    nothing_to_save.reset();
    if (!in.dump.empty()) write_dump(in, passes, f64, f32);
  });
  return control::all_of(rt.transport(), report).front();
}

}  // namespace motley
