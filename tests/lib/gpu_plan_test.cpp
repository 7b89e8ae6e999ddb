// SPDX-License-Identifier: Apache-2.0
// Plans from hand-written profiles: a GPU and a CPU, of which each gets what pays; two hosts, where tensors are tiled where it
// pays.
#include <motley/ops.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "plan/plan_data.h"
#include "plan/planner.h"
#include "program/compile.h"
#include "program/predict.h"

using namespace motley;

namespace {

Step network() {
  Graph g;
  const Dim batch{"batch", 64}, classes{"classes", 10};
  const Tensor image = g.input("image", {batch, {"in", 3}, {"rows", 32}, {"cols", 32}});
  const Tensor label = g.input("label", {batch}, DType::i32);
  Tensor h = relu(conv2d(image, {.out = {"f1", 64}, .window = 5, .padding = same}));
  h = max_pool2d(h, {.window = 2});
  h = relu(conv2d(h, {.out = {"f2", 96}, .window = 3, .padding = same}));
  return training(mean(softmax_cross_entropy(dense(h, {.out = {classes}}), label, classes)), Sgd{.learning_rate = 0.1});
}

Mesh gpu_and_cpu(Index gpu_memory_bytes = 0) {
  Device gpu, cpu;
  gpu.memory_bytes = gpu_memory_bytes;
  gpu.name = "gpu";
  gpu.kind = DeviceKind::cuda;
  cpu.name = "cpu";
  return Mesh({{"all", 2}}, {gpu, cpu});
}

// Every op runs at these rates; messages at the link's.
Profile profile_of(const std::vector<double>& flops_per_second, double link_seconds, double link_bytes_per_second) {
  Profile profile;
  for (std::size_t d = 0; d < flops_per_second.size(); d++) {
    profile.devices.push_back({d == 0 ? "gpu" : "cpu", d == 0 ? "cuda" : "cpu", "synthetic", "", "none"});
    for (const KernelOp op : {KernelOp::conv2d, KernelOp::dense, KernelOp::max_pool2d, KernelOp::map})
      for (const PassKind pass : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter}) {
        KernelSpec spec;
        spec.op = op;
        spec.pass = pass;
        spec.roles = {32, 32, 16, 16, 32, 3, 3, 16, 16};
        spec.padding = {1, 1, 1, 1};
        spec.extents = {4096};
        if (op == KernelOp::map) spec.operands.assign(2, {DType::f32, {1}});
        const double seconds = flops(spec) / flops_per_second[d];
        profile.add({static_cast<int>(d), spec, {seconds, seconds, seconds, 3}, "synthetic"});
      }
  }
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 0}})
    profile.links.push_back({from, to, {{Index{1} << 40, link_seconds, link_bytes_per_second}}});
  return profile;
}

Index part(const Plan& plan, const std::string& dim, std::size_t rank) {
  for (const CutChoice& cut : plan.data().cuts)
    if (cut.dim == dim) return cut.parts.front()[rank];
  return -1;
}

}  // namespace

TEST_CASE("a GPU and a CPU: where nothing pays the CPU computes, owns and receives nothing") {
  const Step step = network();
  const Plan plan = balance(step, gpu_and_cpu(), {{"f1", "all"}, {"f2", "all"}}, profile_of({1e13, 1e11}, 30e-6, 5e9));
  CHECK(part(plan, "f1", 1) == 0);
  CHECK(part(plan, "f2", 1) == 0);
  CHECK(plan.data().predicted[1].bytes == 0);
  CHECK(compile(plan, 1).steps.empty());
  REQUIRE(plan.data().step_seconds.has_value());
  CHECK(plan.data().baselines.even > *plan.data().step_seconds);
}

TEST_CASE("a GPU whose memory does not suffice gets less, or nothing") {
  const Step step = network();
  const LayoutRules rules{{"f1", "all"}, {"f2", "all"}};
  const Profile profile = profile_of({1e12, 5e11}, 2e-6, 1e11);
  const Plan free = balance(step, gpu_and_cpu(), rules, profile);
  const Index needs = free.data().predicted[0].memory_bytes;
  REQUIRE(part(free, "f2", 0) > 0);
  const Plan less = balance(step, gpu_and_cpu(needs * 9 / 10), rules, profile),
             none = balance(step, gpu_and_cpu(1000), rules, profile);
  CHECK(less.data().predicted[0].memory_bytes <= needs * 9 / 10);
  CHECK(part(less, "f1", 0) + part(less, "f2", 0) < part(free, "f1", 0) + part(free, "f2", 0));
  CHECK(part(less, "f1", 1) + part(less, "f2", 1) > part(free, "f1", 1) + part(free, "f2", 1));
  CHECK(part(none, "f1", 0) + part(none, "f2", 0) == 0);
  try {
    static_cast<void>(balance(step, gpu_and_cpu(1000), {{"f1", "all", CutBy::even}}, profile));
    CHECK(false);
  } catch (const UserError& e) {
    for (const char* said : {"rank 0 (gpu) needs", "is the first that does not fit", "the largest: "})
      CHECK_THAT(e.what(), Catch::Contains(said));
  }
}

TEST_CASE("a GPU and a CPU: a CPU of its own weight gets a part, and messages go in pieces that both ends cut equally") {
  const Step step = network();
  const Plan plan = balance(step, gpu_and_cpu(), {{"f1", "all"}, {"f2", "all"}}, profile_of({3e10, 2e10}, 2e-6, 1e11));
  CHECK(part(plan, "f2", 1) > 0);
  CHECK(part(plan, "f1", 0) + part(plan, "f2", 0) >= part(plan, "f1", 1) + part(plan, "f2", 1));
  const Program gpu = compile(plan, 0), cpu = compile(plan, 1);
  auto pieces = [](const Program& program, bool sends) {
    std::vector<std::pair<int, Index>> out;
    for (const ProgramStep& s : program.steps)
      if (const auto* post = std::get_if<Post>(&s.what))
        for (const Piece& p : sends ? post->sends : post->receives) out.emplace_back(post->exchange, p.bytes);
    std::stable_sort(out.begin(), out.end(),
                     [](const auto& x, const auto& y) { return x.first < y.first; });  // each rank starts them when it can
    return out;
  };
  CHECK(pieces(gpu, true) == pieces(cpu, false));
  CHECK(pieces(cpu, true) == pieces(gpu, false));
  Index most = 0;
  for (const auto& [exchange, bytes] : pieces(gpu, true)) most = std::max(most, bytes);
  CHECK(most == kStagedBytes);
  // No weights are laid out again for cuDNN; without a GPU in the mesh they stay as the CPU's packing reads them best.
  const auto weights_lie = [](const Program& program, Format format) {
    return std::all_of(program.steps.begin(), program.steps.end(), [&](const ProgramStep& s) {
      const auto* run = std::get_if<RunKernel>(&s.what);
      return run == nullptr || run->spec.op != KernelOp::conv2d || run->spec.w_format == format;
    });
  };
  CHECK(weights_lie(gpu, Format::channels_last));
  CHECK(weights_lie(cpu, Format::channels_last));
  CHECK(weights_lie(compile(balance(step, Mesh({{"all", 2}}, std::vector<Device>(2)), {}, {}), 0), Format::plain));
  // What a GPU's convolutions read begins where its vectors may.
  for (const ProgramStep& s : gpu.steps)
    if (const auto* run = std::get_if<RunKernel>(&s.what); run != nullptr && run->spec.op == KernelOp::conv2d)
      for (const Place& p : run->operands) CHECK(p.element * 4 % 16 == 0);
}

namespace {

int tiled_hops(const Plan& plan) {
  int out = 0;
  for (const TensorPlan& t : plan.data().tensors)
    for (const auto hop : kHops) out += (t.*hop).tiles > 0;
  return out;
}

int adding(const Program& program) {
  int out = 0;
  for (const ProgramStep& s : program.steps)
    if (const auto* run = std::get_if<RunKernel>(&s.what)) out += run->spec.accumulate;
  return out;
}

}  // namespace

TEST_CASE("two hosts: tensors are tiled where virtual time says that it pays") {
  Graph g;
  const Dim batch{"batch", 16};
  Tensor h = g.input("image", {batch, {"in", 3}, {"rows", 16}, {"cols", 16}});
  for (const char* f : {"f1", "f2", "f3"}) h = relu(conv2d(h, {.out = {f, 64}, .window = 3, .padding = same}));
  const Step step = training(mean(h), Sgd{.learning_rate = 0.1});
  const LayoutRules rules{{"f1", "all", CutBy::even}, {"f2", "all", CutBy::even}, {"f3", "all", CutBy::even}};
  auto mesh = [](const std::string& other) {
    Device a, b;
    b.host = other;
    return Mesh({{"all", 2}}, {a, b});
  };
  auto with_tiles = [](const Plan& plan, int most, const Profile& profile) {
    PlanData data = plan.data();
    for (TensorPlan& t : data.tensors)
      for (const auto hop : kHops) (t.*hop).tiles = std::min((t.*hop).tiles, most);
    predict(data, profile);
    return data;
  };
  const Profile slow = profile_of({1e11, 1e11}, 20e-6, 5e8), slower = profile_of({1e11, 1e11}, 20e-6, 2.5e8);
  const Plan tiled = balance(step, mesh("there"), rules, slow);
  CHECK(tiled_hops(tiled) > 0);
  CHECK(adding(compile(tiled, 0)) > 0);
  CHECK(tiled.table(PlanDetail::full).find("tiled") != std::string::npos);
  CHECK(tiled.json().find("\"tiled\": true") != std::string::npos);
  const PlanData whole = with_tiles(tiled, 0, slow);
  CHECK(*tiled.data().step_seconds < 0.9 * *whole.step_seconds);
  for (std::size_t r = 0; r < 2; r++) CHECK(tiled.data().predicted[r].bytes == whole.predicted[r].bytes);
  CHECK(tiled_hops(balance(step, mesh(""), rules, slow)) == 0);  // one host: its cores do the copying
  CHECK(tiled_hops(balance(step, mesh("there"), rules, profile_of({1e11, 1e11}, 0, 1e15))) == 0);  // nothing to hide
  // A message that takes longer than the work on the own tile: kernels run on the pieces that have arrived.
  const Plan pieces = balance(step, mesh("there"), rules, slower);
  CHECK(*pieces.data().step_seconds < 0.93 * *with_tiles(pieces, 1, slower).step_seconds);
  CHECK(pieces.data().predicted[0].bytes == tiled.data().predicted[0].bytes);
}
