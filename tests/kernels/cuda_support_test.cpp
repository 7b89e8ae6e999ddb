// SPDX-License-Identifier: Apache-2.0
// cuDNN, asked about GPUs that are only described, without one here: every convolution of the shipped networks and of their uneven
// cuts has a deterministic engine that keeps f32 whole.
#include <motley/error.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <unordered_set>

#include "balance/needed_kernels.h"
#include "base/json.h"
#include "config/model.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/cuda/kernel_text.h"
#include "kernels/cuda/machine_code.h"
#include "kernels/cuda/map_text.h"
#include "kernels/cuda/window_text.h"
#include "tests/support/backend_law.h"
#include "tests/support/formulas.h"

using namespace motley;
using namespace motley::cuda;

namespace {

namespace fs = std::filesystem;

// Of the source tree, or of a pack (scripts/gpu-check).
fs::path folder(const char* variable, const char* usual) {
  const char* given = std::getenv(variable);
  return given == nullptr ? usual : given;
}

// Every different convolution that a rank of two or three runs under uneven shares of filters, of batch, of rows.
std::vector<KernelSpec> shipped_convolutions() {
  std::vector<KernelSpec> out;
  std::unordered_set<std::size_t> seen;
  for (const auto& file : fs::directory_iterator(folder("MOTLEY_CONFIGS", CONFIGS) / "models")) {
    const Model model = build_model(ModelSpec::load(file.path()), 32);
    const Step step = training(model.loss, motley::Sgd{.learning_rate = 0.01});
    for (const std::vector<double>& shares : {std::vector<double>{60, 40}, {70, 25, 5}, {98, 1, 1}, {100, 0}})
      for (const std::string cut : {"filters", "batch", "rows"}) {
        std::vector<Device> devices(shares.size());
        for (Device& d : devices) d.kind = DeviceKind::cuda;
        const Mesh mesh({{"all", static_cast<int>(shares.size())}}, devices);
        LayoutRules rules;
        for (const StepTensor& t : step.passes().tensors)
          for (const Dim& d : t.shape.dims())
            if (d.name.starts_with(cut) &&
                std::none_of(rules.split.begin(), rules.split.end(), [&](const auto& rule) { return rule.dim == d.name; }))
              rules.split.push_back({d, "all", Shares{shares}});
        const Plan plan = balance(step, mesh, rules, {});
        for (int r = 0; r < mesh.ranks(); r++)
          for (KernelSpec spec : kernels_of(plan.data(), r)) {
            if (spec.op != KernelOp::conv2d) continue;
            if (spec.pass == PassKind::forward) {
              spec.bias = true;
              spec.epilogue = testing::forward_of("relu");
            }
            if (seen.insert(hash_of(spec)).second) out.push_back(std::move(spec));
          }
      }
  }
  return out;
}

// As the driver reports it.
Index memory_of(const std::string& described) {
  Complaints complaints;
  return std::get<std::int64_t>(read_json("a described GPU", described, complaints).value().find("totalGlobalMem")->value);
}

}  // namespace

TEST_CASE("a convolution may take a sixteenth of a GPU's memory, the same on two cards of one model") {
  CHECK(workspace_limit(150754820096) == Index{8} << 30);  // an H200
  CHECK(workspace_limit(150454820096) == Index{8} << 30);  // another one, whose driver keeps 300 MB more
  CHECK(workspace_limit(Index{6} << 30) == Index{256} << 20);
  CHECK(workspace_limit(Index{16} << 30) == Index{1} << 30);
  CHECK(workspace_limit(0) == 0);
}

TEST_CASE("with more workspace cuDNN has other engines for the weight gradient of a ResNet's first layer, none above the limit") {
  const Descriptor device = described_device(read_file((folder("MOTLEY_DEVICES", DEVICES) / "h200.json").string()));
  KernelSpec spec;
  spec.pass = PassKind::backward_filter;
  spec.roles = {128, 3, 224, 224, 64, 7, 7, 112, 112};
  spec.stride = {2, 2};
  spec.padding = {3, 2, 3, 2};
  spec.x_format = spec.w_format = spec.y_format = Format::channels_last;
  const auto engines = [&](std::int64_t most_workspace_bytes) {
    std::string names;
    for (const ConvolutionPlan& plan :
         plan_convolution(spec, {nullptr, device.raw()}, {.tf32 = true, .most_workspace_bytes = most_workspace_bytes})) {
      CHECK(plan.workspace_bytes <= most_workspace_bytes);
      names += plan.engine + " ";
    }
    return names;
  };
  const std::string small = engines(std::int64_t{1} << 28), large = engines(workspace_limit(150754820096));
  INFO("256 MiB: " << small << "; 8 GiB: " << large);
  CHECK(small != large);
}

// Depthwise, of two filters per channel, and by wider groups; without an engine our own kernel does it.
TEST_CASE("cuDNN has engines for convolutions by groups on described GPUs") {
  for (const char* name : {"h200", "a100", "t4"}) {
    const Descriptor device =
        described_device(read_file((folder("MOTLEY_DEVICES", DEVICES) / (std::string(name) + ".json")).string()));
    for (const PassKind pass : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter})
      for (const Index stride : {1, 2})
        for (const auto& [g, c, f] : {std::array<Index, 3>{32, 1, 1}, {60, 1, 1}, {32, 1, 2}, {8, 4, 4}, {3, 20, 7}, {2, 64, 64}}) {
          KernelSpec spec;
          spec.pass = pass;
          spec.roles = {16, c, 28, 28, f, 3, 3, 28 / stride, 28 / stride, g};
          spec.stride = {stride, stride};
          spec.padding = {1, 2 - stride, 1, 2 - stride};
          spec.x_format = spec.w_format = spec.y_format = Format::channels_last;
          INFO(name << ": " << summary(spec));
          CHECK(!plan_convolution(spec, {nullptr, device.raw()}, {.most_workspace_bytes = Index{1} << 30}).empty());
        }
  }
}

// On tensor cores, with sums in f32. Without a bias, and if the result is bf16 too: cuDNN 9.19 has no other. A T4 has none at all.
TEST_CASE("cuDNN has engines for bf16 on described GPUs") {
  for (const char* name : {"h200", "a100"}) {
    const Descriptor device =
        described_device(read_file((folder("MOTLEY_DEVICES", DEVICES) / (std::string(name) + ".json")).string()));
    for (const PassKind pass : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter})
      for (const auto& [c, f] : {std::pair<Index, Index>{64, 64}, {3, 64}, {64, 17}, {25, 39}})
        for (const Index window : {1, 3}) {
          KernelSpec spec;
          spec.pass = pass;
          spec.dtype = spec.result = DType::bf16;
          spec.roles = {16, c, 28, 28, f, window, window, 28, 28};
          spec.padding.fill(window / 2);
          spec.x_format = spec.w_format = spec.y_format = Format::channels_last;
          INFO(name << ": " << summary(spec));
          CHECK(!plan_convolution(spec, {nullptr, device.raw()}, {.most_workspace_bytes = Index{1} << 30}).empty());
        }
  }
}

TEST_CASE("cuDNN has an engine for every convolution of the shipped networks and their cuts on described GPUs") {
  const std::vector<KernelSpec> specs = shipped_convolutions();
  REQUIRE(specs.size() > 100);
  for (const char* name : {"h200", "a100", "t4"}) {
    const std::string described = read_file((folder("MOTLEY_DEVICES", DEVICES) / (std::string(name) + ".json")).string());
    const Descriptor device = described_device(described);
    const PlanOptions usual{.most_workspace_bytes = workspace_limit(memory_of(described))};
    const auto plans_of = [&](const KernelSpec& spec, std::size_t most, const std::string& only = "") {
      PlanOptions options = usual;
      options.most = most;
      options.only = only;
      return plan_convolution(spec, {nullptr, device.raw()}, options);
    };
    std::size_t without = 0, fused = 0, asked = 0, choices = 0, named = 0, forward = 0, onto = 0;
    std::int64_t most = 0;
    std::string first, largest;
    for (const KernelSpec& spec : specs) {
      const bool nothing = !reach_of(spec).possible;
      if (nothing) continue;
      asked++;
      const bool all = asked % 40 == 0;  // building every candidate takes long
      const std::vector<ConvolutionPlan> plans = plans_of(spec, all ? usual.most : 1);
      if (plans.empty()) {
        if (without++ == 0) first = summary(spec);
        continue;
      }
      fused += plans.front().bias && plans.front().epilogue;
      if (spec.pass == PassKind::forward && spec.y_format == Format::channels_last) {
        KernelSpec added = spec;
        added.accumulate = true;
        const auto sums = plans_of(added, 1);
        CHECK(!sums.empty());
        forward++;
        onto += !sums.empty() && sums.front().sum;
      }
      if (plans.front().workspace_bytes > most) largest = summary(spec);
      most = std::max(most, plans.front().workspace_bytes);
      if (!all) continue;
      choices += plans.size();
      for (const ConvolutionPlan& plan : plans) {  // a plan's name finds exactly that engine, with the same workspace
        const std::vector<ConvolutionPlan> again = plans_of(spec, 1, plan.engine);
        REQUIRE(again.size() == 1);
        CHECK(again.front().engine == plan.engine);
        CHECK(again.front().workspace_bytes == plan.workspace_bytes);
        CHECK(again.front().bias == plan.bias);
        named++;
      }
    }
    CHECK(named > 25);
    CHECK(plans_of(specs.front(), usual.most, "cudnn:eng0_of_another_version").empty());
    std::printf(
        "%s: %zu convolutions, %zu without an engine, bias and relu inside %zu, %.1f engines to choose from; the largest workspace "
        "%lld bytes (%s)\n",
        name, asked, without, fused, 40.0 * static_cast<double>(choices) / static_cast<double>(asked), static_cast<long long>(most),
        largest.c_str());
    std::printf("%s: %zu of %zu forward convolutions can add to their result inside an engine\n", name, onto, forward);
    INFO(name << ": " << first);
    CHECK(without == 0);
  }
}

TEST_CASE("NVRTC takes the texts of motley's own kernels for every architecture") {
  int compiled_texts = 0;
  for (const char* architecture : {"sm_75", "sm_80", "sm_90", "sm_120"})
    for (int number = 0; number < 60; number++) {
      const KernelSpec spec = testing::law_case(41, number, testing::LawMode::tolerance).spec;
      if (spec.op == KernelOp::attention || number % 4 != compiled_texts % 4) continue;
      const std::string text = spec.op == KernelOp::map ? map_text(spec).text : window_kernel_text(spec);
      INFO(architecture << ": " << summary(spec));
      CHECK(compiled(text, architecture).size() > 100);
      compiled_texts++;
    }
  CHECK(compiled_texts > 20);
}
