// SPDX-License-Identifier: Apache-2.0
// What does each pass of the compiler do? Three convolutions of 256 filters (16 x 16) on two hosts with one rank each, and VGG-16
// (one dense layer of 4096 instead of two, 224 x 224) on two hosts with two ranks each, batch 32, and ResNet-50's convolutions
// (biases in place of batch norms) on four hosts with one rank each and on one host: all passes, then each of them switched off.
// Nothing is executed: kernels, messages and bytes are counted in the four Programs, and seconds come from the simulator with one
// rate for all kernels of a kind (200 Gflop/s for contractions) and links of 30 us and 0.5 GB/s between hosts, 1 us and 10 GB/s
// inside a host, so that they are the same on every machine. buffer_bytes: the size of the largest rank's arena if no two buffers
// shared memory.
//   passes [--quick] [--json FILE]
//   passes --run [--quick]: trains small residual networks on one rank, with fused maps and without in turn, and prints how much
//   faster
#include <motley/backend.h>
#include <motley/error.h>
#include <motley/executor.h>
#include <motley/motley.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <set>
#include <tuple>

#include "base/json.h"
#include "bench/support/bound.h"
#include "bench/support/networks.h"
#include "bench/support/reported.h"
#include "tests/support/synthetic_profile.h"

using namespace motley;

namespace {

Profile profile_of(const Mesh& mesh) {
  Profile out = testing::synthetic_profile(mesh, std::vector<double>(static_cast<std::size_t>(mesh.ranks()), 20), 5e8);
  for (Link& link : out.links)
    if (mesh.device(link.from).host == mesh.device(link.to).host)
      link.segments = link.in_place = {{Index{1} << 40, 1e-6, 10e9}};
    else
      link.segments = {{Index{1} << 40, 30e-6, 5e8}};
  return out;
}

struct Way {
  const char* off;
  Plan plan;
  CompileOptions options{};
};

// Prints its line.
Json row_of(const std::string& net, int hosts, const std::string& cut, const Way& way, const Profile& profile) {
  std::vector<Program> programs;
  for (int r = 0; r < way.plan.mesh().ranks(); r++) programs.push_back(compile(way.plan, r, way.options));
  Index kernels = 0, messages = 0, sent = 0, in_place = 0, flags = 0, arena = 0, buffers = 0;
  for (const Program& p : programs) {
    arena = std::max(arena, p.arena_bytes);
    Index all = 0;
    for (const Buffer& b : p.buffers) all += b.space == Space::arena && b.last >= 0 ? b.bytes : 0;
    buffers = std::max(buffers, all);
    for (const ProgramStep& s : p.steps) {
      kernels += std::holds_alternative<RunKernel>(s.what) ? 1 : 0;
      const auto* post = std::get_if<Post>(&s.what);
      if (post == nullptr) continue;
      std::set<int> signal;  // peers
      for (const Piece& piece : post->receives) {
        messages += piece.window ? 0 : 1;
        if (piece.window) signal.insert(piece.peer);
        (piece.window ? in_place : sent) += piece.bytes;
      }
      flags += static_cast<Index>(signal.size());
    }
  }
  const Simulated times = simulate(programs, profile);
  const double waiting = *std::max_element(times.waiting_seconds.begin(), times.waiting_seconds.end());
  auto in = [](Index count, double unit) { return static_cast<double>(count) / unit; };
  std::printf("%-8s %5d %5d  %-8s %-12s %9.0f %9.0f %11.1f %6.0f %12.1f %9.1f %10.1f %8.2f %11.2f\n", net.c_str(),
              way.plan.mesh().ranks(), hosts, cut.c_str(), way.off, in(kernels, 1), in(messages, 1), in(sent, 1e6), in(flags, 1),
              in(in_place, 1e6), in(arena, 1e6), in(buffers, 1e6), times.step_seconds * 1e3, waiting * 1e3);
  Json row;
  row.set("net", net)
      .set("ranks", way.plan.mesh().ranks())
      .set("hosts", hosts)
      .set("cut", cut)
      .set("off", way.off)
      .set("kernels", kernels)
      .set("messages", messages)
      .set("message_bytes", sent)
      .set("flags", flags)
      .set("in_place_bytes", in_place);
  row.set("arena_bytes", arena)
      .set("buffer_bytes", buffers)
      .set("step_seconds", times.step_seconds)
      .set("waiting_seconds", waiting);
  return row;
}

int bench_all(const std::string& json) {
  Json rows{Json::Array{}};
  std::printf(
      "net      ranks hosts  cut      off            kernels  messages  message MB  flags  in place MB  arena MB  buffers MB  step "
      "ms  waiting "
      "ms\n");
  for (const auto& [name, ranks, hosts, cut] : {std::tuple{std::string("wide"), 2, 2, std::string("filters")},
                                                {"vgg16", 4, 2, "filters"},
                                                {"vgg16", 4, 2, "batch"},
                                                {"resnet50_bias", 4, 4, "batch"},
                                                {"resnet50_bias", 4, 1, "batch"}}) {
    const bench::Network net = bench::network(name, 32);
    const Step step = training(net.loss, Sgd{.learning_rate = 0.01, .momentum = 0.9});
    std::vector<Device> devices(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; r++) devices[static_cast<std::size_t>(r)].host = "host " + std::to_string(r * hosts / ranks);
    const Mesh mesh({{"all", ranks}}, devices);
    const Profile profile = profile_of(mesh);
    LayoutRules rules;
    for (const std::string& dim : cut == "batch" ? std::vector<std::string>{"batch"} : net.filter_dims)
      rules.split.push_back({dim, "all", CutBy::even});
    const Plan plan = balance(step, mesh, rules, profile);
    for (const Way& way : {Way{"nothing", plan}, Way{"fuse", plan, {.fuse = false}}, Way{"fuse maps", plan, {.fuse_maps = false}},
                           Way{"share", plan, {.share = false}}, Way{"coalesce", plan, {.coalesce = false}},
                           Way{"tile", bench::without_tiles(plan)}, Way{"overlap", plan, {.pending = Pending::none}},
                           Way{"settle", plan, {.settle = false}}, Way{"place", plan, {.reuse_memory = false}}}) {
      rows.push(row_of(name, hosts, cut, way, profile));
    }
  }
  if (!json.empty()) write_file(json, to_text(rows, 1) + "\n");
  return 0;
}

// Blocks of two convolutions with a residual connection, each activation after the one before (a chain of maps in both halves).
Step residual_step(Index filters, Index size, const std::function<Tensor(const Tensor&)>& activation) {
  Graph graph;
  Tensor x = conv2d(graph.input("image", {{"batch", 16}, {"in", 3}, {"rows", size}, {"cols", size}}),
                    {.out = {"f0", filters}, .window = 3, .padding = same});
  for (const std::string k : {"1", "2", "3", "4"}) {
    const Tensor branch =
        conv2d(activation(conv2d(x, {.out = {"f" + k, filters}, .window = 1})), {.out = {"f0", filters}, .window = 1});
    x = activation(add(branch, x));
  }
  return training(sum(conv2d(x, {.out = {"g", 4}, .window = 1})), Sgd{.learning_rate = 1e-9});
}

// One rank's step, ready to run.
struct Ready {
  Program program;
  State state;
  Executor executor;
  Ready(const Plan& plan, const CompileOptions& options, Backend& backend, Transport& transport)
      : program(compile(plan, 0, options)), state(plan, 0, 1, nullptr), executor(program, backend, transport, state) {
    executor.feed([](const std::string&, const Box&, std::span<std::byte> bytes) {
      const std::span<float> values(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
      for (std::size_t i = 0; i < values.size(); i++) values[i] = 0.01F * static_cast<float>(i % 101) - 0.5F;
    });
  }
  double seconds(int steps) {
    const auto now = [] {  // this thread's: others do not disturb it
      timespec t{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
    };
    const double start = now();
    for (int s = 0; s < steps; s++) executor.run();
    return (now() - start) / steps;
  }
};

int run_all(bool quick) {
  Device device;
  device.threads = 1;
  const auto backend = open_backend(device);
  std::printf("%s, %s: one rank, batch 16, steps with fused maps over steps without, A B B A\n", backend->model().c_str(),
              backend->isa().c_str());
  std::printf("net                   kernels  without  ms without  with / without   95 %%\n");
  const auto twice = [](const Tensor& t) { return relu(tanh(t)); };
  for (const auto& [name, filters, size, activation] :
       {std::tuple{"relu 16 x 16x16", 16, 16, std::function<Tensor(const Tensor&)>([](const Tensor& t) { return relu(t); })},
        {"relu 32 x 32x32", 32, 32, [](const Tensor& t) { return relu(t); }},
        {"relu 64 x 56x56", 64, 56, [](const Tensor& t) { return relu(t); }},
        {"tanh, relu 32 x 32x32", 32, 32, twice}}) {
    const Plan plan = balance(residual_step(filters, size, activation), Mesh({{"all", 1}}, std::vector<Device>(1)), {}, {});
    auto transports = in_memory(1);
    Ready with(plan, {}, *backend, *transports[0]), without(plan, {.fuse_maps = false}, *backend, *transports[0]);
    const int steps = std::max(1, static_cast<int>(0.05 / without.seconds(3)));
    with.seconds(3);
    std::vector<double> ratios, apart;
    for (int pair = 0; pair < (quick ? 10 : 60); pair++) {
      double a = 0, b = 0;
      for (const bool first : {pair % 2 == 0, pair % 2 != 0}) (first ? a : b) = (first ? with : without).seconds(steps);
      ratios.push_back(a / b);
      apart.push_back(b);
    }
    std::sort(ratios.begin(), ratios.end());
    std::sort(apart.begin(), apart.end());
    const double n = static_cast<double>(ratios.size()), half = 0.98 * std::sqrt(n);  // ranks around the median, by the sign test
    const auto at = [&](double rank) { return ratios[static_cast<std::size_t>(std::clamp(rank, 0.0, n - 1))]; };
    auto kernels = [](const Program& p) {
      return std::count_if(p.steps.begin(), p.steps.end(),
                           [](const ProgramStep& s) { return std::holds_alternative<RunKernel>(s.what); });
    };
    std::printf("%-21s %7td %8td %11.3f %15.3f   %.3f to %.3f\n", name, kernels(with.program), kernels(without.program),
                apart[apart.size() / 2] * 1e3, at(n / 2), at(n / 2 - half), at(n / 2 + half));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::string json;
  bool runs = false, quick = false;
  return bench::reported("passes", [&] {
    for (std::size_t i = 0; i < words.size(); i++) {
      if (words[i] == "--json" && i + 1 < words.size())
        json = words[++i];
      else if (words[i] == "--run")
        runs = true;
      else if (words[i] == "--quick")
        quick = true;
      else
        throw UserError("unknown argument \"" + words[i] + "\" (known: --quick --json --run)", Exit::usage);
    }
    return runs ? run_all(quick) : bench_all(json);
  });
}
