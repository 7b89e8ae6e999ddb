// SPDX-License-Identifier: Apache-2.0
// Device law: slices that are in a device's memory, with its kernels and copies in queues of their own, change nothing: the same
// plan gives the same bits with any of its ranks on such a device, and counts the same bytes.
#include <motley/error.h>
#include <motley/executor.h>
#include <motley/ops.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "kernels/wrapped_backend.h"
#include "plan/kernel_of.h"
#include "plan/plan_data.h"
#include "tests/support/device_transport.h"
#include "tests/support/fake_device.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"

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

void check_same(const Step& step, const Mesh& mesh, const LayoutRules& rules, Random& random, const BalanceOptions& balanced,
                RunOptions options) {
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
    KernelSpec spec = map_kernel({}, DType::f64, {1}, {{1}, {1}});
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
  State state(plan, program.rank, 1, small->device_memory());
  CHECK_THROWS_WITH(Executor(program, *small, *transports.front(), state),
                    Catch::Contains("is the first that does not fit; the largest: ") && Catch::Contains("smaller part"));
}

namespace {

// A device whose blocks can be seen to live or not.
class WatchedDevice final : public WrappedBackend, public DeviceMemory {
 public:
  explicit WatchedDevice(std::unique_ptr<Backend> device) : WrappedBackend(std::move(device)), device_(*inner().device_memory()) {}
  DeviceMemory* device_memory() override { return this; }
  // Its pages come back to the system with its last owner, so that who writes there later dies of it.
  Block allocate_host(std::size_t bytes) override {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw DeviceError("no memory");
    const Block block(static_cast<std::byte*>(at), [bytes](std::byte* p) { munmap(p, bytes); });
    pinned.push_back(block);
    return block;
  }
  Block allocate(std::size_t bytes) override {
    // One owner of its own: the inner device's blocks share theirs.
    const Block block(device_.allocate(bytes).get(), [keeps = shared_inner()](std::byte*) {});
    given.push_back(block);
    return block;
  }
  std::unique_ptr<Mark> make_mark() override { return device_.make_mark(); }
  void copy(Queue queue, void* to, const void* from, std::size_t bytes) override { device_.copy(queue, to, from, bytes); }

  std::vector<std::weak_ptr<std::byte>> pinned{}, given{};

 private:
  DeviceMemory& device_;
};

bool all_live(const std::vector<std::weak_ptr<std::byte>>& blocks) {
  return !blocks.empty() && std::none_of(blocks.begin(), blocks.end(), [](const auto& b) { return b.expired(); });
}
bool none_lives(const std::vector<std::weak_ptr<std::byte>>& blocks) {
  return std::all_of(blocks.begin(), blocks.end(), [](const auto& b) { return b.expired(); });
}

}  // namespace

// MPI goes on writing into what was given to a receive, also when the rank that asked for it has failed.
TEST_CASE("device law: memory of messages that an error leaves unfinished lives as long as the transport") {
  Graph graph;
  const Tensor image = graph.input("image", {{"batch", 8}, {"in", 2}, {"rows", 8}, {"cols", 8}});
  const Step step = training(sum(conv2d(relu(conv2d(image, {.out = {"f", 6}, .window = 3, .padding = same})),
                                        {.out = {"g", 4}, .window = 3, .padding = same})),
                             Sgd{.learning_rate = 1});
  std::vector<Device> devices(2);
  for (Device& d : devices) d.kind = DeviceKind::cuda;
  LayoutRules rules;
  rules.split.push_back({"f", "all", CutBy::even});
  rules.split.push_back({"g", "all", CutBy::even});
  const Plan plan = balance(step, Mesh({{"all", 2}}, devices), rules, {}, {});
  const auto run_rank = [&](int rank, Backend& backend, Transport& transport) {
    const Program program = compile(plan, rank);
    State state(plan, program.rank, 1, backend.device_memory());
    Executor executor(program, backend, transport, state);
    executor.feed(
        [](const std::string&, const Box&, std::span<std::byte> out) { std::fill(out.begin(), out.end(), std::byte{0}); });
    executor.run();
  };
  for (const bool direct : {false, true})
    for (const bool fails : {true, false}) {
      INFO((direct ? "messages from and to the device's memory" : "staged messages") << (fails ? ", the other rank fails" : ""));
      WatchedDevice device(testing::fake_device(reference_backend(), 3));
      auto transports = in_memory(2);
      std::unique_ptr<Transport> of_device = direct ? testing::with_device_memory(*transports[0], device) : nullptr;
      Transport& transport = direct ? *of_device : *transports[0];
      if (fails) {
        transports[1]->abort(DeviceError("fell off the bus"));
        CHECK_THROWS_WITH(run_rank(0, device, transport), Catch::Contains("fell off the bus"));
        CHECK_FALSE(transport.idle());
        CHECK(all_live(device.pinned));
        CHECK(all_live(device.given));
      } else {
        std::thread other([&] { run_rank(1, *testing::fake_device(reference_backend(), 4), *transports[1]); });
        run_rank(0, device, transport);
        other.join();
        CHECK(transport.idle());
      }
      if (fails) of_device.reset();
      if (fails) transports.clear();
      CHECK(none_lives(device.pinned));
      CHECK(none_lives(device.given));
    }
}
