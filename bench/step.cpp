// SPDX-License-Identifier: Apache-2.0
// What does a training step cost beside its contractions, and what does an uneven cut gain? The paper's networks, VGG-11 and one
// column -> row pair at batch 32 on one rank, two equal ranks and two unequal ones (whole ISA beside a capped one), one core each.
// Chosen cut, even cut and the fast rank alone run in turn within one job, two steps each, of which the second counts; medians over
// rounds; contractions (convolutions, products, attention) are rank 0's, weight packing included; predicted seconds beside them.
// Goals: one rank at most 1.25 times its contractions; AVX-512 + AVX2 at least 1.35 times the fast rank alone where convolutions
// are large; never below 0.97 of it; predicted within 15 % of measured. A shared machine's speed moves between the profile and the
// run: "same_speed" is that ratio at the speed that both ranks alone show, "speed_moved" how far one rank's moved beside the
// other's (a row with more than 1.1 says little). On machines with a GPU (scripts/gpu-check): gpu alone, and gpu+cpu (all allowed
// cores but one, which drives the GPU), which shall not be slower by more than 3 %; --tf32: the GPU's f32 products on tensor cores.
//   step [--quick] [--json FILE] [--net NAME]... [--mesh one|equal|avx2|sse41|gpu|gpu+cpu]... [--batch N]... [--cut
//   filters|pairs|batch]... [--budget SECONDS] [--tf32] [--bf16] [--top N]
// --top N: below the table the N kernels that take most of rank 0's step.
#include <fmt/core.h>
#include <motley/error.h>
#include <motley/motley.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

struct Arguments {
  bool quick = false;
  std::string json{};
  std::vector<std::string> nets{}, meshes{};
  std::vector<int> batches{};
  double budget = 0;  // 0: 40, quick 15
  bool tf32 = false;
  bool bf16 = false;
  int top = 0;  // kernels listed
  std::vector<std::string> cuts{};
};

Mesh with_gpu(bool cpu, bool tf32) {
  Device first, second;
  first.name = "gpu";
  first.kind = DeviceKind::cuda;
  first.tf32 = tf32;
  second.name = "cpu";
  second.cores = allowed_cores();
  if (second.cores.size() > 1) second.cores.pop_back();  // for the thread that drives the GPU
  second.threads = static_cast<int>(second.cores.size());
  return cpu ? Mesh({{"all", 2}}, {first, second}) : Mesh({{"all", 1}}, {first});
}

Mesh mesh_of(const std::string& name, bool tf32) {
  if (name == "gpu" || name == "gpu+cpu") return with_gpu(name == "gpu+cpu", tf32);
  if (tf32) throw UserError("--tf32 is for the meshes gpu and gpu+cpu, not for " + name, Exit::usage);
  Device first, second;
  first.name = "fast";
  first.cores = {allowed_cores().front()};
  second.name = name == "equal" ? "equal" : name;
  second.cores = {allowed_cores().back()};
  if (name != "equal") second.isa = name;
  if (name == "one") return Mesh({{"all", 1}}, {first});
  return Mesh({{"all", 2}}, {first, second});
}

std::unique_ptr<bench::Bound> bound(Runtime& rt, const Mesh& mesh, const Plan& plan, Transport& transport) {
  return std::make_unique<bench::Bound>(plan, compile(plan, transport.rank()), rt.backend(mesh), transport);
}

// The median.
double second_of_two(const std::vector<double>& runs) {
  std::vector<double> out;
  for (std::size_t i = 1; i < runs.size(); i += 2) out.push_back(runs[i]);
  return bench::median(out);
}

struct Asked {
  std::string net{}, mesh{}, file{};
  int batch = 32;
  double budget = 40;
  int rounds = 15;
  bool tf32 = false;
  std::string cut{};
  bool bf16 = false;
};

std::vector<std::string> dims_of(const bench::Network& net, const std::string& cut) {
  if (cut == "batch") return {"batch"};
  return cut == "filters" ? net.filter_dims : net.column_dims;
}

void run_rank(Runtime& rt, const Asked& asked) {
  const auto& [net_name, mesh_name, file, batch, budget, rounds, tf32, cut, bf16] = asked;
  const Mesh mesh = mesh_of(mesh_name, tf32);
  const bench::Network net = bench::network(net_name, batch);
  const Step step = training(net.loss, Sgd{.learning_rate = 0.001, .momentum = 0.9, .weight_decay = 1e-4},
                             {.storage = bf16 ? DType::bf16 : DType::f32});
  LayoutRules rules, even;
  if (mesh.ranks() > 1)
    for (const std::string& dim : dims_of(net, cut)) {
      rules.split.push_back({dim, "all"});
      even.split.push_back({dim, "all", CutBy::even});
    }
  const Profile profile = measure(rt, mesh, step, rules, file + ".profile", {.budget_seconds = budget, .when = Measure::always});
  const auto chosen = bound(rt, mesh, balance(step, mesh, rules, profile), rt.transport());
  rt.print(net_name + " " + mesh_name + "\n" + chosen->plan().table());
  auto own = in_memory(1);
  std::unique_ptr<bench::Bound> other;
  std::array<std::unique_ptr<bench::Bound>, 2> alone;  // per rank, the other resting
  std::array<double, 2> alone_predicted{};
  if (mesh.ranks() > 1) {
    other = bound(rt, mesh, balance(step, mesh, even, profile), rt.transport());
    for (int r = 0; r < 2; r++) {
      const bench::Alone one = bench::alone(step, mesh, r, profile);
      alone_predicted[static_cast<std::size_t>(r)] = one.predicted_seconds;
      if (rt.rank() == r) alone[static_cast<std::size_t>(r)] = bound(rt, mesh, one.plan, *own.front());
    }
  }
  auto timed = [&](bench::Bound* b) {
    for (int i = 0; i < 2; i++) {  // the second counts: in training the step before was of the same plan
      agree(rt.transport(), 0);
      if (b != nullptr) b->run();
    }
  };
  for (int r = 0; r < rounds; r++)
    for (bench::Bound* b : {chosen.get(), other.get(), alone[0].get(), alone[1].get()}) timed(b);
  // A step lasts until its slowest rank is through.
  auto slowest = [&](bench::Bound* b) {
    return second_of_two(
        bench::slowest(rt.transport(), b == nullptr ? std::vector<double>(2 * static_cast<std::size_t>(rounds), 0) : b->seconds()));
  };
  const double step_seconds = slowest(chosen.get()), even_seconds = mesh.ranks() > 1 ? slowest(other.get()) : 0,
               alone_seconds = mesh.ranks() > 1 ? slowest(alone[0].get()) : 0,
               slow_alone_seconds = mesh.ranks() > 1 ? slowest(alone[1].get()) : 0;
  if (rt.rank() != 0) return;
  Json row{Json::Object{}};
  row.set("net", net_name)
      .set("cut", mesh.ranks() > 1 ? cut : "none")
      .set("mesh", mesh_name)
      .set("batch", batch)
      .set("threads", rt.backend(mesh).threads())
      .set("step_seconds", step_seconds);
  row.set("contractions_seconds", second_of_two(chosen->contractions()))
      .set("ratio", step_seconds / second_of_two(chosen->contractions()));
  row.set("fast_alone_contractions_seconds", alone[0] ? Json(second_of_two(alone[0]->contractions())) : Json(nullptr));
  row.set("fast_alone_seconds", mesh.ranks() > 1 ? Json(alone_seconds) : Json(nullptr))
      .set("even_seconds", mesh.ranks() > 1 ? Json(even_seconds) : Json(nullptr));
  const auto& planned = chosen->plan().data();
  row.set("fast_alone_predicted_seconds", planned.baselines.fast_alone ? Json(*planned.baselines.fast_alone) : Json(nullptr));
  row.set("predicted_seconds", planned.step_seconds ? Json(*planned.step_seconds) : Json(nullptr));
  row.set("gain_over_fast_alone", alone[0] ? Json(alone_seconds / step_seconds) : Json(nullptr));
  if (planned.step_seconds) row.set("predicted_over_measured", *planned.step_seconds / step_seconds);
  if (planned.step_seconds && alone[0]) {
    const bench::Speeds speeds = bench::speeds_of(alone_seconds / alone_predicted[0], slow_alone_seconds / alone_predicted[1]);
    row.set("predicted_over_measured_same_speed", *planned.step_seconds / step_seconds * speeds.both)
        .set("speed_moved", speeds.moved);
  }
  if (mesh.device(0).kind == DeviceKind::cuda)
    row.set("dtype", bf16 ? "bf16" : "f32")
        .set("tf32_convolutions", tf32)
        .set("tf32_products", tf32)
        .set("layout", "channels_last")
        .set("deterministic", mesh.device(0).deterministic);
  Json kernels{Json::Array{}};
  for (const bench::Taken& k : chosen->taken())
    kernels.push(Json(Json::Object{})
                     .set("kernel", k.kernel)
                     .set("implementation", k.implementation)
                     .set("seconds", k.seconds)
                     .set("runs", k.runs));
  row.set("kernels", std::move(kernels));
  row.set("machine", rt.backend(mesh).model()).set("library", rt.backend(mesh).library()).set("isa", rt.backend(mesh).isa());
  write_file(file, to_text(row) + "\n");
}

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
    else if (words[i] == "--net")
      out.nets.push_back(value());
    else if (words[i] == "--mesh")
      out.meshes.push_back(value());
    else if (words[i] == "--batch")
      out.batches.push_back(std::stoi(value()));
    else if (words[i] == "--budget")
      out.budget = std::stod(value());
    else if (words[i] == "--tf32")
      out.tf32 = true;
    else if (words[i] == "--bf16")
      out.bf16 = true;
    else if (words[i] == "--top")
      out.top = std::stoi(value());
    else if (words[i] == "--cut")
      out.cuts.push_back(value());
    else
      throw UserError(
          "unknown argument \"" + words[i] + "\" (known: --quick --json --net --mesh --batch --cut --budget --tf32 --bf16 --top)",
          Exit::usage);
  }
  if (out.nets.empty())
    out.nets = out.quick ? std::vector<std::string>{"paper_cifar"}
                         : std::vector<std::string>{"paper_mnist", "paper_cifar", "vgg11", "pair"};
  if (out.meshes.empty())
    out.meshes = out.quick ? std::vector<std::string>{"one", "avx2"} : std::vector<std::string>{"one", "equal", "avx2", "sse41"};
  if (out.batches.empty()) out.batches = {32};
  if (out.cuts.empty()) out.cuts = {"pairs"};
  for (const std::string& cut : out.cuts)
    if (cut != "filters" && cut != "pairs" && cut != "batch")
      throw UserError("--cut " + cut + " (known: filters pairs batch)", Exit::usage);
  if (out.budget <= 0) out.budget = out.quick ? 15 : 40;
  return out;
}

double number(const Json& row, const char* key) {
  const auto* v = std::get_if<double>(&row.find(key)->value);
  return v == nullptr ? 0 : *v;
}

std::string table_line(const Json& row, const std::string& net, const std::string& mesh, int batch, const std::string& cut) {
  const double step = number(row, "step_seconds"), alone = number(row, "fast_alone_seconds"),
               predicted = number(row, "predicted_seconds");
  char line[200];
  std::snprintf(line, sizeof line, "%-12s %-7s %5d %-7s %9.3f %9.3f %6.3f %14.3f %8.3f %13.3f %21.3f %19.3f\n", net.c_str(),
                mesh.c_str(), batch, cut.c_str(), step * 1e3, number(row, "contractions_seconds") * 1e3, number(row, "ratio"),
                alone * 1e3, number(row, "even_seconds") * 1e3, predicted * 1e3, alone > 0 ? alone / step : 0.0, predicted / step);
  return line;
}

std::string kernels_of(const Json& row, int most) {
  std::string text;
  for (const Json& k : std::get<Json::Array>(row.find("kernels")->value)) {
    if (most-- == 0) break;
    const auto word = [&](const char* key) { return std::get<std::string>(k.find(key)->value); };
    text += fmt::format("  {:9.4f} ms {:5.1f} % of the step, {}, {}\n", number(k, "seconds") * 1e3,
                        100 * number(k, "seconds") / number(row, "step_seconds"), word("kernel"), word("implementation"));
  }
  return text;
}

int bench_all(const Arguments& a) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("motley-step-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  Json rows{Json::Array{}};
  std::string table =
      "net          mesh    batch cut       step ms  contr ms  ratio  fast alone ms  even ms  predicted ms  gain over fast alone  "
      "predicted/measured\n";
  for (const std::string& net : a.nets)
    for (const std::string& mesh : a.meshes)
      for (const int batch : a.batches)
        for (const std::string& cut : a.cuts) {
          if (mesh == "one" && &cut != &a.cuts.front()) continue;
          const std::string file = (folder / (net + "_" + mesh + "_" + cut + "_" + std::to_string(batch) + ".json")).string();
          Json row;
          if (const int code = bench::launched(mesh_of(mesh, a.tf32).devices(),
                                               {"--rank", net, mesh, file, std::to_string(batch), std::to_string(a.budget),
                                                a.quick ? "5" : "15", a.tf32 ? "tf32" : "f32", cut, a.bf16 ? "bf16" : "f32"},
                                               file, row);
              code != 0)
            return code;
          table += table_line(row, net, mesh, batch, cut);
          if (a.top > 0) table += kernels_of(row, a.top);
          rows.push(std::move(row));
          if (!a.json.empty()) write_file(a.json, to_text(rows, 1) + "\n");  // a run broken off keeps its rows
        }
  std::filesystem::remove_all(folder);
  if (a.tf32) std::printf("the GPU's f32 products on tensor cores (TF32)\n");
  std::printf("%s", table.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 10 && words[0] == "--rank")
    return run(argc, argv, [&](Runtime& rt) {
      run_rank(rt, {words[1], words[2], words[3], std::stoi(words[4]), std::stod(words[5]), std::stoi(words[6]), words[7] == "tf32",
                    words[8], words[9] == "bf16"});
    });
  return bench::reported("step", [&] { return bench_all(parse(words)); });
}
