// SPDX-License-Identifier: Apache-2.0
// How much of a filter-split layer's communication between two hosts is hidden behind its kernels? Three 3x3 convolutions of 256
// filters, 16x16, batch 16, filters cut evenly over two ranks, one core each: whole training steps in three variants: every
// exchange is waited for at once ("at once"); exchanges are in flight while kernels run; and tensors are also tiled, their
// messages sent in pieces, where the simulation predicts a gain. The variants run in turn in one run; medians of the slower rank.
// exposed = the step's time minus the time of its kernels run alone; hidden = 1 - exposed / exposed at once; link_over_kernels:
// the seconds of the messages alone divided by those of the kernels; polling: time that this process spends between kernels on
// messages in flight (with TCP it copies received data then; the time of the operating system's kernel is in no column). Two
// networks: a synthetic one that delays each message by bytes / rate and uses no core (like a network adapter with its own
// engine), and TCP between two network namespaces, where both cores compute and the operating system copies on the same two
// cores. Goal: at least 0.7 hidden where the link takes no longer than the kernels.
//   overlap [--quick] [--json FILE] [--budget SECONDS]
// TCP needs root and Debian's iproute2, and is started from the top folder: tests/laws/two_hosts.py.
#include <motley/error.h>
#include <motley/motley.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/json.h"
#include "bench/support/bound.h"
#include "bench/support/delayed_link.h"
#include "bench/support/networks.h"
#include "bench/support/reported.h"
#include "plan/plan_data.h"
#include "run/start.h"

using namespace motley;

namespace {

Mesh two_hosts() {
  const std::vector<int> cores = allowed_cores();
  Device here, there;
  here.name = "here", there.name = "there";
  here.host = "10.77.0.1", there.host = "10.77.0.2";
  here.cores = {cores.front()}, there.cores = {cores.back()};
  return Mesh({{"all", 2}}, {here, there});
}

struct Way {
  std::string name{};
  Plan plan;
  Pending pending = Pending::none;
};

// The plan as it was chosen, and without tiles.
std::vector<Way> ways_of(const Plan& chosen) {
  const Plan plain = bench::without_tiles(chosen);
  return {{"at once", plain, Pending::none}, {"pending", plain, Pending::far}, {"tiled", chosen, Pending::far}};
}

std::vector<Program> programs_of(const Way& way) {
  std::vector<Program> out;
  for (int r = 0; r < way.plan.mesh().ranks(); r++) out.push_back(compile(way.plan, r, {.pending = way.pending}));
  return out;
}

double link_seconds(const Program& program, const Profile& profile) {
  double sum = 0;
  for (const ProgramStep& s : program.steps)
    if (const auto* post = std::get_if<Post>(&s.what))
      for (const Piece& p : post->receives) sum += profile.seconds(p.peer, program.rank, p.bytes).seconds;
  return sum;
}

std::size_t tiled_hops(const Plan& plan) {
  std::size_t out = 0;
  for (const TensorPlan& t : plan.data().tensors)
    for (const auto hop : kHops) out += (t.*hop).tiles > 0;
  return out;
}

// known: of a network whose speed need not be measured.
Json rows_of(Runtime& rt, const std::string& link, const std::string& file, double budget, int rounds,
             std::optional<bench::LinkSpeed> known) {
  const Mesh mesh = two_hosts();
  const bench::Network net = bench::network("wide", 16);
  const Step step = training(net.loss, Sgd{.learning_rate = 0.001, .momentum = 0.9});
  LayoutRules rules;
  for (const char* dim : {"filters1", "filters2", "filters3"}) rules.split.push_back({dim, "all", CutBy::even});
  Profile profile = measure(rt, mesh, step, rules, file + ".profile", {.budget_seconds = budget});
  if (known) {
    const std::vector<LinkSegment> segments{{Index{1} << 40, known->seconds, known->bytes_per_second}};
    profile.links = {{0, 1, segments}, {1, 0, segments}};
  }
  const std::vector<Way> ways = ways_of(balance(step, mesh, rules, profile));
  struct Pair {
    std::unique_ptr<bench::Bound> whole{}, alone{};
    std::vector<double> polling{};
  };
  std::vector<Pair> pairs;
  for (const Way& w : ways) {
    const Program program = compile(w.plan, rt.rank(), {.pending = w.pending});
    pairs.push_back({std::make_unique<bench::Bound>(w.plan, program, rt.backend(mesh), rt.transport()),
                     std::make_unique<bench::Bound>(w.plan, bench::kernels_alone(program), rt.backend(mesh), rt.transport())});
  }
  for (int i = 0; i <= rounds; i++)
    for (Pair& p : pairs) {
      agree(rt.transport(), 0);
      p.polling.push_back(p.whole->run().polling_seconds);
      agree(rt.transport(), 0);
      p.alone->run();
    }
  Json rows{Json::Array{}};
  double at_once = 0;
  for (std::size_t k = 0; k < ways.size(); k++) {
    const double whole = bench::median(bench::slowest(rt.transport(), pairs[k].whole->seconds()));
    const double alone = bench::median(bench::slowest(rt.transport(), pairs[k].alone->seconds()));
    const double polling = bench::median(bench::slowest(rt.transport(), pairs[k].polling));
    const std::vector<Program> programs = programs_of(ways[k]);
    const double messages = std::max(link_seconds(programs[0], profile), link_seconds(programs[1], profile));
    if (k == 0) at_once = whole - alone;
    Json row;
    row.set("link", link)
        .set("way", ways[k].name)
        .set("batch", 16)
        .set("threads", 1)
        .set("step_seconds", whole)
        .set("kernels_seconds", alone);
    row.set("predicted_seconds", simulate(programs, profile).step_seconds).set("exposed_seconds", whole - alone);
    row.set("hidden", k == 0 ? Json(nullptr) : Json(1 - (whole - alone) / at_once)).set("link_over_kernels", messages / alone);
    row.set("polling_seconds", polling).set("tiled_hops", static_cast<std::int64_t>(tiled_hops(ways[k].plan)));
    row.set("machine", rt.backend(mesh).model()).set("library", rt.backend(mesh).library());
    rows.push(std::move(row));
  }
  return rows;
}

// Two ranks as threads.
Json by_delays(const std::string& file, bench::LinkSpeed speed, double budget, int rounds) {
  char name[64];
  std::snprintf(name, sizeof name, "delays, %.0f MB/s", speed.bytes_per_second / 1e6);
  Json rows;
  run_ranks(bench::delayed(2, speed), [&](Runtime& rt) {
    Json mine = rows_of(rt, name, file, budget, rounds, speed);
    if (rt.rank() == 0) rows = std::move(mine);
  });
  return rows;
}

// Two ranks in namespaces of their own; nothing where they cannot be had.
Json by_tcp(const std::string& program, const std::string& file, const std::string& budget, const std::string& rounds) {
  if (!std::filesystem::exists("tests/laws/two_hosts.py")) return {};
  const std::string command = "RANKS=2 timeout 200 python3 tests/laws/two_hosts.py '" + program + "' --rank '" + file + "' " +
                              budget + " " + rounds + " >&2";
  if (std::system(command.c_str()) != 0)
    std::fprintf(stderr, "overlap: two hosts by TCP did not end well, or cannot be had here\n");
  if (!std::filesystem::exists(file)) return {};
  Complaints complaints;
  return *read_json(file, read_file(file), complaints);
}

void print(const Json& row) {
  auto number = [&](const char* key) {
    const auto* v = std::get_if<double>(&row.find(key)->value);
    return v == nullptr ? 0.0 : *v;
  };
  std::printf("%-18s %-10s %9.2f %11.2f %13.2f %11.2f %7.2f %13.2f %11.2f %7lld\n",
              std::get<std::string>(row.find("link")->value).c_str(), std::get<std::string>(row.find("way")->value).c_str(),
              number("step_seconds") * 1e3, number("kernels_seconds") * 1e3, number("predicted_seconds") * 1e3,
              number("exposed_seconds") * 1e3, number("hidden"), number("link_over_kernels"), number("polling_seconds") * 1e3,
              static_cast<long long>(std::get<std::int64_t>(row.find("tiled_hops")->value)));
}

int bench_all(const std::vector<std::string>& words) {
  bool quick = false;
  std::string json;
  double budget = 10;
  for (std::size_t i = 0; i < words.size(); i++) {
    if (words[i] == "--quick")
      quick = true;
    else if (words[i] == "--json" && i + 1 < words.size())
      json = words[++i];
    else if (words[i] == "--budget" && i + 1 < words.size())
      budget = std::stod(words[++i]);
    else
      throw UserError("unknown argument \"" + words[i] + "\" (known: --quick --json FILE --budget SECONDS)", Exit::usage);
  }
  if (quick) budget = std::min(budget, 4.0);
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("motley-overlap-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::printf(
      "link               way          step ms  kernels ms  predicted ms  exposed ms  hidden  link/kernels  polling ms   tiled\n");
  Json rows{Json::Array{}};
  auto take = [&](const Json& made) {
    if (!std::holds_alternative<Json::Array>(made.value)) return;
    for (const Json& row : std::get<Json::Array>(made.value)) {
      print(row);
      rows.push(row);
    }
    std::fflush(stdout);
  };
  const int rounds = quick ? 5 : 11;
  for (const double rate : {400e6, 200e6, 100e6, 70e6})
    take(by_delays((folder / "delays").string(), {20e-6, rate}, budget, rounds));
  take(by_tcp(std::filesystem::read_symlink("/proc/self/exe"), (folder / "tcp").string(), std::to_string(budget),
              std::to_string(rounds)));
  std::filesystem::remove_all(folder);
  if (!json.empty()) write_file(json, to_text(rows, 1) + "\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 4 && words[0] == "--rank")
    return run(argc, argv, [&](Runtime& rt) {
      const Json rows = rows_of(rt, "TCP", words[1], std::stod(words[2]), std::stoi(words[3]), std::nullopt);
      if (rt.rank() == 0) write_file(words[1], to_text(rows, 1) + "\n");
    });
  return bench::reported("overlap", [&] { return bench_all(words); });
}
