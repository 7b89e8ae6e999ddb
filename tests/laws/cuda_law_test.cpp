// SPDX-License-Identifier: Apache-2.0
// The laws on a real GPU: its kernels against the reference, and GPU and CPU ranks in one plan. Skipped (77) where there is none.
#include <motley/error.h>
#include <motley/ops.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>

#include "kernels/cuda_module.h"
#include "kernels/operands.h"
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

// The largest difference from the f64 kernels, over the largest value of the same result; operands are from -0.5 to 0.5.
double difference_from_f64(Backend& backend, const KernelSpec& spec) {
  std::vector<testing::Image> images;
  std::uint32_t seed = 1;
  for (const OperandUse& use : operands_of(spec)) {
    testing::Image& image = images.emplace_back();
    for (Index i = 0; use.read && i < use.elements; i++) {
      seed = seed * 1664525U + 1013904223U;
      image.push_back(static_cast<double>(seed >> 16) / 65536 - 0.5);
    }
  }
  KernelSpec wide = spec;
  wide.dtype = DType::f64;
  const std::vector<testing::Image> found = testing::run_kernel(backend, spec, images),
                                    truth = testing::run_kernel(*f64_backend(), wide, images);
  double most = 0;
  for (std::size_t k = 0; k < images.size(); k++) {
    double difference = 0, largest = 0;
    for (std::size_t i = 0; i < truth[k].size(); i++) {
      difference = std::max(difference, std::abs(found[k][i] - truth[k][i]));
      largest = std::max(largest, std::abs(truth[k][i]));
    }
    if (difference > 0) most = std::max(most, difference / largest);
  }
  return most;
}

}  // namespace

TEST_CASE("CUDA law: every kernel against the reference, small integers, bit for bit", "[kernels][exact]") {
  CHECK(testing::backend_law(*open_cuda_backend(gpu()), 31, share_of(3000), testing::LawMode::exact) == "");
}
TEST_CASE("CUDA law: every kernel against the reference, reals", "[kernels][tolerance]") {
  CHECK(testing::backend_law(*open_cuda_backend(gpu()), 32, share_of(3000), testing::LawMode::tolerance) == "");
}
TEST_CASE("CUDA law: every kernel against the reference, bf16", "[kernels][bf16]") {
  CHECK(testing::backend_law(*open_cuda_backend(gpu()), 33, share_of(1000), testing::LawMode::tolerance, DType::bf16) == "");
}

TEST_CASE("CUDA law: every kernel against the reference, f64", "[kernels][f64]") {
  CHECK(testing::backend_law(*open_cuda_backend(gpu()), 35, share_of(600), testing::LawMode::tolerance, DType::f64) == "");
}

TEST_CASE("CUDA law: sums of many operands, refusals", "[other]") {
  const auto backend = open_cuda_backend(gpu());
  CHECK(testing::sums_law(*backend, {16, 56, 97}) == "");
  CHECK(testing::supports_law(*backend, 34, 300) == "");
}

TEST_CASE("CUDA law: attention whose scores are computed in several parts, by heads and by queries", "[other]") {
  const auto backend = open_cuda_backend(gpu());
  for (const auto& [heads, positions] : {std::pair{Index{20}, Index{1000}}, {Index{1}, Index{4200}}})
    for (const PassKind pass : {PassKind::forward, PassKind::backward_data}) {
      KernelSpec spec;
      spec.op = KernelOp::attention;
      spec.pass = pass;
      spec.roles = {.n = positions, .c = 64, .f = positions, .g = heads};
      spec.scale = 0.125;
      spec.causal = true;
      spec.origin = {0, 0};
      spec.made = pass == PassKind::forward ? 3 : 7;
      INFO(summary(spec));
      CHECK(difference_from_f64(*backend, spec) < 1e-4);
    }
}

TEST_CASE("CUDA law: a NaN survives every engine, with relu inside too", "[nan]") {
  Device device = gpu();
  for (const bool tf32 : {false, true}) {
    device.tf32 = tf32;
    INFO((tf32 ? "with TF32" : "strict f32"));
    CHECK(testing::nan_law(*open_cuda_backend(device), {}, tf32 ? testing::NanSpread::accepted : testing::NanSpread::refused) ==
          "");
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
