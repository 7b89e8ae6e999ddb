// SPDX-License-Identifier: Apache-2.0
#include "train/verify.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "base/at.h"
#include "base/box_rows.h"
#include "base/clock.h"
#include "base/copy_box.h"
#include "mesh/control.h"
#include "plan/plan_data.h"
#include "plan/planner.h"
#include "run/agreed.h"
#include "run/fits_hosts.h"
#include "run/planned.h"
#include "train/dump.h"
#include "train/keys.h"
#include "train/update.h"
#include "train/verify_parts.h"

namespace motley {

std::vector<double> nudged(std::vector<double> values, double by) {
  for (std::size_t i = 0; i < values.size(); i++) values[i] *= 1 + (i % 3 == 0 ? -by : by);
  return values;
}

Batch first_batch(const VerifyInput& in, Index batch) {
  return batch_of(in.data, Order(in.data->samples(), batch, in.seed).batch_of(0), 0, 0);
}

namespace {

// Operands that a gradient's formula compares to choose a value: it may jump there.
std::vector<int> jumps_of(const Formula& f) {
  std::vector<int> out;
  for (const Instruction& s : f.code) {
    if (s.op != Opcode::select) continue;
    const Instruction& condition = at(f.code, s.a);
    if (condition.op != Opcode::less && condition.op != Opcode::less_equal) continue;
    for (const int r : {condition.a, condition.b})
      if (at(f.code, r).op == Opcode::operand) out.push_back(at(f.code, r).a);
  }
  return out;
}

// Tensors at whose values gradients jump: what relu makes, what max_pool2d reads.
std::set<int> deciding_tensors(const Passes& passes) {
  std::set<int> out;
  const auto decides = [&](int tensor) {
    if (at(passes.tensors, tensor).role == TensorRole::activation) out.insert(tensor);
  };
  for (const Pass& p : passes.passes) {
    if (at(passes.tensors, p.writes.tensor).role == TensorRole::gradient)
      for (const int k : jumps_of(p.formula)) decides(at(p.reads, k).tensor);
    if (p.op == KernelOp::max_pool2d && p.kind == PassKind::forward) decides(p.reads[0].tensor);
  }
  return out;
}

// Takes over the other run's values where they agree within so much of the largest. A row that no one reads is in neither.
void take_decisions(Executor& executor, const Program& program, int buffer, const WholeTensor& other, double within) {
  const Box box = at(program.buffers, buffer).box;
  std::vector<double> values = executor.read(buffer, box);
  double most = 0;
  for (double v : values) most = std::max(most, std::abs(v));
  const Box all = whole(other.shape);
  const std::vector<Index> strides = row_major(all);
  const double* const theirs = other.values.data() + item_of(all, strides, box);
  for_each_row(extents_of(box), row_major(box), strides, [&](const BoxRow& row) {
    for (Index i = 0; i < row.length; i++) {
      double& v = values[static_cast<std::size_t>(row.a + i * row.a_step)];
      if (const double its = theirs[row.b + i * row.b_step]; std::abs(v - its) <= within * most) v = its;
    }
  });
  executor.write(buffer, box, values);
}

// Micro-batches one after another: along the dim that counts the samples, the first of `samples`.
void append(WholeTensor& all, WholeTensor one, const Shape& samples) {
  if (all.values.empty() || samples.rank() == 0) {
    all.shape = one.shape;
    all.name = one.name;
    all.values.insert(all.values.end(), one.values.begin(), one.values.end());
    return;
  }
  const std::size_t over = one.shape.position(samples[0].name);
  std::size_t inner = 1, outer = 1;
  for (std::size_t d = 0; d < one.shape.rank(); d++) (d < over ? outer : inner) *= static_cast<std::size_t>(one.shape[d].size);
  const std::size_t before = all.values.size() / outer;
  std::vector<double> values;
  for (std::size_t k = 0; k < outer; k++) {
    auto take = [&](const std::vector<double>& from, std::size_t count) {
      values.insert(values.end(), from.begin() + static_cast<std::ptrdiff_t>(k * count),
                    from.begin() + static_cast<std::ptrdiff_t>((k + 1) * count));
    };
    take(all.values, before);
    take(one.values, inner);
  }
  std::vector<Dim> dims = all.shape.dims();
  dims[over].size += one.shape[over].size;
  all.shape = Shape(dims);
  all.values = std::move(values);
}

enum class Record : std::uint8_t { results, decisions };

// `before` is called before each kernel. `nudge`: parameters are changed by so much of their values, up or down. `like`: takes its
// decisions from that run (one rank only).
RunRecord run_steps(const Plan& plan, Backend& backend, Transport& transport, const VerifyInput& in,
                    const std::function<void(const char*)>& before, Record record = Record::results,
                    const RunRecord* like = nullptr, double nudge = 0, Kernels kernels = Kernels::fused) {
  const Passes& passes = plan.data().passes;
  const std::set<int> deciding = deciding_tensors(passes);
  const double like_within = stores_bf16(*in.step) ? kBf16Decisions : kF32Values;
  const int logits_tensor = passes.logits();
  CompileOptions options{.keep_gradients = true, .keep = {logits_tensor}, .hosts = transport.hosts()};
  options.fuse = options.fuse_maps = kernels == Kernels::fused;
  if (record == Record::decisions) options.keep.insert(options.keep.end(), deciding.begin(), deciding.end());
  const Program program = fits_hosts(transport, plan, compile(plan, transport.rank(), options));
  State state(plan, program.rank, in.seed, backend.device_memory());
  Executor executor(program, backend, transport, state);
  executor.on_step(before);
  for (const Slice& s : program.slices) {
    if (nudge == 0) break;
    executor.write(s.value, s.box, nudged(executor.read(s.value, s.box), nudge));
  }
  auto parameters = [&](Part part) {
    std::map<std::string, WholeTensor> out;
    for (int p : passes.parameters) {
      if (part == Part::gradient && passes.statistic(p) != nullptr) continue;
      WholeTensor whole = gather_parameter(plan, program, executor, transport, p, part, Gathered::on_rank_0);
      out.emplace(whole.name, std::move(whole));
    }
    return out;
  };
  RunRecord out;
  out.weights_before = parameters(Part::value);
  const Shape& labels = at(passes.tensors, passes.find(in.names.label)).shape;
  const Index samples = micro_batch_size(passes);
  const auto feeds = feeds_from(first_batch(in, samples * passes.accumulate), in.names, passes);
  for (Index s = 0; s < in.steps; s++) {
    WholeTensor loss, logits;
    for (Index m = 0; m < passes.accumulate; m++) {
      executor.feed([&](const std::string& name, const Box& box, std::span<std::byte> to) {
        const auto its = feeds.find(fed_from(passes, name));
        fed_by(passes, name, its != feeds.end() ? its->second : random_keys(in.seed, name, s + 1), m)(box, to);
      });
      const std::size_t number = static_cast<std::size_t>(s * passes.accumulate + m);  // of this micro-batch
      executor.run_forward([&](int step) {
        const auto* run = std::get_if<RunKernel>(&at(program.steps, step).what);
        if (like == nullptr || run == nullptr) return;
        for (int t : deciding) {
          const int buffer = at(program.main_buffer, t);
          const auto other = at(like->decided, number).find(at(passes.tensors, t).name);
          if (buffer == run->operands.back().buffer && other != at(like->decided, number).end())
            take_decisions(executor, program, buffer, other->second, like_within);
        }
      });
      if (record == Record::decisions) {
        out.decided.emplace_back();
        for (int t : deciding) {
          WholeTensor whole = gather_output(plan, program, executor, transport, t, Gathered::on_rank_0);
          out.decided.back().emplace(whole.name, std::move(whole));
        }
      }
      append(loss, gather_output(plan, program, executor, transport, passes.outputs.front(), Gathered::on_rank_0), {});
      if (s == 0) append(logits, gather_output(plan, program, executor, transport, logits_tensor, Gathered::on_rank_0), labels);
      executor.run_backward();
    }
    prepare_update(executor, plan.step(), transport, s + 1);
    if (s == 0) out.gradients = parameters(Part::gradient);
    executor.run_update();
    out.losses.push_back(std::accumulate(loss.values.begin(), loss.values.end(), 0.0));
    if (s > 0) continue;
    loss.values = {out.losses.front()};
    out.loss = std::move(loss);
    out.logits = std::move(logits);
  }
  out.weights_after = parameters(Part::value);
  return out;
}

// The unsharded plan, whose means over a rank's own part are over the parts of the sharded one.
Plan with_parts_of(const Plan& sharded, const Step& step, const Mesh& one, const BalanceOptions& options) {
  const Plan plan = balance(step, one, {}, {}, options);
  PlanData data = plan.data();
  bool any = false;
  for (std::size_t p = 0; p < data.passes.passes.size(); p++) {
    OwnPart& own = data.passes.passes[p].own;
    if (own.of < 0) continue;
    any = true;
    std::set<Index> borders;
    for (const Work& w : at(sharded.data().pass_plans, static_cast<int>(p)).work)
      if (w.any) borders.insert(at(w.box, own.of).begin);
    own.borders.assign(borders.begin(), borders.end());
  }
  return any ? plan_from(step, one, std::move(data)) : plan;
}

}  // namespace

void alone_on_rank_0(Runtime& rt, const std::function<void(const std::function<void(const char*)>& alive)>& work) {
  Transport& transport = rt.transport();
  auto meet = [&](bool over) {
    const auto mine = static_cast<std::byte>(over);
    return transport.gather_all({&mine, 1}).front().front() == std::byte{1};
  };
  agreed(transport, [&] {
    if (rt.rank() != 0) {
      while (!meet(false)) {
      }
      return;
    }
    double last = seconds_now();
    const auto alive = [&](const char* what) {
      if (seconds_now() - last < 1) return;
      rt.phase(std::string("unsharded: ") + what);
      static_cast<void>(meet(false));
      last = seconds_now();
    };
    try {
      work(alive);
    } catch (const Error&) {
      static_cast<void>(meet(true));
      throw;
    }
    static_cast<void>(meet(true));
  });
}

namespace {

constexpr double kZero = 1e-9;  // a tensor this much smaller than the largest one is zero but for rounding: a bias before a norm
// One this much smaller than the largest may be a difference of values like that one's (a weight between two norms), with their
// rounding. Differences are then divided by so much of the largest: in f64 what is wrong shows still.
constexpr double kSmall = 1e-3;

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double v : values) most = std::max(most, std::abs(v));
  return most;
}

}  // namespace

double apart(const std::vector<double>& values, const std::vector<double>& truth, double all, double excused) {
  if (values.size() != truth.size()) return std::numeric_limits<double>::quiet_NaN();
  double most = largest(truth), worst = 0;
  for (std::size_t i = 0; i < truth.size(); i++) {
    if (!std::isfinite(values[i]) || !std::isfinite(truth[i])) return std::numeric_limits<double>::quiet_NaN();
    worst = std::max(worst, std::abs(values[i] - truth[i]) - excused);
  }
  if (most >= 1e-30) most = most < kZero * all ? all : std::max(most, kSmall * all);
  return most < 1e-30 ? worst : worst / most;
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

double largest(const std::map<std::string, WholeTensor>& tensors) {
  double most = 0;
  for (const auto& [name, whole] : tensors) most = std::max(most, largest(whole.values));
  return most;
}

// `excused`: per tensor the absolute difference that is not counted.
double apart_most(const std::map<std::string, WholeTensor>& values, const std::map<std::string, WholeTensor>& truth,
                  std::span<char> worst_one, const std::function<double(const std::string&)>& excused = nullptr) {
  double worst = values.size() == truth.size() ? 0 : std::numeric_limits<double>::quiet_NaN();
  const double all = largest(truth);
  for (const auto& [name, whole] : truth) {
    const auto found = values.find(name);
    const double one = found == values.end() ? std::numeric_limits<double>::quiet_NaN()
                                             : apart(found->second.values, whole.values, all, excused ? excused(name) : 0);
    if (!(one <= worst)) worst_one[name.copy(worst_one.data(), worst_one.size() - 1)] = 0;
    worst = worse(worst, one);
  }
  return worst;
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
  out.gradients = apart_most(run.gradients, truth.gradients, out.worst_gradient);
  // Adam and LAMB divide a gradient by its own size: of one that is rounding alone, a bias before a batch norm's, they make a step
  // of any direction. Such a bias is not compared. The norm's running mean moves with the biases of all steps, of which the last is
  // known here: ten times its distance is allowed.
  const double all = largest(truth.gradients);
  const auto is_rounding = [&](const std::string& name) {
    const auto gradient = truth.gradients.find(name);
    const double most = gradient == truth.gradients.end() ? 0 : largest(gradient->second.values);
    return most > 0 && most < kZero * all;
  };
  for (const auto& [name, w] : truth.weights_after)
    if (const auto found = run.weights_after.find(name); found != run.weights_after.end() && is_rounding(name))
      out.adrift = std::max(out.adrift, farthest(found->second.values, w.values));
  out.weights = apart_most(run.weights_after, truth.weights_after, out.worst_weights, [&](const std::string& name) {
    if (is_rounding(name)) return std::numeric_limits<double>::infinity();
    return truth.gradients.contains(name) ? 0 : 10 * out.adrift;
  });
  return out;
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
    return planned(rt.transport(), *in.step, *in.mesh,
                   [&] { return balance(*in.step, *in.mesh, in.rules, in.profile, {.dtype = dtype}); });
  };
  const Plan f32_plan = plan_in(DType::f32);
  const RunRecord f32 = run_steps(f32_plan, device, rt.transport(), in, phases("f32: "), Record::decisions);
  const Plan f64_plan = plan_in(DType::f64);
  const RunRecord f64 = run_steps(f64_plan, *in_f64, rt.transport(), in, phases("f64: "));
  VerifyReport report;
  alone_on_rank_0(rt, [&](const std::function<void(const char*)>& alive) {
    const Mesh one({{"one", 1}}, {in.mesh->device(0)});
    const Step& in_one = in.whole != nullptr ? *in.whole : *in.step;
    const Plan whole = with_parts_of(f64_plan, in_one, one, {.dtype = DType::f64}),
               plan = with_parts_of(f32_plan, *in.step, one, {.dtype = DType::f64});
    const auto plain = [&](const Plan& of, const RunRecord* like, double nudge) {
      return run_steps(of, *in_f64, *in_memory(1).front(), in, alive, Record::results, like, nudge, Kernels::separate);
    };
    const RunRecord truth = plain(whole, nullptr, 0);
    RunRecord same = plain(plan, &f32, 0);
    same.logits = truth.logits;  // before any gradient nothing depends on decisions
    same.losses.front() = truth.losses.front();
    report = {difference(f64, truth), difference(f32, same)};
    report.bf16 = stores_bf16(*in.step);
    for (const double loss : truth.losses) report.diverged = report.diverged || !std::isfinite(loss);
    for (const auto& [name, w] : truth.weights_after)
      for (const double value : w.values) report.diverged = report.diverged || !std::isfinite(value);
    for (const double nudge : kNudges)  // is it rounding, or the cut?
      if (!report.exact() && !report.diverged)
        report.nudged = larger(report.nudged, difference(plain(whole, nullptr, nudge), truth));
    if (report.exact() && !report.ok()) {  // is it f32, or the cut?
      const Plan own = with_parts_of(f32_plan, in_one, one, {.dtype = DType::f32});
      const auto lost_by = [&](Backend& backend, Kernels kernels, double nudge) {
        const RunRecord alone =
            run_steps(own, backend, *in_memory(1).front(), in, alive, Record::decisions, nullptr, nudge, kernels);
        RunRecord like = plain(whole, &alone, 0);
        like.logits = truth.logits;
        like.losses.front() = truth.losses.front();
        return difference(alone, like);
      };
      for (double nudge : kF32Nudges) {
        if (report.bf16) nudge *= kBf16Factor;
        report.alone = larger(report.alone, lost_by(device, Kernels::fused, nudge));
        report.plain = larger(report.plain, lost_by(*in_f64, Kernels::separate, nudge));
        if (report.ok()) break;
      }
    }
    nothing_to_save.reset();
    if (!in.dump.empty()) write_dump(in, plan.data().passes, f64, f32);
  });
  return control::all_of(rt.transport(), report).front();
}

}  // namespace motley
