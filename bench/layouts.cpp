// SPDX-License-Identifier: Apache-2.0
// What does each layout of a convolutional network cost, and does the prediction hold? Four 3x3 convolutions (64, 128, 128, 128
// filters, 32x32, batch 16), cut evenly: batch; every filter dim; the input channels of every other convolution; the paper's
// pairs (every other filter dim); rows with halo; and batch x filters on 2 x 2 ranks. One core per rank, except that the 2 x 2
// ranks share two cores. All layouts run in turn within one job per mesh; medians over rounds, of the slower rank. Goals: bytes
// counted = bytes planned on every rank; predicted within 15 % of measured.
//   layouts [--quick] [--json FILE] [--budget SECONDS]
#include <motley/error.h>
#include <motley/motley.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "base/json.h"
#include "bench/support/bound.h"
#include "bench/support/launched.h"
#include "bench/support/networks.h"
#include "bench/support/reported.h"
#include "plan/plan_data.h"
#include "run/start.h"

using namespace motley;

namespace {

struct Cutting {
  std::string name{};
  std::vector<std::pair<std::string, std::string>> rules{};  // dim, axis
};

const std::vector<Cutting>& cuttings(bool square) {
  static const std::vector<Cutting> line{
      {"batch", {{"batch", "all"}}},
      {"filters", {{"filters1", "all"}, {"filters2", "all"}, {"filters3", "all"}, {"filters4", "all"}}},
      {"channels", {{"channels", "all"}, {"filters2", "all"}}},
      {"pairs", {{"filters1", "all"}, {"filters3", "all"}}},
      {"rows", {{"rows", "all"}}}};
  static const std::vector<Cutting> both{
      {"batch x filters",
       {{"batch", "data"}, {"filters1", "model"}, {"filters2", "model"}, {"filters3", "model"}, {"filters4", "model"}}},
      {"batch x pairs", {{"batch", "data"}, {"filters1", "model"}, {"filters3", "model"}}}};
  return square ? both : line;
}

Mesh mesh_of(bool square) {
  const std::vector<int> cores = allowed_cores();
  std::vector<Device> devices(square ? 4 : 2);
  for (std::size_t r = 0; r < devices.size(); r++) {
    devices[r].name = "rank " + std::to_string(r);
    devices[r].cores = {r % 2 == 0 ? cores.front() : cores.back()};
  }
  return square ? Mesh({{"data", 2}, {"model", 2}}, devices) : Mesh({{"all", 2}}, devices);
}

Json list(const std::vector<Index>& values) {
  return Json(Json::Array(values.begin(), values.end()));
}

struct Run {
  std::string name{};
  std::unique_ptr<bench::Bound> bound{};
  Index counted = 0;  // bytes of this rank, the same in every run
};

Json row_of(Runtime& rt, const Mesh& mesh, const Run& run) {
  const PlanData& data = run.bound->plan().data();
  std::vector<Index> planned, counted;
  for (const PredictedRank& r : data.predicted) planned.push_back(r.bytes);
  for (const auto& bytes : rt.transport().gather_all(std::as_bytes(std::span(&run.counted, 1))))
    counted.push_back(*reinterpret_cast<const Index*>(bytes.data()));
  const double measured = bench::median(bench::slowest(rt.transport(), run.bound->seconds()));
  Json row;
  row.set("layout", run.name).set("ranks", mesh.ranks()).set("batch", 16).set("threads", 1).set("step_seconds", measured);
  row.set("predicted_seconds", *data.step_seconds).set("predicted_over_measured", *data.step_seconds / measured);
  row.set("bytes_planned", list(planned)).set("bytes_counted", list(counted));
  row.set("machine", rt.backend(mesh).model()).set("library", rt.backend(mesh).library());
  return row;
}

void run_rank(Runtime& rt, bool square, const std::string& file, double budget, int rounds) {
  const Mesh mesh = mesh_of(square);
  const bench::Network net = bench::network("four", 16);
  const Step step = training(net.loss, Sgd{.learning_rate = 0.001, .momentum = 0.9, .weight_decay = 1e-4});
  std::vector<Run> runs;
  for (const Cutting& c : cuttings(square)) {
    LayoutRules rules;
    for (const auto& [dim, axis] : c.rules) rules.split.push_back({dim, axis, CutBy::even});
    const Profile profile = measure(rt, mesh, step, rules, file + ".profile", {.budget_seconds = budget});
    const Plan plan = balance(step, mesh, rules, profile);
    runs.push_back({c.name, std::make_unique<bench::Bound>(plan, compile(plan, rt.rank(), {.hosts = rt.transport().hosts()}),
                                                           rt.backend(mesh), rt.transport())});
  }
  for (int i = 0; i <= rounds; i++)
    for (Run& r : runs) {
      agree(rt.transport(), 0);
      r.counted = r.bound->run().bytes_received;
    }
  Json rows{Json::Array{}};
  for (const Run& r : runs) rows.push(row_of(rt, mesh, r));
  if (rt.rank() == 0) write_file(file, to_text(rows, 1) + "\n");
}

struct Arguments {
  bool quick = false;
  std::string json{};
  double budget = 8;  // per layout
};

Arguments parse(const std::vector<std::string>& words) {
  Arguments out;
  for (std::size_t i = 0; i < words.size(); i++) {
    auto value = [&] {
      if (i + 1 >= words.size()) throw UserError(words[i] + " needs a value", Exit::usage);
      return words[++i];
    };
    if (words[i] == "--quick")
      out.quick = true;
    else if (words[i] == "--json")
      out.json = value();
    else if (words[i] == "--budget")
      out.budget = std::stod(value());
    else
      throw UserError("unknown argument \"" + words[i] + "\" (known: --quick --json --budget)", Exit::usage);
  }
  if (out.quick) out.budget = std::min(out.budget, 3.0);
  return out;
}

std::string bytes_of_ranks(const Json& row, const char* key) {
  std::string text;
  for (const Json& b : std::get<Json::Array>(row.find(key)->value)) text += (text.empty() ? "" : " ") + to_text(b);
  return text;
}

int bench_all(const Arguments& a) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("motley-layouts-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  Json rows{Json::Array{}};
  std::printf("%-16s %5s %9s %13s %19s  %s\n", "layout", "ranks", "step ms", "predicted ms", "predicted/measured",
              "bytes counted per rank (planned)");
  for (const bool square : {false, true}) {
    const std::string file = (folder / (square ? "square.json" : "line.json")).string();
    Json made;
    if (const int code = bench::launched(
            mesh_of(square).devices(), {"--rank", square ? "square" : "line", file, std::to_string(a.budget), a.quick ? "5" : "15"},
            file, made);
        code != 0)
      return code;
    for (const Json& row : std::get<Json::Array>(made.value)) {
      auto number = [&](const char* key) { return std::get<double>(row.find(key)->value); };
      std::printf("%-16s %5lld %9.2f %13.2f %19.3f  %s (%s)\n", std::get<std::string>(row.find("layout")->value).c_str(),
                  static_cast<long long>(std::get<std::int64_t>(row.find("ranks")->value)), number("step_seconds") * 1e3,
                  number("predicted_seconds") * 1e3, number("predicted_over_measured"),
                  bytes_of_ranks(row, "bytes_counted").c_str(), bytes_of_ranks(row, "bytes_planned").c_str());
      rows.push(row);
    }
  }
  std::filesystem::remove_all(folder);
  if (!a.json.empty()) write_file(a.json, to_text(rows, 1) + "\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 5 && words[0] == "--rank")
    return run(argc, argv,
               [&](Runtime& rt) { run_rank(rt, words[1] == "square", words[2], std::stod(words[3]), std::stoi(words[4])); });
  return bench::reported("layouts", [&] { return bench_all(parse(words)); });
}
