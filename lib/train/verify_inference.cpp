// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "balance/balance_within.h"
#include "base/at.h"
#include "base/random.h"
#include "mesh/control.h"
#include "plan/check_rules.h"
#include "plan/plan_data.h"
#include "run/each_alone.h"
#include "run/fits_hosts.h"
#include "run/planned.h"
#include "train/verify_run.h"

namespace motley {

namespace {

struct Inferred {
  WholeTensor logits{}, loss{};
  std::map<std::string, WholeTensor> parameters{};  // statistics too
};

// What all runs have in common, but for where and in which precision.
struct Inputs {
  const VerifyInput& training;
  const InferenceInput& inference;
};

// At most 1/2 from the initial values: means around 0, so that about half of the normalised values pass a ReLU (after means of 1/2
// and more none does, and the logits are a bias whatever the layers before compute); variances around 1.
std::vector<double> moved_statistic(std::vector<double> initial, std::uint64_t seed, const std::string& name) {
  const RandomStream draws(seed, "verify: " + name);
  for (std::size_t i = 0; i < initial.size(); i++) initial[i] += draws.uniform(i) - 0.5;
  return initial;
}

WholeTensor output_of(const Plan& plan, Backend& backend, Transport& transport, State& state, const VerifyInput& in,
                      const std::function<void(const char*)>& before, Kernels kernels, double stored) {
  const bool fuse = kernels == Kernels::fused;
  const Program program =
      fits_hosts(transport, plan, compile(plan, transport.rank(), {.hosts = transport.hosts(), .fuse = fuse, .fuse_maps = fuse}),
                 Parameters::there);
  Executor executor(program, backend, transport, state);
  executor.on_step(before);
  const Passes& passes = plan.data().passes;
  const Batch batch = first_batch(in, at(passes.tensors, passes.find(in.names.image)).shape[0].size);
  const auto feeds = feeds_from(batch, in.names, passes);
  executor.feed([&](const std::string& name, const Box& box, std::span<std::byte> to) { feeds.at(name)(box, to); });
  executor.run(stored == 0 ? std::function<void(int)>() : [&](int step) { nudge_stored(executor, program, step, stored); });
  return gather_output(plan, program, executor, transport, passes.outputs.front(), Gathered::on_rank_0);
}

// rules: empty parts of both: on one device.
Inferred run_on(const Mesh& mesh, const LayoutRules& training_rules, const LayoutRules& inference_rules, const Profile& profile,
                DType dtype, Backend& backend, Transport& transport, const Inputs& subject,
                const std::function<void(const char*)>& before, Kernels kernels = Kernels::fused, const Nudge& nudge = {}) {
  const VerifyInput& in = subject.training;
  const auto plan_of = [&](const Step& step, const LayoutRules& rules) {
    return planned(transport, step, mesh,
                   [&] { return balance_unlimited(step, mesh, rules, profile, {.dtype = dtype, .baselines = false}); });
  };
  const Plan trained = plan_of(*in.step, training_rules);
  const Passes& passes = trained.data().passes;
  State state(trained, transport.rank(), in.seed, dtype == DType::f64 ? nullptr : backend.device_memory());
  Inferred out;
  for (const int p : passes.parameters) {
    const StepTensor& tensor = at(passes.tensors, p);
    if (passes.statistic(p) != nullptr)
      state.set(tensor.name, moved_statistic(state.get(transport, tensor.name), in.seed, tensor.name));
    if (nudge.parameters != 0) state.set(tensor.name, nudged(state.get(transport, tensor.name), nudge.parameters));
    out.parameters[tensor.name] = {tensor.name, tensor.shape, state.get(transport, tensor.name)};
  }
  for (const auto& [step, to] : {std::pair{subject.inference.logits, &out.logits}, {subject.inference.loss, &out.loss}}) {
    LayoutRules rules = inference_rules;  // of the logits; what rules say of labels and losses is training's
    for (const auto& one : training_rules.tensors)
      if (std::none_of(rules.tensors.begin(), rules.tensors.end(), [&](const auto& its) { return its.first == one.first; }))
        rules.tensors.insert(rules.tensors.end(), one);
    rules = rules_within(step->passes(), std::move(rules));
    rules.homes = trained.homes();
    const Plan plan = plan_of(*step, rules);
    *to = output_of(plan, backend, transport, state, in, before, kernels, nudge.stored);
  }
  return out;
}

Difference difference(const Inferred& run, const Inferred& truth) {
  return {apart(run.loss.values, truth.loss.values), apart(run.logits.values, truth.logits.values)};
}

void dump_run(Dump& dump, const std::string& folder, const Inferred& run, DType dtype) {
  for (const auto& [name, w] : run.parameters) dump.tensor(folder + "weights_before/" + name + ".npy", w, dtype);
  dump.tensor(folder + "logits.npy", run.logits, dtype);
  dump.tensor(folder + "loss.npy", run.loss, dtype);
}

}  // namespace

VerifyReport verify_inference(Runtime& rt, const VerifyInput& in, const InferenceInput& inference) {
  check(in.step != nullptr && in.mesh != nullptr && in.data != nullptr && inference.logits != nullptr && inference.loss != nullptr,
        "verify has steps, a mesh and samples");
  std::optional<StopsAtOnce> nothing_to_save(std::in_place);
  auto phases = [&rt](const std::string& run) { return [&rt, run](const char* what) { rt.phase(run + what); }; };
  Backend& device = rt.backend(*in.mesh);  // before any other call of a vendor's
  const auto in_f64 = f64_backend();
  const Inputs subject{in, inference};
  const Inferred f32 = run_on(*in.mesh, in.rules, inference.rules, in.profile, DType::f32, device, rt.transport(), subject,
                              phases("inference in f32: ")),
                 f64 = run_on(*in.mesh, in.rules, inference.rules, in.profile, DType::f64, *in_f64, rt.transport(), subject,
                              phases("inference in f64: "));
  VerifyReport report;
  each_alone(rt, "unsharded: ", [&](const Alive& alive) {
    if (rt.rank() != 0) return;
    const Mesh one({{"one", 1}}, {in.mesh->device(0)});
    const auto alone = [&](DType dtype, Backend& backend, Kernels kernels, const Nudge& nudge = {}) {
      return run_on(one, {}, {}, {}, dtype, backend, *in_memory(1).front(), subject, alive, kernels, nudge);
    };
    const Inferred truth = alone(DType::f64, *in_f64, Kernels::separate);
    report.f64 = difference(f64, truth);
    report.f32 = difference(f32, truth);
    report.inference = true;
    report.bf16 = stores_bf16(*inference.logits);
    for (const WholeTensor* its : {&truth.logits, &truth.loss})
      report.diverged =
          report.diverged || std::any_of(its->values.begin(), its->values.end(), [](double v) { return !std::isfinite(v); });
    for (Nudge nudge : kF32Nudges)
      if (report.exact() && !report.ok()) {
        if (report.bf16) nudge = {nudge.parameters * kBf16Factor, nudge.stored * kBf16Factor};
        report.alone = larger(report.alone, difference(alone(DType::f32, device, Kernels::fused, {nudge.parameters}), truth));
        report.plain = larger(report.plain, difference(alone(DType::f32, *in_f64, Kernels::separate, nudge), truth));
      }
    nothing_to_save.reset();
    if (in.dump.empty()) return;
    Dump dump(in.dump);
    const Passes& passes = inference.loss->passes();
    dump_inputs(dump, "", passes, in, DType::f64);
    dump_run(dump, "", f64, DType::f64);
    dump_inputs(dump, "f32/", passes, in, DType::f32);
    dump_run(dump, "f32/", f32, DType::f32);
    dump.finish();
  });
  return control::all_of(rt.transport(), report).front();
}

}  // namespace motley
