// SPDX-License-Identifier: Apache-2.0
// The laws on a real GPU: its kernels against the reference, and GPU and CPU ranks in one plan. Skipped (77) where there is none.
#include <motley/error.h>
#include <motley/ops.h>

#include <catch2/catch.hpp>
#include <cstdio>

#include "kernels/cuda_module.h"
#include "tests/support/backend_law.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"

using namespace motley;
using namespace motley::law;

namespace {

Device gpu() {
  const CudaFacts facts = cuda_facts();
  if (facts.gpus.empty()) {
    std::printf("skipped: %s\n", facts.missing.c_str());
    std::exit(77);
  }
  Device device;
  device.name = "gpu";
  device.kind = DeviceKind::cuda;
  return device;
}

}  // namespace

TEST_CASE("CUDA law: every kernel against the reference", "[kernels]") {
  const auto backend = open_cuda_backend(gpu());
  CHECK(testing::backend_law(*backend, 31, share_of(3000), testing::LawMode::exact) == "");
  CHECK(testing::backend_law(*backend, 32, share_of(3000), testing::LawMode::tolerance) == "");
  CHECK(testing::backend_law(*backend, 33, share_of(1000), testing::LawMode::tolerance, DType::bf16) == "");
}

TEST_CASE("CUDA law: a NaN survives every engine, with relu inside too", "[nan]") {
  Device device = gpu();
  for (const bool tf32 : {false, true}) {
    device.tf32 = tf32;
    INFO((tf32 ? "with TF32" : "strict f32"));
    CHECK(testing::nan_law(*open_cuda_backend(device)) == "");
  }
}

TEST_CASE("CUDA law: GPU and CPU ranks in one plan, small integers, bit for bit", "[layouts]") {
  const Device device = gpu();
  for (int number = 0; number < share_of(60); number++) {
    Random random(static_cast<unsigned>(97000 + number));
    const Network net = build(random_integer_recipe(random));
    const Step step = training(net.loss, Sgd{.learning_rate = 1, .momentum = 0});
    std::vector<Device> devices(static_cast<std::size_t>(pick(random, 1, 3)));
    devices[static_cast<std::size_t>(pick(random, 0, static_cast<Index>(devices.size()) - 1))] = device;
    const int ranks = static_cast<int>(devices.size());
    for (int r = 0; r < ranks; r++) devices[static_cast<std::size_t>(r)].name = "rank " + std::to_string(r);
    LayoutRules rules;
    for (const Dim& d : net.dims)
      if (chance(random, 0.5)) rules.split.push_back({d, "all", Sizes{parts(random, d.size, ranks)}});
    INFO("case " << number);
    try {
      const Plan many = balance(step, Mesh({{"all", ranks}}, devices), rules, {});
      const Plan one = balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
      const Outcome truth = run_plan(one, {.steps = 1, .integers = true});
      const Outcome cut = run_plan(many, {.steps = 1, .integers = true, .cpu_backend = true, .real_devices = true});
      CHECK(difference(cut, truth) == 0);
    } catch (const UserError& e) {
      REQUIRE(std::string(e.what()).find("cannot both be cut") != std::string::npos);
    }
  }
}
