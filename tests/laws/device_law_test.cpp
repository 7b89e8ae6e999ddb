// SPDX-License-Identifier: Apache-2.0
// Device law: slices that lie in a device's memory, with its kernels and copies in queues of their own, change nothing: the same plan
// gives the same bits with any of its ranks on such a device, and counts the same bytes.
#include <motley/error.h>
#include <motley/executor.h>
#include <motley/ops.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"
#include "plan/kernel_of.h"
#include "plan/plan_data.h"
#include "tests/support/fake_device.h"

using namespace motley;
using namespace motley::law;
using Queue = DeviceMemory::Queue;

namespace {

Mesh with_devices(const Mesh& mesh, Random& random) {
  std::vector<Device> devices;
  for (int r = 0; r < mesh.ranks(); r++) {
    devices.push_back(mesh.device(r));
    if (chance(random, 0.6)) devices.back().kind = DeviceKind::cuda;
  }
  return Mesh(mesh.axes(), devices);
}

void check_same(const Step& step, const Mesh& mesh, const LayoutRules& rules, Random& random, const BalanceOptions& balanced, RunOptions options) {
  try {
    const Plan host = balance(step, mesh, rules, {}, balanced);
    const Plan mixed = balance(step, with_devices(mesh, random), rules, {}, balanced);
    options.seed += static_cast<std::uint64_t>(pick(random, 0, 1000));
    options.piece_bytes = pick(random, 0, 1) == 0 ? 16 : 200;
    const Outcome truth = run_plan(host, options), got = run_plan(mixed, options);
    std::vector<Index> planned;
    for (const PredictedRank& r : mixed.data().predicted) planned.push_back(r.bytes);
    CHECK(difference(got, truth) == 0);
    CHECK(got.counted == planned);
    options.device_messages = true;
    const Outcome direct = run_plan(mixed, options);
    CHECK(difference(direct, truth) == 0);
    CHECK(direct.counted == planned);
  } catch (const UserError& e) {
    REQUIRE(std::string(e.what()).find("cannot both be cut") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("device law: any ranks on devices, random layouts, the reference's kernels", "[law]") {
  for (int number = 0; number < share_of(50); number++) {
    Random random(static_cast<unsigned>(90000 + number));
    const Network net = build(random_recipe(random));
    const Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
    const int ranks = static_cast<int>(pick(random, 1, 4));
    const Mesh mesh = ranks == 4 ? mesh_of({{"all", 2}, {"b", 2}}) : mesh_of({{"all", ranks}});
    LayoutRules rules;
    for (const Dim& d : net.dims)
      if (chance(random, 0.45)) rules.split.push_back({d, "all", Sizes{parts(random, d.size, mesh.axes()[0].size)}});
    INFO("case " << number);
    check_same(step, mesh, rules, random, {.dtype = DType::f64}, {});
  }
}

TEST_CASE("device law: kernels and formats that users run", "[law]") {
  for (int number = 0; number < share_of(25); number++) {
    Random random(static_cast<unsigned>(95000 + number));
    const Network net = build(random_recipe(random));
    const Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9});
    const int ranks = static_cast<int>(pick(random, 1, 3));
    LayoutRules rules;
    for (const Dim& d : net.dims)
      if (chance(random, 0.5)) rules.split.push_back({d, "all", Sizes{parts(random, d.size, ranks)}});
    INFO("case " << number);
    check_same(step, mesh_of({{"all", ranks}}), rules, random, {}, {.cpu_backend = true});
  }
}

// The fake must find out what the law is to find out.
TEST_CASE("device law: the device that is none hides its memory and orders nothing by itself") {
  const auto backend = testing::fake_device(reference_backend(), 1);
  DeviceMemory& device = *backend->device_memory();
  const DeviceMemory::Block there = device.allocate(64);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    alarm(10);
    const int held = *reinterpret_cast<volatile int*>(there.get());
    _exit(held == 0 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));

  // A value is doubled in the compute queue and fetched in the copy queue: without a hold some order is wrong.
  const KernelSpec twice = [] {
    KernelSpec spec = fold_kernel(FoldKind::copy, DType::f64, {1}, {{1}, {1}});
    spec.scale = 2;
    return spec;
  }();
  int wrong = 0;
  for (const bool held : {true, false})
    for (std::uint64_t seed = 0; seed < 40; seed++) {
      const auto other = testing::fake_device(reference_backend(), seed);
      DeviceMemory& memory = *other->device_memory();
      const DeviceMemory::Block block = memory.allocate(16);
      const auto kernel = other->compile(twice);
      double value = 3;
      copy_and_wait(memory, block.get(), &value, sizeof value);
      std::vector<void*> operands{block.get(), block.get() + 8};
      kernel->run(operands, nullptr);
      const auto front = memory.make_mark(), back = memory.make_mark();
      front->set(Queue::compute);
      if (held) front->hold(Queue::copy);
      memory.copy(Queue::copy, &value, block.get() + 8, sizeof value);
      back->set(Queue::copy);
      while (!back->passed()) continue;
      if (held) CHECK(value == 6);
      wrong += value != 6;
    }
  CHECK(wrong > 0);
}

TEST_CASE("device law: too little memory names the first tensor that does not fit, and the largest") {
  Graph graph;
  const Tensor image = graph.input("image", {{"batch", 8}, {"in", 2}, {"rows", 16}, {"cols", 16}});
  const Step step = training(sum(relu(conv2d(image, {.out = {"f", 16}, .window = 3, .padding = same}))), Sgd{.learning_rate = 1});
  const Plan plan = balance(step, mesh_of({{"one", 1}}), {}, {});
  const Program program = compile(plan, 0);
  auto transports = in_memory(1);
  const auto small = testing::fake_device(reference_backend(), 1, 100000);
  State state(plan, program, 1, small->device_memory());
  CHECK_THROWS_WITH(Executor(program, *small, *transports.front(), state),
                    Catch::Contains("is the first that does not fit; the largest: ") && Catch::Contains("smaller part"));
}
