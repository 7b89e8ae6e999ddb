// SPDX-License-Identifier: Apache-2.0
// A mesh of a GPU and CPUs through `verify` and `train`: the GPU's part runs on a device that is none (support/fake_device.h), with
// the CPU's kernels under the memory and queues of a device.
#include <motley/error.h>
#include <motley/measure.h>
#include <motley/trainer.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "kernels/open_cpu.h"
#include "plan/planner.h"
#include "run/chrome_trace.h"
#include "run/copies.h"
#include "run/gather.h"
#include "tests/lib/train_nets.h"
#include "tests/support/fake_device.h"
#include "train/verify.h"

using namespace motley;

namespace motley {
// In this program a CUDA device is one that is none.
std::unique_ptr<Backend> open_backend(const Device& device) {
  Device cpu = device;
  cpu.kind = DeviceKind::cpu;
  auto backend = open_cpu(cpu);
  return device.kind == DeviceKind::cuda ? testing::fake_device(std::move(backend), 11, 0, 3) : std::move(backend);
}
}  // namespace motley

namespace {

Mesh mixed(int ranks) {
  std::vector<Device> devices(static_cast<std::size_t>(ranks));
  devices[0].kind = DeviceKind::cuda;
  for (int r = 0; r < ranks; r++) devices[static_cast<std::size_t>(r)].name = "rank " + std::to_string(r);
  return Mesh({{"all", ranks}}, devices);
}

// Of each of its convolutions the device has three; the plan says for each which was timed as the fastest, and that one runs.
void check_implementations(const Profile& profile, const Plan& plan, Trainer& trainer) {
  const auto spent = trainer.executor().spent();
  const auto& steps = trainer.program().steps;
  std::size_t convolutions = 0, biased = 0;
  for (std::size_t i = 0; i < steps.size(); i++) {
    const auto* run = std::get_if<RunKernel>(&steps[i].what);
    if (run == nullptr) continue;
    CHECK(run->implementation == profile.implementation(0, run->spec));
    CHECK(run->implementation.empty() == (run->spec.op != KernelOp::conv2d));
    if (run->implementation.empty()) continue;
    CHECK(spent[i].implementation == run->implementation);
    convolutions++;
    biased += run->spec.bias;
  }
  CHECK(convolutions > 0);
  CHECK(biased > 0);
  CHECK(plan.data().implementations[1].empty());
  if (biased == 0) return;
  CHECK(plan.json().find("\"implementation\": \"" + plan.data().implementations[0].front().implementation) != std::string::npos);
}

}  // namespace

TEST_CASE("mixed mesh: verify holds under forced cuts of filters, batch and rows between a device and a CPU", "[device]") {
  const Step step = small_step(5);
  const Datasets data = small_data(20);
  const Mesh mesh = mixed(2);
  for (const std::vector<double>& shares : {std::vector<double>{60, 40}, {100, 0}, {0, 100}})
    for (const std::vector<std::string>& dims : {std::vector<std::string>{"f1", "f2"}, {"batch"}, {"rows"}}) {
      LayoutRules rules;
      for (const std::string& dim : dims) rules.split.push_back({dim, "all", Shares{shares}});
      VerifyReport report;
      run_ranks_in_memory(2, [&](Runtime& rt) {
        const VerifyReport mine = verify(rt, {.step = &step, .mesh = &mesh, .rules = rules, .data = data.train});
        if (rt.rank() == 1) report = mine;
      });
      INFO(shares[0] << " " << dims[0] << "\n" << report.text());
      CHECK(report.ok());
    }
}

TEST_CASE("mixed mesh: training counts the bytes it planned, and its copies do not differ", "[device]") {
  const Step step = small_step(4);
  const Datasets data = small_data(20);
  const Mesh mesh = mixed(3);
  run_ranks_in_memory(3, [&](Runtime& rt) {
    // A budget that no machine comes to: what does not fit is measured at a part of the batch, and names no implementation.
    const Profile profile = measure(rt, mesh, step, small_rules(3), "", {.budget_seconds = 600, .when = Measure::always});
    const Plan plan = balance(step, mesh, {{"f1", "all"}, {"f2", "all", uneven(4, 3)}}, profile);
    const bool counts = rt.rank() == 0;  // Catch2 counts on one thread
    if (counts) CHECK(plan.data().step_seconds.has_value());
    Trainer trainer(rt, plan);
    const Plan measured = balance(step, mesh, small_rules(3), profile);
    Trainer of_measured(rt, measured);
    if (counts) check_implementations(profile, measured, of_measured);
    const Order order(data.train->samples(), 4, 1);
    Index planned = 0;
    for (const PredictedRank& r : plan.data().predicted) planned += r.bytes;
    for (int s = 0; s < 3; s++) {
      const Batch batch = batch_of(data.train, order.batch_of(0), 0, 0);
      const StepReport report = trainer.step_named({{"image", batch.images}, {"label", batch.labels}});
      if (counts) CHECK(trainer.figures().bytes_received == planned);
    }
    const auto differ = copies_differ(plan, trainer.program(), trainer.executor(), rt.transport());
    if (counts) CHECK(differ.empty());
  });
}

TEST_CASE("mixed mesh: the implementation that a plan names runs, whichever it is; one that is not there is refused", "[device]") {
  const Step step = small_step(4);
  const Mesh mesh = mixed(1);
  run_ranks_in_memory(1, [&](Runtime& rt) {
    Plan plan = balance(step, mesh, {}, {});
    PlanData data = plan.data();
    CHECK(data.implementations.front().empty());
    for (const ProgramStep& s : compile(plan, 0).steps)
      if (const auto* run = std::get_if<RunKernel>(&s.what); run != nullptr && run->spec.op == KernelOp::conv2d)
        data.implementations.front().push_back({run->spec, std::to_string(data.implementations.front().size() % 3 + 1) + " runs"});
    const auto kernels_of = [&](const Plan& p) {
      const Program program = compile(p, 0);
      State state(p, program.rank, 1, rt.backend(mesh).device_memory());
      Executor executor(program, rt.backend(mesh), rt.transport(), state);
      std::vector<std::string> names;
      for (const Executor::Spent& s : executor.spent()) names.push_back(s.implementation);
      return names;
    };
    const auto names = kernels_of(plan_from(step, mesh, data));
    for (const char* runs : {"1 runs", "2 runs", "3 runs"}) CHECK(std::find(names.begin(), names.end(), runs) != names.end());
    data.implementations.front().front().implementation = "4 runs";
    CHECK_THROWS_WITH(kernels_of(plan_from(step, mesh, data)),
                      Catch::Contains("by \"4 runs\", which fake ") && Catch::Contains("plan again"));
  });
}

TEST_CASE("mixed mesh: a device's kernels are traced by its own clock, one after another, on a track of their own", "[device]") {
  const Plan plan = balance(small_step(4), mixed(2), small_rules(2), {});
  const Datasets data = small_data(20);
  RunTrace trace;
  std::vector<double> spent;  // by rank 0's kernels
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    const Order order(data.train->samples(), 4, 1);
    for (int s = 0; s < 3; s++) {
      const Batch batch = batch_of(data.train, order.batch_of(0), 0, 0);
      trainer.step_named({{"image", batch.images}, {"label", batch.labels}});
    }
    RunTrace its = gather_trace(plan, {}, trainer.trace(), rt.transport());
    if (rt.rank() > 0) return;
    trace = std::move(its);
    for (const Executor::Spent& each : trainer.executor().spent()) spent.push_back(each.seconds);
  });
  REQUIRE(trace.ranks.size() == 2);
  const RankTrace& device = trace.ranks[0];
  CHECK(device.own_clock);
  CHECK(!trace.ranks[1].own_clock);
  for (std::size_t i = 0; i < spent.size(); i++) {
    if (device.items[i].kind != TraceItem::Kind::kernel) continue;
    double sum = 0;
    for (std::size_t k = 0; k < 3; k++) sum += device.at(k, i).end - device.at(k, i).begin;
    CHECK(sum == Approx(spent[i]).margin(1e-12));
  }
  for (std::size_t k = 0; k < 3; k++) {
    double before = device.step(k).begin;
    for (std::size_t i = 0; i < spent.size(); i++) {
      if (device.items[i].kind != TraceItem::Kind::kernel) continue;
      REQUIRE(device.at(k, i).begin >= before - 1e-12);
      before = device.at(k, i).end;
    }
  }
  const std::string text = chrome_trace(trace);
  CHECK(text.find("\"name\":\"thread_name\",\"pid\":0,\"tid\":1,\"args\":{\"name\":\"device\"}") != std::string::npos);
  CHECK(text.find("\"ph\":\"X\",\"pid\":0,\"tid\":1,") != std::string::npos);
  CHECK(text.find("\"ph\":\"X\",\"pid\":2,\"tid\":1,") == std::string::npos);
}
