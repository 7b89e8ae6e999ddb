// SPDX-License-Identifier: Apache-2.0
// How good are the chosen cuts? Two ranks with one core each: one uses the full ISA, the other a capped one. For each convolution
// and pass, both ranks measure their time tables at the same time, first in steps of 8 filters, then around the best cut;
// balance_dim chooses a cut of the filters. Then all cuts in steps of 4, and of 1 around the chosen one, are timed with both
// ranks running at once, in interleaved rounds. Odd rounds select the best cut; even rounds time it and the chosen one.
// With --network: whole small networks instead, each beside a profile of the same run. balance() chooses; all cuts of the cut dims
// in steps of 4 or 8 (two dims: one after the other from a grid) run real training steps in interleaved rounds, the best few again:
// medians, the best cut named by every other round, timed by those between. Rounds in which others had more than 5 % of a core are
// dropped; more than 30 % of them dropped: exit 1. Where one core's speed has moved beside the other's since the profile, the
// network is profiled and run again.
//   balance [--network] [--quick] [--json FILE] [--partner ISA]... [--only PART_OF_A_SHAPE_OR_NAME]
#include <motley/backend.h>
#include <motley/error.h>
#include <motley/motley.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "bench/support/convolution_cuts.h"
#include "bench/support/launched.h"
#include "bench/support/mpi_ranks.h"
#include "bench/support/network_cuts.h"
#include "bench/support/reported.h"
#include "run/start.h"

using namespace motley;

namespace {

// Batch 8..32, channels 16..256, filters 48..256, sizes 7..32, windows 1, 3, 5.
constexpr bench::Convolution kCases[] = {{8, 64, 28, 64, 3},    {8, 64, 28, 96, 3},  {8, 64, 28, 128, 3},   {16, 64, 14, 256, 3},
                                         {16, 128, 14, 128, 3}, {8, 32, 32, 64, 3},  {32, 32, 16, 96, 3},   {32, 256, 7, 128, 3},
                                         {16, 192, 7, 192, 3},  {32, 16, 32, 48, 3}, {16, 96, 14, 112, 3},  {32, 64, 8, 80, 3},
                                         {8, 48, 28, 100, 3},   {32, 64, 28, 64, 1}, {32, 256, 14, 128, 1}, {16, 128, 28, 96, 1},
                                         {32, 256, 7, 256, 1},  {8, 256, 14, 64, 1}, {8, 32, 28, 64, 5},    {16, 48, 14, 128, 5},
                                         {8, 64, 14, 96, 5},    {32, 32, 8, 256, 5}};
constexpr std::size_t kQuick[] = {2, 7, 13, 18};  // with --quick
constexpr PassKind kPasses[] = {PassKind::forward, PassKind::backward_data, PassKind::backward_filter};
struct Arguments {
  bool quick = false, rank = false, network = false;
  std::string json{}, isa{}, only{};
  std::vector<std::string> partners{};
};

// Not a number: there is none (no run of that cut kept both cores).
double number_in(const Json& row, const char* key) {
  const Json::Value& value = row.find(key)->value;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&value);
  return real != nullptr && std::isfinite(*real) ? *real : NAN;
}

void print(const Json& row) {
  auto number = [&](const char* key) { return number_in(row, key); };
  auto text = [&](const char* key) { return std::get<std::string>(row.find(key)->value); };
  std::printf("%-30s %-15s %-6s %9s %9s  %6.3f %6.3f %6.3f %6.3f  %8.3f  %6.3f\n", text("shape").c_str(), text("pass").c_str(),
              text("partner_isa").c_str(), to_text(*row.find("chosen_parts")).c_str(), to_text(*row.find("best_parts")).c_str(),
              number("chosen_over_best"), number("even_over_best"), number("proportional_over_best"),
              number("fast_alone_over_best"), number("best_seconds") * 1e3, number("predicted_over_measured"));
  std::fflush(stdout);
}

// Rank 0 prints the rows and, with --json, writes them.
void run_rank(Transport& transport, const Arguments& arguments) {
  const bool pinned = bench::stay_on_core(static_cast<std::size_t>(transport.rank()));
  if (agree(transport, pinned ? 0 : 1).status != 0) throw UserError("bench/balance needs two cores, one per rank", Exit::device);
  Device device;
  device.name = arguments.isa.empty() ? "whole" : arguments.isa;
  device.isa = arguments.isa;
  const std::unique_ptr<Backend> backend = open_backend(device);
  bench::ConvolutionCuts cuts(transport, *backend, arguments.quick);
  Json rows{Json::Array{}};
  std::vector<std::size_t> which(std::size(kCases));
  std::iota(which.begin(), which.end(), std::size_t{0});
  if (arguments.quick) which.assign(std::begin(kQuick), std::end(kQuick));
  std::erase_if(which, [&](std::size_t i) { return bench::shape_of(kCases[i]).find(arguments.only) == std::string::npos; });
  for (std::size_t i : which)
    for (PassKind pass : kPasses) {
      Json row = cuts.row(kCases[i], pass);
      row.set("partner_isa", arguments.partners.front());
      row.set("machine", backend->model());
      row.set("isa", backend->isa());
      row.set("library", backend->library());
      if (transport.rank() == 0) print(row);
      rows.push(std::move(row));
      if (transport.rank() == 0 && !arguments.json.empty())
        write_file(arguments.json, to_text(rows, 2) + "\n");  // a run broken off keeps its rows
    }
}

// This program as two ranks; mpiexec's exit code.
int start_ranks(const Arguments& arguments, const std::string& partner, const std::string& json) {
  std::vector<std::string> rank{"-n", "1", bench::own_path(), "--rank", "--partner", partner};
  if (arguments.quick) rank.push_back("--quick");
  if (!json.empty()) rank.insert(rank.end(), {"--json", json});
  if (!arguments.only.empty()) rank.insert(rank.end(), {"--only", arguments.only});
  std::vector<std::string> words = rank;
  words.push_back(":");
  words.insert(words.end(), rank.begin(), rank.end());
  words.insert(words.end(), {"--isa", partner});
  return bench::run_mpiexec(std::move(words));
}

// partner empty: all rows.
void summarise(const std::vector<Json>& rows, const std::string& partner) {
  for (const char* key : {"chosen_over_best", "even_over_best", "proportional_over_best", "fast_alone_over_best"}) {
    std::vector<double> v;
    for (const Json& row : rows)
      if ((partner.empty() || std::get<std::string>(row.find("partner_isa")->value) == partner) &&
          std::isfinite(number_in(row, key)))
        v.push_back(number_in(row, key));
    if (v.empty()) continue;
    std::sort(v.begin(), v.end());
    std::printf("%s%-8s %-24s median %.3f  max %.3f  (%zu rows)\n", partner.empty() ? "all rows" : "beside ", partner.c_str(), key,
                v[v.size() / 2], v.back(), v.size());
  }
}

Mesh fast_and(const std::string& partner) {
  Device fast, slow;
  fast.name = "fast";
  fast.cores = {allowed_cores().front()};
  slow.name = partner;
  slow.isa = partner;
  slow.cores = {allowed_cores().back()};
  return Mesh({{"all", 2}}, {fast, slow});
}

struct NetworkRun {
  std::string name{}, partner{}, file{};
  bool quick = false;
};

constexpr Index kMostProfiles = 3;  // of a network, while the machine's speed moves between profile and steps

void run_network_rank(Runtime& rt, const NetworkRun& one) {
  const Mesh mesh = fast_and(one.partner);
  const bench::SmallNetwork net = bench::small_network(one.name);
  bench::NetworkCutsOptions options{.profile = one.file + ".profile"};
  if (one.quick) options = {.profile = options.profile, .budget_seconds = 6, .rounds = 10};
  Json made;
  Index profiles = 0;
  do {
    made = bench::NetworkCuts(rt, mesh, net, options).row();
  } while (++profiles < kMostProfiles && !(number_in(made, "speed_moved") <= bench::kMoved));
  if (rt.rank() != 0) return;
  Json row{Json::Object{}};
  row.set("network", one.name).set("partner_isa", one.partner).set("profiles", profiles);
  for (const Json::Member& m : std::get<Json::Object>(made.value)) row.set(m.key, m.value);
  row.set("machine", rt.backend(mesh).model()).set("isa", rt.backend(mesh).isa()).set("library", rt.backend(mesh).library());
  write_file(one.file, to_text(row) + "\n");
}

int run_all(const Arguments& arguments) {
  std::printf("%-30s %-15s %-6s %9s %9s  %6s %6s %6s %6s  %8s  %6s\n", "convolution", "pass", "beside", "chosen", "best", "chosen",
              "even", "prop.", "alone", "best ms", "pred.");
  std::fflush(stdout);
  std::vector<Json> rows;
  Json all{Json::Array{}};
  for (const std::string& partner : arguments.partners) {
    const std::string part = "/tmp/motley_balance_" + std::to_string(getpid()) + "_" + partner + ".json";
    if (const int code = start_ranks(arguments, partner, part); code != 0) return code;
    Complaints complaints;
    const auto json = read_json(part, read_file(part), complaints);
    complaints.raise();
    unlink(part.c_str());
    for (const Json& row : std::get<Json::Array>(json->value)) {
      rows.push_back(row);
      all.push(row);
    }
  }
  for (const std::string& partner : arguments.partners) summarise(rows, partner);
  const auto busy = std::count_if(rows.begin(), rows.end(), [](const Json& row) { return number_in(row, "runs_lost") > 0.1; });
  if (busy > 0)
    std::printf("%ld of %zu rows on a busy machine: more than a tenth of their runs lost a core and were repeated\n",
                static_cast<long>(busy), rows.size());
  if (!arguments.json.empty()) write_file(arguments.json, to_text(all, 2) + "\n");
  return 0;
}

void print_network(const Json& row) {
  auto number = [&](const char* key) { return number_in(row, key); };
  auto text = [&](const char* key) { return std::get<std::string>(row.find(key)->value); };
  std::printf("%-16s %-6s %-24s %-24s %8.3f %6.3f %6.3f %6.3f %6.3f %6.3f %6.3f %6.3f %7.0f %5.0f\n", text("network").c_str(),
              text("partner_isa").c_str(), to_text(*row.find("chosen_parts")).c_str(), to_text(*row.find("best_parts")).c_str(),
              number("best_seconds") * 1e3, number("chosen_over_best"), number("even_over_best"), number("proportional_over_best"),
              number("fast_alone_over_best"), number("predicted_over_measured"), number("speed_moved"), number("spread"),
              number("rounds"), number("rounds_dropped"));
  std::fflush(stdout);
}

// Exit code 1, with a message: other processes had the cores too often for a row to say anything, or one core's speed moved beside
// the other's.
int judged(const std::vector<Json>& rows) {
  std::string names;
  double dropped = 0;
  for (const Json& row : rows) {
    dropped += number_in(row, "rounds_dropped");
    if (number_in(row, "dropped_share") > bench::kMostDropped || !(number_in(row, "speed_moved") <= bench::kMoved))
      names +=
          " " + std::get<std::string>(row.find("network")->value) + "/" + std::get<std::string>(row.find("partner_isa")->value);
  }
  std::printf("%.0f rounds dropped: other processes had more than %.0f %% of a core\n", dropped, 100 * bench::kDisturbed);
  if (names.empty()) return 0;
  std::fprintf(stderr,
               "balance: other processes disturbed more than %.0f %% of the rounds, or one core's speed moved by more than %.0f %% "
               "beside the other's, of:%s; run it again on a quieter machine\n",
               100 * bench::kMostDropped, 100 * (bench::kMoved - 1), names.c_str());
  return 1;
}

int run_networks(const Arguments& arguments) {
  std::vector<std::string> names = bench::small_network_names();
  if (arguments.quick) names = {"pair_3x3", "batch"};
  std::erase_if(names, [&](const std::string& name) { return name.find(arguments.only) == std::string::npos; });
  if (names.empty())
    throw UserError("--only " + arguments.only + " leaves no network; without it --network lists all of them", Exit::usage);
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("motley-networks-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::printf("%-16s %-6s %-24s %-24s %8s %6s %6s %6s %6s %6s %6s %6s %7s %5s\n", "network", "beside", "chosen", "best", "best ms",
              "chosen", "even", "prop.", "alone", "pred.", "moved", "spread", "rounds", "lost");
  std::fflush(stdout);
  std::vector<Json> rows;
  int code = 0;
  for (const std::string& partner : arguments.partners)
    for (const std::string& name : names) {
      const std::string file = (folder / (name + "_" + partner + ".json")).string();
      Json row;
      code = bench::launched(fast_and(partner).devices(),
                             {"--network-rank", name, partner, file, arguments.quick ? "quick" : "whole"}, file, row);
      if (code != 0) return code;
      print_network(row);
      rows.push_back(std::move(row));
      if (!arguments.json.empty())
        write_file(arguments.json, to_text(Json(Json::Array(rows)), 2) + "\n");  // a run broken off keeps its rows
    }
  std::filesystem::remove_all(folder);
  for (const std::string& partner : arguments.partners) summarise(rows, partner);
  summarise(rows, "");
  return judged(rows);
}

Arguments read_arguments(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i];
    auto value = [&] {
      if (i + 1 >= argc) throw UserError(word + " needs a value", Exit::usage);
      return std::string(argv[++i]);
    };
    if (word == "--quick")
      out.quick = true;
    else if (word == "--network")
      out.network = true;
    else if (word == "--rank")
      out.rank = true;
    else if (word == "--json")
      out.json = value();
    else if (word == "--only")
      out.only = value();
    else if (word == "--isa")
      out.isa = value();
    else if (word == "--partner")
      out.partners.push_back(value());
    else
      throw UserError(
          "unknown option " + word + "; known: --network --quick --json FILE --partner ISA --only PART_OF_A_SHAPE_OR_NAME",
          Exit::usage);
  }
#if defined(__x86_64__)
  const bool wide = __builtin_cpu_supports("avx512f") != 0;  // without it AVX2 is the whole ISA
#else
  const bool wide = false;
#endif
  if (out.network && out.partners.empty() && !wide) out.partners = {"sse41"};
  if (out.partners.empty()) out.partners = out.quick ? std::vector<std::string>{"avx2"} : std::vector<std::string>{"avx2", "sse41"};
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (const std::vector<std::string> words(argv + 1, argv + argc); words.size() == 5 && words[0] == "--network-rank")
    return run(argc, argv, [&](Runtime& rt) { run_network_rank(rt, {words[1], words[2], words[3], words[4] == "quick"}); });
  return bench::reported("balance", [&] {
    const Arguments arguments = read_arguments(argc, argv);
    if (arguments.network) return run_networks(arguments);
    if (!arguments.rank) return run_all(arguments);
    return bench::on_rank("balance", argc, argv, [&](Transport& transport) { run_rank(transport, arguments); });
  });
}
