// SPDX-License-Identifier: Apache-2.0
// Which tensors lie in blocks of channels: those that stay on a rank, where its kernels were measured faster so.
#include "plan/formats.h"

#include <motley/ops.h>
#include <motley/program.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "plan/needed_kernels.h"
#include "plan/plan_data.h"
#include "plan/planner.h"

using namespace motley;

namespace {

constexpr double kRate = 1e10;  // flops per second, channels last

// image 3 -> f1 16 -> f2 24 -> pooled -> f3 20 -> classes: f3 is no whole number of blocks of 8, f2 none of 16.
Step network() {
  Graph g;
  const Dim batch{"batch", 4}, in{"in", 3}, rows{"rows", 16}, cols{"cols", 16}, f1{"f1", 16}, f2{"f2", 24}, f3{"f3", 20}, classes{"classes", 5};
  Tensor h = g.input("image", {batch, in, rows, cols});
  h = relu(conv2d(h, {.in = in, .out = f1, .window = 3, .padding = same, .name = "one"}));
  h = relu(conv2d(h, {.in = f1, .out = f2, .window = 3, .padding = same, .name = "two"}), {"two_relu"});
  h = max_pool2d(h, {.window = 2, .name = "pooled"});
  h = relu(conv2d(h, {.in = f2, .out = f3, .window = 3, .padding = same, .name = "three"}));
  return training(mean(softmax_cross_entropy(dense(h, {.out = {classes}}), g.input("label", {batch}, DType::i32), classes)), Sgd{});
}

Mesh mesh_of_cpus(int ranks) { return Mesh({{"all", ranks}}, std::vector<Device>(static_cast<std::size_t>(ranks))); }

bool in_blocks(const KernelSpec& s) { return s.x_format == Format::blocked8 || s.y_format == Format::blocked8; }

// All that the rules' plan runs, channels last and in blocks of 8; what touches blocks takes so many times longer. Nothing is known of
// `unknown`'s passes in blocks.
Profile profile_of(const Step& step, const Mesh& mesh, const LayoutRules& rules, double in_blocks_takes, std::optional<PassKind> unknown = {}) {
  Profile profile;
  profile.devices.assign(static_cast<std::size_t>(mesh.ranks()), {"cpu", "cpu", "made up", "", "none"});
  for (int round = 0; round < 4; round++) {  // with what is known so far another plan may be the best
    PlanData plan = balance(step, mesh, rules, profile).data();
    plan.own_formats.assign(plan.predicted.size(), {});
    for (int r = 0; r < mesh.ranks(); r++) {
      std::vector<KernelSpec> specs = kernels_of(plan, r);
      for (const PlanData& one : plans_in_blocks(plan, r, Format::blocked8))
        for (KernelSpec& s : kernels_of(one, r)) specs.push_back(std::move(s));
      for (const KernelSpec& s : specs) {
        if (in_blocks(s) && s.op == KernelOp::conv2d && s.pass == unknown) continue;
        const double seconds = flops(s) / kRate * (in_blocks(s) ? in_blocks_takes : 1);
        profile.add({r, s, {seconds, seconds, seconds, 3}, "made up"});
      }
    }
  }
  return profile;
}

std::vector<std::string> blocked_on(const Plan& plan, std::size_t rank) {
  std::vector<std::string> out;
  for (const auto& [t, format] : plan.data().own_formats[rank]) out.push_back(plan.data().passes.tensors[static_cast<std::size_t>(t)].name);
  return out;
}

std::ptrdiff_t reorders(const Plan& plan) {
  const std::vector<ProgramStep> steps = compile(plan, 0).steps;
  return std::count_if(steps.begin(), steps.end(), [](const ProgramStep& s) {
    const auto* run = std::get_if<RunKernel>(&s.what);
    return run != nullptr && run->pass.starts_with("reorder");
  });
}

}  // namespace

TEST_CASE("formats: blocks where they were measured faster, in whole ones, and a step that is predicted so") {
  const Step step = network();
  const Mesh mesh = mesh_of_cpus(1);
  const Plan last = balance(step, mesh, {}, profile_of(step, mesh, {}, 1.2)), blocked = balance(step, mesh, {}, profile_of(step, mesh, {}, 0.8));
  CHECK(blocked_on(last, 0).empty());
  const std::vector<std::string> there = blocked_on(blocked, 0);
  auto has = [&](const std::string& name) { return std::find(there.begin(), there.end(), name) != there.end(); };
  CHECK(has("two_relu"));
  CHECK(has("pooled"));
  CHECK(has("gradient of pooled"));
  for (const std::string name : {"image", "three", "gradient of three", "one.weight"}) CHECK_FALSE(has(name));
  CHECK(*blocked.data().step_seconds < *last.data().step_seconds);
  CHECK(reorders(blocked) == reorders(last));  // kernels take both formats where two groups meet
  CHECK(blocked.data().notes.back().find("tensors are stored in blocks of channels") != std::string::npos);
  CHECK(Plan(blocked).json() == balance(step, mesh, {}, profile_of(step, mesh, {}, 0.8)).json());
}

TEST_CASE("formats: nothing is guessed") {
  const Step step = network();
  const Mesh mesh = mesh_of_cpus(1);
  for (const PassKind pass : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter}) {
    const PlanData plan = balance(step, mesh, {}, profile_of(step, mesh, {}, 0.8, pass)).data();
    for (const Pass& p : plan.passes.passes) {
      if (p.op != KernelOp::conv2d || p.kind != pass) continue;
      CHECK_FALSE(plan.own_formats[0].contains(p.writes.tensor));
      for (const PassOperand& o : p.reads) CHECK_FALSE(plan.own_formats[0].contains(o.tensor));
    }
  }
}

TEST_CASE("formats: what travels lies channels last; a rank's choice is its own") {
  const Step step = network();
  const Mesh mesh = mesh_of_cpus(2);
  const LayoutRules filters{{Dim{"f1", 16}, "all", Sizes{{8, 8}}}}, batch{{Dim{"batch", 4}, "all", Sizes{{3, 1}}}};
  const Plan pair = balance(step, mesh, filters, profile_of(step, mesh, filters, 0.8)), data_parallel = balance(step, mesh, batch, profile_of(step, mesh, batch, 0.8));
  for (const Plan* plan : {&pair, &data_parallel})
    for (std::size_t r = 0; r < 2; r++)
      for (const auto& [t, format] : plan->data().own_formats[r]) {
        const TensorPlan& tensor = plan->data().tensors[static_cast<std::size_t>(t)];
        for (const auto* messages : {&tensor.first, &tensor.second, &tensor.third})
          for (const BoxMessage& m : *messages) CHECK((m.from == m.to || (m.from != static_cast<int>(r) && m.to != static_cast<int>(r))));
      }
  CHECK(!blocked_on(data_parallel, 1).empty());
  CHECK(!blocked_on(pair, 0).empty());
  Profile one_sided = profile_of(step, mesh, batch, 0.8);
  Profile mixed;
  mixed.devices = one_sided.devices;
  for (KernelPoint p : one_sided.kernels()) {
    if (p.device == 1 && in_blocks(p.spec)) p.seconds.median *= 2;
    mixed.add(std::move(p));
  }
  const Plan plan = balance(step, mesh, batch, mixed);
  CHECK(!blocked_on(plan, 0).empty());
  CHECK(blocked_on(plan, 1).empty());
}
