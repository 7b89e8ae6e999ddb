// SPDX-License-Identifier: Apache-2.0
// A mesh of a GPU and CPUs through `verify` and `train`: the GPU's part runs on a device that is none (support/fake_device.h), with the
// CPU's kernels behind the memory and queues of a device.
#include <motley/error.h>
#include <motley/measure.h>
#include <motley/trainer.h>

#include <catch2/catch.hpp>

#include "kernels/cpu/cpu_backend.h"
#include "lib/train_nets.h"
#include "plan/plan_data.h"
#include "run/gather.h"
#include "support/fake_device.h"
#include "train/verify.h"

using namespace motley;

namespace motley {
// In this program a CUDA device is one that is none.
std::unique_ptr<Backend> open_backend(const Device& device) {
  Device cpu = device;
  cpu.kind = DeviceKind::cpu;
  auto backend = open_cpu_backend(cpu);
  return device.kind == DeviceKind::cuda ? testing::fake_device(std::move(backend), 11) : std::move(backend);
}
}  // namespace motley

namespace {

Mesh mixed(int ranks) {
  std::vector<Device> devices(static_cast<std::size_t>(ranks));
  devices[0].kind = DeviceKind::cuda;
  for (int r = 0; r < ranks; r++) devices[static_cast<std::size_t>(r)].name = "rank " + std::to_string(r);
  return Mesh({{"all", ranks}}, devices);
}

}  // namespace

TEST_CASE("mixed mesh: verify holds under forced cuts of filters and batch between a device and a CPU", "[device]") {
  const Step step = small_step(5);
  const Datasets data = small_data(20);
  const Mesh mesh = mixed(2);
  for (const std::vector<double>& shares : {std::vector<double>{60, 40}, {100, 0}, {0, 100}})
    for (const bool batch : {false, true}) {
      LayoutRules rules;
      for (const char* dim : {"f1", "f2"})
        if (!batch) rules.split.push_back({dim, "all", Shares{shares}});
      if (batch) rules.split.push_back({"batch", "all", Shares{shares}});
      VerifyReport report;
      run_ranks_in_memory(2, [&](Runtime& rt) {
        const VerifyReport mine = verify(rt, {.step = &step, .mesh = &mesh, .rules = rules, .data = data.train});
        if (rt.rank() == 1) report = mine;
      });
      INFO(shares[0] << " " << batch << "\n" << report.text());
      CHECK(report.ok());
    }
}

TEST_CASE("mixed mesh: training counts the bytes it planned, and its copies do not differ", "[device]") {
  const Step step = small_step(4);
  const Datasets data = small_data(20);
  const Mesh mesh = mixed(3);
  run_ranks_in_memory(3, [&](Runtime& rt) {
    const Profile profile = measure(rt, mesh, step, small_rules(3), "", {.budget_seconds = 12, .when = Measure::always});
    const Plan plan = balance(step, mesh, {{"f1", "all"}, {"f2", "all", uneven(4, 3)}}, profile);
    const bool counts = rt.rank() == 0;  // Catch2 counts on one thread
    if (counts) CHECK(plan.data().step_seconds.has_value());
    Trainer trainer(rt, plan);
    const Order order(data.train->samples(), 4, 1);
    Index planned = 0;
    for (const PredictedRank& r : plan.data().predicted) planned += r.bytes;
    for (int s = 0; s < 3; s++) {
      const Batch batch = batch_of(data.train, order.batch_of(0), 0, 0);
      const StepReport report = trainer.step_named({{"image", batch.images}, {"label", batch.labels}});
      if (counts) CHECK(report.bytes_received == planned);
    }
    const auto differ = copies_differ(plan, trainer.program(), trainer.executor(), rt.transport());
    if (counts) CHECK(differ.empty());
  });
}
