// SPDX-License-Identifier: Apache-2.0
// Is an automatic layout as good as what a user would write? Random networks (convolutions with and without norms, residual blocks
// and pools, dense layers, a loss) on random modelled machines of up to 8 devices of up to three kinds on up to three hosts, one
// axis or two. For each the predicted step of the automatic layout, of rules that a user would write (batch, filters, dense layers,
// both, every other of them, the classes too, rows, batch x filters), each with its best parts, and the seconds of the processor
// that planning took. A case is determined by its number.
//   choices [--quick] [--json FILE] [--from N] [--to N]
#include <motley/motley.h>
#include <motley/ops.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "bench/support/reported.h"
#include "plan/plan_data.h"
#include "profiler/modelled.h"
#include "program/predict.h"

using namespace motley;

namespace {

using Random = std::mt19937;

Index between(Random& random, Index low, Index high) {
  return std::uniform_int_distribution<Index>(low, high)(random);
}
double spread(Random& random, double low, double high) {  // equally often in each octave
  return low * std::pow(high / low, std::uniform_real_distribution(0.0, 1.0)(random));
}
bool chance(Random& random, double p) {
  return std::uniform_real_distribution(0.0, 1.0)(random) < p;
}

struct Case {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Tensor loss{};
  std::vector<std::string> filters{}, features{};  // dims of convolutions, of dense layers
  bool rows = false;
  std::string text{};
};

void add_convolutions(Case& one, Random& random, Tensor& h, Index size) {
  const auto dim = [&] { return "filters" + std::to_string(one.filters.size() + 1); };
  for (Index left = between(random, 0, 5); left > 0; left--) {
    const Index filters = chance(random, 0.5) ? Index{16} << between(random, 0, 4) : between(random, 5, 200);
    const std::string made = dim();
    one.filters.push_back(made);
    h = conv2d(h, {.out = {made, filters}, .window = chance(random, 0.3) ? 1 : 3, .padding = same});
    one.text += " conv" + std::to_string(filters);
    if (chance(random, 0.3)) h = batch_norm(h), one.text += "+norm";
    h = relu(h);
    if (chance(random, 0.25)) {
      const std::string inner = dim();
      one.filters.push_back(inner);
      const Tensor branch = relu(conv2d(h, {.out = {inner, filters}, .window = 3, .padding = same}));
      h = add(h, conv2d(branch, {.out = {made, filters}, .window = 3, .padding = same}));
      one.text += "+residual";
    }
    if (size > 4 && chance(random, 0.6)) h = max_pool2d(h, {.window = 2}), size /= 2, one.text += "+pool";
  }
}

Case random_network(Random& random) {
  Case out;
  const Dim batch{"batch", Index{1} << between(random, 0, 7)};
  const Index size = Index{1} << between(random, 3, 6);
  Tensor h = out.graph->input("image", {batch, {"channels", 3}, {"rows", size}, {"cols", size}});
  out.text = std::to_string(batch.size) + " of " + std::to_string(size);
  add_convolutions(out, random, h, size);
  out.rows = !out.filters.empty();
  if (chance(random, 0.4)) h = global_avg_pool2d(h);
  for (Index left = between(random, 0, 3); left > 0; left--) {
    const Index features = chance(random, 0.5) ? Index{64} << between(random, 0, 5) : between(random, 10, 1500);
    out.features.push_back("features" + std::to_string(out.features.size() + 1));
    h = relu(dense(h, {.out = {{out.features.back(), features}}}));
    out.text += " dense" + std::to_string(features);
  }
  const Dim classes{"classes", between(random, 2, 100)};
  const Tensor label = out.graph->input("label", {batch}, DType::i32);
  out.loss = mean(softmax_cross_entropy(dense(h, {.out = {classes}}), label, classes));
  return out;
}

Mesh random_machine(Random& random, std::string& text) {
  const int kinds = static_cast<int>(between(random, 1, 3)), hosts = static_cast<int>(between(random, 1, 3));
  const double launch = chance(random, 0.3) ? 0 : spread(random, 1e-6, 1e-5), most = spread(random, 1e11, 6e13);
  std::vector<Device> devices;
  for (int kind = 0; kind < kinds; kind++) {
    auto numbers = std::make_shared<DeviceNumbers>();
    numbers->flops_per_second = kind == 0 ? most : most * spread(random, 0.05, 1.0);
    numbers->memory_bytes_per_second = numbers->flops_per_second * spread(random, 0.03, 0.2);
    numbers->launch_seconds = launch;
    numbers->granules.filters = Index{1} << between(random, 0, 5);
    numbers->granules.channels = chance(random, 0.5) ? 1 : 8;
    const Index count = between(random, kinds == 1 ? 2 : 1, 8 / kinds);
    for (Index k = 0; k < count; k++) {
      Device device;
      device.name = std::string(1, static_cast<char>('a' + kind)) + "[" + std::to_string(k) + "]";
      device.kind = DeviceKind::modelled;
      device.numbers = numbers;
      device.host = "host " + std::to_string(kind * hosts / kinds);
      devices.push_back(std::move(device));
    }
    text += (kind > 0 ? " + " : "") + std::to_string(count);
  }
  std::vector<MeshLink> links;
  links.push_back({MeshLink::Between::hosts, "", "", spread(random, 5e-6, 5e-5), spread(random, 1e9, 5e10)});
  links.push_back({MeshLink::Between::ranks, "", "", spread(random, 1e-6, 1e-5), spread(random, 5e9, 3e11)});
  const int ranks = static_cast<int>(devices.size());
  const bool two = ranks % 2 == 0 && ranks > 2 && chance(random, 0.3);
  text += two ? ", 2 axes" : "";
  return {two ? std::vector<Axis>{{"outer", ranks / 2}, {"inner", 2}} : std::vector<Axis>{{"all", ranks}}, devices, links};
}

// By name: what a user would write.
std::map<std::string, LayoutRules> guesses(const Case& one, const Mesh& mesh) {
  std::vector<std::string> axes, every = one.filters;
  for (const Axis& a : mesh.axes()) axes.push_back(a.name);
  every.insert(every.end(), one.features.begin(), one.features.end());
  std::map<std::string, LayoutRules> out;
  const auto add = [&](const std::string& name, const std::vector<std::string>& dims) {
    for (const std::string& d : dims) out[name].split.emplace_back(d, Axes(axes));
  };
  add("batch", {"batch"});
  add("filters", one.filters);
  add("dense layers", one.features);
  add("filters and dense layers", every);
  for (std::size_t i = 0; i < every.size(); i++) add(i % 2 == 0 ? "first of each pair" : "second of each pair", {every[i]});
  if (one.rows) add("rows", {"rows"});
  if (axes.size() > 1) {
    LayoutRules& both = out["batch x filters"];
    both.split.emplace_back("batch", axes.front());
    for (const std::string& d : every) both.split.emplace_back(d, axes.back());
  }
  every.emplace_back("classes");
  add("classes too", every);
  return out;
}

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

int bench_all(int argc, char** argv) {
  int from = 0, to = 100;
  std::string json;
  for (int i = 1; i < argc; i++) {
    const std::string a = argv[i];
    if (a == "--quick")
      to = 20;
    else if (a == "--json" && i + 1 < argc)
      json = argv[++i];
    else if (a == "--from" && i + 1 < argc)
      from = std::atoi(argv[++i]);
    else if (a == "--to" && i + 1 < argc)
      to = std::atoi(argv[++i]);
    else
      throw UserError("argument \"" + a + "\" (known: --quick --json --from --to)");
  }
  Json rows{Json::Array{}};
  std::vector<double> worse, gain;
  double automatic_seconds = 0;
  std::printf("%4s  %9s  %5s  %6s  %9s  %9s  %s\n", "case", "auto, us", "cpu s", "plans", "auto/best", "batch/auto",
              "best guess; network; devices");
  for (int number = from; number < to; number++) {
    Random random(1000 + static_cast<unsigned>(number));
    const Case one = random_network(random);
    std::string machine;
    const Mesh mesh = random_machine(random, machine);
    const Profile profile = modelled_profile(mesh);
    const Step step = training(one.loss, Sgd{.learning_rate = 0.1});
    const auto planned = [&](const LayoutRules& rules) {
      return *balance(step, mesh, rules, profile, {.baselines = false}).data().step_seconds;
    };
    const double began = processor_seconds();
    const std::int64_t plans_before = plans_predicted();
    const double chosen = planned(LayoutRules::automatic()), took = processor_seconds() - began;
    const std::int64_t plans = plans_predicted() - plans_before;
    double best = HUGE_VAL, batch = 0;
    std::string name;
    for (const auto& [guess, rules] : guesses(one, mesh)) {
      if (rules.split.empty()) continue;
      const double seconds = planned(rules);
      if (guess == "batch") batch = seconds;
      if (seconds < best) best = seconds, name = guess;
    }
    worse.push_back(chosen / best);
    gain.push_back(batch / chosen);
    automatic_seconds += took;
    std::printf("%4d  %9.1f  %5.2f  %6lld  %9.3f  %9.2f  %s; %s; %s\n", number, chosen * 1e6, took, static_cast<long long>(plans),
                chosen / best, batch / chosen, name.c_str(), one.text.c_str(), machine.c_str());
    std::fflush(stdout);
    Json row;
    row.set("case", number).set("auto_seconds", chosen).set("best_guess", name).set("best_guess_seconds", best);
    row.set("batch_seconds", batch).set("planning_cpu_seconds", took).set("complete_plans", plans);
    rows.push(std::move(row));
  }
  if (worse.empty()) return 0;
  std::sort(worse.begin(), worse.end());
  std::sort(gain.begin(), gain.end());
  std::printf(
      "auto / best guess: median %.3f, most %.3f, above 1.01 in %td of %zu; batch / auto: median %.2f, most %.2f; %.1f s to plan "
      "auto\n",
      worse[worse.size() / 2], worse.back(), worse.end() - std::upper_bound(worse.begin(), worse.end(), 1.01), worse.size(),
      gain[gain.size() / 2], gain.back(), automatic_seconds);
  if (!json.empty()) write_file(json, to_text(rows, 1) + "\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::reported("choices", [&] { return bench_all(argc, argv); });
}
