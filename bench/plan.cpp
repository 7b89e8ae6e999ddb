// SPDX-License-Identifier: Apache-2.0
// How long does planning take, how many plans does it make, how much memory does it need? ResNet-50 and MobileNetV2 (224 x 224),
// U-Net and GPT, batch 256, over 2 to 64 ranks of four unlike speeds (1, 0.6, 0.3, 0.15) on one host, on two, and on as many hosts
// as ranks: the batch cut without a profile, and to 16 ranks with a synthetic one; with it also a layout that the planner chooses:
// staircases of 16 filters and channels, links of 1 us and 10 GB/s in a host, 30 us and 1 GB/s between hosts. Each row is planned
// in a process of its own: seconds of the processor while it plans, complete plans that are predicted, the most memory that the
// process had, exchanges of a step that some rank waits for. A row that takes longer than the limit has none. --exchange-seconds:
// of an exchange in shared memory, however little it moves.
//   plan [--quick] [--json FILE] [--net NAME] [--ranks N] [--hosts N] [--profile yes|no] [--layout batch|auto] [--limit-seconds N]
//     [--exchange-seconds S]
#include <motley/motley.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "balance/needed_kernels.h"
#include "base/json.h"
#include "bench/support/networks.h"
#include "bench/support/reported.h"
#include "kernels/operands.h"
#include "plan/planner.h"
#include "program/compile.h"
#include "program/predict.h"

using namespace motley;

namespace {

constexpr Index kBatch = 256;
constexpr double kSpeeds[] = {1, 0.6, 0.3, 0.15};

struct Row {
  std::string net{};
  int ranks = 1, hosts = 1;
  bool profile = false, automatic = false;  // automatic: the planner chooses the layout
  double exchange_seconds = kUnknownExchangeSeconds;
};

struct Cost {
  double cpu_seconds = 0, step_seconds = 0;
  std::int64_t plans = 0, exchanges = 0;
};

Mesh mesh_of(const Row& row) {
  std::vector<Device> devices(static_cast<std::size_t>(row.ranks));
  for (int r = 0; r < row.ranks; r++) {
    devices[static_cast<std::size_t>(r)].name = "rank " + std::to_string(r);
    devices[static_cast<std::size_t>(r)].host = "host " + std::to_string(r * row.hosts / row.ranks);
  }
  return {{{"all", row.ranks}}, devices};
}

// A kernel with 17 filters takes as long as one with 32.
double seconds_of(KernelSpec spec, double speed) {
  const auto up = [](Index size) { return (size + 15) / 16 * 16; };
  const double memory = static_cast<double>(bytes_touched(spec)) / (10e9 * speed);
  if (spec.roles.g == 1) {
    spec.roles.c = up(spec.roles.c);
    spec.roles.f = up(spec.roles.f);
  }
  return 2e-6 + std::max(memory, spec.op == KernelOp::map ? 0.0 : flops(spec) / (100e9 * speed));
}

// Of the kernels that either layout may run.
Profile profile_of(const Mesh& mesh, const Step& step, double exchange_seconds) {
  Profile out;
  std::vector<int> ranks;
  for (int r = 0; r < mesh.ranks(); r++) ranks.push_back(r);
  KernelsByRank kernels = candidate_kernels(step, mesh, {{"batch", "all"}}, ranks);
  const KernelsByRank others = candidate_kernels(step, mesh, LayoutRules::automatic(), ranks);
  for (int r = 0; r < mesh.ranks(); r++) {
    DeviceFacts& facts = out.devices.emplace_back();
    facts.name = mesh.device(r).name;
    facts.kind = "cpu";
    facts.host = mesh.device(r).host;
    std::vector<KernelSpec>& its = kernels[static_cast<std::size_t>(r)];
    const std::vector<KernelSpec>& more = others[static_cast<std::size_t>(r)];
    its.insert(its.end(), more.begin(), more.end());
    for (const KernelSpec& spec : its) {
      const double seconds = seconds_of(spec, kSpeeds[r % std::size(kSpeeds)]);
      out.add({r, spec, {seconds, seconds, seconds, 5}, "synthetic"});
    }
    for (int q = 0; q < mesh.ranks(); q++) {
      const bool near = mesh.device(q).host == facts.host;
      Link link{r, q, {{Index{1} << 40, near ? 1e-6 : 30e-6, near ? 10e9 : 1e9}}, {}};
      if (near) {
        link.in_place = {{Index{1} << 40, 1e-7, 10e9}};
        link.exchange_seconds = exchange_seconds;
      }
      if (q != r) out.links.push_back(std::move(link));
    }
  }
  return out;
}

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

std::int64_t exchanges_of(const PlanData& plan) {
  std::set<int> waited;
  for (const Program& program : compile_all(plan))
    for (const ProgramStep& step : program.steps)
      if (const auto* wait = std::get_if<Wait>(&step.what)) waited.insert(wait->exchange);
  return static_cast<std::int64_t>(waited.size());
}

Cost plan_of(const Row& row) {
  const bench::Network net = bench::network(row.net, row.net == "vgg11" ? kBatch / 16 : kBatch);
  const Step step = training(net.loss, Sgd{.learning_rate = 0.01, .momentum = 0.9});
  const Mesh mesh = mesh_of(row);
  const LayoutRules rules = row.automatic ? LayoutRules::automatic() : LayoutRules{{"batch", "all"}};
  const Profile profile = row.profile ? profile_of(mesh, step, row.exchange_seconds) : Profile{};
  const double begin = processor_seconds();
  const std::int64_t before = plans_predicted();
  const Plan plan = balance(step, mesh, rules, profile);
  const double seconds = processor_seconds() - begin;
  return {seconds, plan.data().step_seconds.value_or(0), plans_predicted() - before, exchanges_of(plan.data())};
}

// In a process of its own. Nothing: it took longer than the limit.
struct Measured {
  std::optional<Cost> cost{};
  double peak_bytes = 0;
};
Measured measured(const Row& row, int limit_seconds) {
  int ends[2];
  if (pipe(ends) != 0) throw UserError("pipe: " + std::string(std::strerror(errno)), Exit::io);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{static_cast<rlim_t>(limit_seconds), static_cast<rlim_t>(limit_seconds)};
    setrlimit(RLIMIT_CPU, &limit);
    const int code = bench::reported("plan", [&] {
      const Cost cost = plan_of(row);
      return write(ends[1], &cost, sizeof cost) == static_cast<ssize_t>(sizeof cost) ? 0 : 1;
    });
    _exit(code);
  }
  close(ends[1]);
  Measured out;
  Cost cost;
  if (read(ends[0], &cost, sizeof cost) == static_cast<ssize_t>(sizeof cost)) out.cost = cost;
  close(ends[0]);
  int status = 0;
  rusage used{};
  wait4(child, &status, 0, &used);
  out.peak_bytes = static_cast<double>(used.ru_maxrss) * 1024;
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) throw UserError("a row failed", static_cast<Exit>(WEXITSTATUS(status)));
  return out;
}

struct Options {
  std::string json{}, net{}, profile{}, layout{};
  int ranks = 0, hosts = 0, limit_seconds = 300;
  double exchange_seconds = kUnknownExchangeSeconds;
  bool quick = false;
};

Options options_of(const std::vector<std::string>& words) {
  Options out;
  for (std::size_t i = 0; i < words.size(); i++) {
    const std::string& word = words[i];
    if (word == "--quick") {
      out.quick = true;
      continue;
    }
    const std::string value = ++i < words.size() ? words[i] : "";
    if (word == "--json")
      out.json = value;
    else if (word == "--net")
      out.net = value;
    else if (word == "--profile" && (value == "yes" || value == "no"))
      out.profile = value;
    else if (word == "--layout" && (value == "batch" || value == "auto"))
      out.layout = value;
    else if (word == "--ranks")
      out.ranks = std::stoi(value);
    else if (word == "--hosts")
      out.hosts = std::stoi(value);
    else if (word == "--limit-seconds")
      out.limit_seconds = std::stoi(value);
    else if (word == "--exchange-seconds")
      out.exchange_seconds = std::stod(value);
    else
      throw UserError("argument \"" + word +
                          "\" (known: --quick --json --net --ranks --hosts --profile yes|no --layout batch|auto "
                          "--limit-seconds --exchange-seconds)",
                      Exit::usage);
  }
  return out;
}

std::vector<Row> rows_of(const Options& options) {
  std::vector<Row> out;
  for (const char* net : {"resnet50", "mobilenet_v2", "unet", "gpt", "vgg11"})
    for (const int ranks : {2, 4, 8, 16, 64})
      for (const int hosts : std::set{1, 2, ranks})
        for (const auto& [profile, automatic] : {std::pair{false, false}, {true, false}, {true, true}}) {
          const Row row{net, ranks, hosts, profile, automatic, options.exchange_seconds};
          const bool chosen = (options.net.empty() || options.net == net) && (options.ranks == 0 || options.ranks == ranks) &&
                              (options.hosts == 0 || options.hosts == hosts) &&
                              (options.profile.empty() || (options.profile == "yes") == profile) &&
                              (options.layout.empty() || (options.layout == "auto") == automatic);
          const bool small = row.net == "resnet50" && ranks <= 8 && hosts <= 2;
          if (chosen && (!profile || ranks <= 16) && (!options.quick || small)) out.push_back(row);
        }
  return out;
}

int bench_all(const Options& options) {
  Json rows{Json::Array{}};
  std::printf("net           ranks  hosts  profile  layout    cpu s   plans  peak MB  exchanges   step ms\n");
  for (const Row& row : rows_of(options)) {
    const Measured of = measured(row, options.limit_seconds);
    const char* const layout = row.automatic ? "auto" : "batch";
    std::printf("%-12s %6d %6d  %-7s  %-6s", row.net.c_str(), row.ranks, row.hosts, row.profile ? "yes" : "no", layout);
    if (of.cost)
      std::printf(" %8.2f %7lld %8.0f %10lld %9.2f\n", of.cost->cpu_seconds, static_cast<long long>(of.cost->plans),
                  of.peak_bytes / 1e6, static_cast<long long>(of.cost->exchanges), of.cost->step_seconds * 1e3);
    else
      std::printf("  > %d s\n", options.limit_seconds);
    Json cells;
    cells.set("net", row.net).set("ranks", row.ranks).set("hosts", row.hosts).set("profile", row.profile).set("layout", layout);
    cells.set("planning_cpu_seconds", of.cost ? Json(of.cost->cpu_seconds) : Json());
    cells.set("plans", of.cost ? Json(of.cost->plans) : Json());
    cells.set("exchanges", of.cost ? Json(of.cost->exchanges) : Json());
    cells.set("peak_bytes", of.cost ? Json(of.peak_bytes) : Json());
    cells.set("step_seconds", of.cost && row.profile ? Json(of.cost->step_seconds) : Json());
    rows.push(std::move(cells));
  }
  if (!options.json.empty()) write_file(options.json, to_text(rows, 1) + "\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  return bench::reported("plan", [&] { return bench_all(options_of(words)); });
}
