// SPDX-License-Identifier: Apache-2.0
// What do norms and a softmax cost beside loops by hand (a row at a time, sums in f64 too), and these beside a copy?
//   norms [--quick] [--isa NAME] [--json FILE]
// One rank, one thread, an inference; the smallest of several interleaved rounds, in this thread's processor time.
#include <fmt/core.h>
#include <motley/backend.h>
#include <motley/error.h>
#include <motley/executor.h>
#include <motley/ops.h>
#include <motley/program.h>
#include <motley/step.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>

#include "bench/support/hand_loops.h"
#include "kernels/open_cpu.h"

namespace {

using namespace motley;

double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// In large pages, as motley's buffers are where they can be.
struct Floats {
  explicit Floats(Index bytes) : all(static_cast<float*>(std::aligned_alloc(kPage, rounded(bytes))), std::free) {
    static_cast<void>(madvise(all.get(), rounded(bytes), MADV_HUGEPAGE));
    std::fill_n(all.get(), bytes / 4, 0.5F);
  }
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  static std::size_t rounded(Index bytes) { return (static_cast<std::size_t>(bytes) + kPage - 1) / kPage * kPage; }
  std::unique_ptr<float, decltype(&std::free)> all;
};

struct Ready {
  Program program;
  State state;
  Executor executor;
  Ready(const Plan& plan, Backend& backend, Transport& transport)
      : program(compile(plan, 0)), state(plan, 0, 1, nullptr), executor(program, backend, transport, state) {
    executor.feed([](const std::string&, const Box&, std::span<std::byte> bytes) {
      const std::span<float> values(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
      for (std::size_t i = 0; i < values.size(); i++) values[i] = 0.01F * static_cast<float>(i % 101) - 0.5F;
    });
  }
};

}  // namespace

int main(int argc, char** argv) try {
  bool quick = false;
  std::string json;
  Device device;
  device.threads = 1;
  for (int i = 1; i < argc; i++) {
    const std::string flag = argv[i];
    if (flag == "--quick")
      quick = true;
    else if (flag == "--isa" && i + 1 < argc)
      device.isa = argv[++i];
    else if (flag == "--json" && i + 1 < argc)
      json = argv[++i];
    else
      throw UserError("norms: unknown option " + flag + " (known: --quick, --isa NAME, --json FILE)", Exit::usage);
  }
  const auto backend = open_cpu(device);
  fmt::print(
      "norms on {}, {}: time over a loop by hand, and that over a copy of as many bytes\n{:>14} {:>7} {:>9} {:>8} {:>8} {:>13}\n",
      backend->model(), backend->isa(), "op", "rows", "features", "MiB", "ratio", "hand over copy");
  const bench::HandLoops& loops = bench::hand_loops(backend->isa());
  std::string rows;
  for (const auto& [name, by_hand] : loops.rows)
    for (const Index features : {256, 1024, 4096})
      for (const Index bytes : {Index{256} << 10, Index{4} << 20, Index{64} << 20}) {
        const Index count = bytes / 4 / features;
        Graph graph;
        const Tensor x = graph.input("x", {{"rows", count}, {"features", features}});
        const Tensor y = name == "softmax" ? softmax(x) : name == "rms_norm" ? rms_norm(x) : layer_norm(x);
        const Plan plan = balance(inference({y}), Mesh({{"all", 1}}, {device}), {}, {});
        auto transports = in_memory(1);
        Ready ready(plan, *backend, *transports[0]);
        const Floats from(bytes), to(bytes);
        const std::vector<float> weight(static_cast<std::size_t>(features), 1.0F), bias(weight.size(), 0.0F);
        double best[3] = {1e9, 1e9, 1e9};  // motley, by hand, a copy
        const Index times = std::max<Index>(1, (quick ? Index{4} << 20 : Index{64} << 20) / bytes);
        for (int round = 0; round < (quick ? 5 : 15); round++)
          for (int which = 0; which < 3; which++) {
            const double begin = now();
            for (Index k = 0; k < times; k++) {
              if (which == 0) static_cast<void>(ready.executor.run_forward());
              if (which == 1) by_hand({from.all.get(), to.all.get(), weight.data(), bias.data()}, count, features);
              if (which == 2) std::memcpy(to.all.get(), from.all.get(), static_cast<std::size_t>(bytes));
              from.all.get()[k] = to.all.get()[k * 7 % (bytes / 4)];
            }
            best[which] = std::min(best[which], now() - begin);
          }
        fmt::print("{:>14} {:>7} {:>9} {:>8.2f} {:>8.2f} {:>13.2f}\n", name, count, features,
                   static_cast<double>(bytes) / (1 << 20), best[0] / best[1], best[1] / best[2]);
        const auto per = static_cast<double>(times);
        rows += fmt::format(
            "{}{{\"op\": \"{}\", \"isa\": \"{}\", \"rows\": {}, \"features\": {}, \"seconds\": {:.4g}, "
            "\"by_hand_seconds\": {:.4g}, \"copy_seconds\": {:.4g}}}",
            rows.empty() ? "" : ",\n", name, backend->isa(), count, features, best[0] / per, best[1] / per, best[2] / per);
      }
  if (!json.empty()) std::ofstream(json) << "[" << rows << "]\n";
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 64;
}
