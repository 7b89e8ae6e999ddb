// SPDX-License-Identifier: Apache-2.0
// Would blocked activations be faster than channels-last ones? Every convolution kernel of the paper's networks and VGG-11 on one
// core, all passes, in both formats for x and for y, interleaved; minima. best_mix: the faster format per kernel, as if reorders
// between kernels cost nothing: what a plan can gain that lets activations lie in blocks where they stay on a rank (plan/formats.h).
//   formats [--quick] [--json FILE] [--isa ISA]...
#include <motley/error.h>
#include <motley/motley.h>

#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "bench/support/networks.h"
#include "bench/support/reported.h"
#include "profiler/measure_kernels.h"

using namespace motley;

namespace {

struct Arguments {
  bool quick = false;
  std::string json{};
  std::vector<std::string> isas{};
};

std::vector<KernelSpec> convolutions_of(const std::string& name, Index batch) {
  const bench::Network net = bench::network(name, batch);
  const Step step = training(net.loss, Sgd{.learning_rate = 0.001});
  const Plan plan = balance(step, Mesh({{"all", 1}}, {Device{}}), {}, {});
  std::vector<KernelSpec> out;
  for (const ProgramStep& s : compile(plan, 0).steps)
    if (const auto* run = std::get_if<RunKernel>(&s.what); run != nullptr && run->spec.op == KernelOp::conv2d) out.push_back(run->spec);
  return out;
}

KernelSpec in_formats(KernelSpec spec, Format x, Format y) {
  spec.x_format = spec.roles.c < 8 ? Format::channels_last : x;  // an image's few channels stay as they are
  spec.y_format = y;
  return spec;
}

Json row_of(const std::string& name, Backend& backend, Format blocked, bool quick) {
  const std::vector<KernelSpec> kernels = convolutions_of(name, 8);
  const Format formats[] = {Format::channels_last, blocked};
  std::vector<KernelSpec> specs;
  for (const KernelSpec& k : kernels)
    for (Format x : formats)
      for (Format y : formats) specs.push_back(in_formats(k, x, y));
  const Measurement made = measure_kernels(backend, 0, specs, {.budget_seconds = 1e4, .most_rounds = quick ? 3 : 9});
  double all[2] = {0, 0}, mix = 0;
  for (const KernelSpec& k : kernels) {
    auto seconds = [&](Format x, Format y) {
      const KernelSpec wanted = in_formats(k, x, y);
      return std::find_if(made.points.begin(), made.points.end(), [&](const KernelPoint& p) { return p.spec == wanted; })->seconds.min;
    };
    double best = seconds(formats[0], formats[0]);
    for (Format x : formats)
      for (Format y : formats) best = std::min(best, seconds(x, y));
    for (int i = 0; i < 2; i++) all[i] += seconds(formats[i], formats[i]);
    mix += best;
  }
  Json row{Json::Object{}};
  row.set("net", name).set("isa", backend.isa()).set("batch", 8).set("blocked", to_string(blocked)).set("channels_last_seconds", all[0]);
  row.set("blocked_seconds", all[1]).set("blocked_over_channels_last", all[1] / all[0]).set("best_mix_over_channels_last", mix / all[0]);
  row.set("machine", backend.model()).set("library", backend.library());
  return row;
}

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i];
    auto value = [&] {
      if (i + 1 >= argc) throw UserError(word + " needs a value", Exit::usage);
      return std::string(argv[++i]);
    };
    if (word == "--quick") out.quick = true;
    else if (word == "--json") out.json = value();
    else if (word == "--isa") out.isas.push_back(value());
    else throw UserError("unknown argument \"" + word + "\" (known: --quick --json --isa)", Exit::usage);
  }
  return out;
}

// oneDNN's ISA is fixed at first use: one process per ISA, this one again.
int each_isa(const Arguments& a, const char* self) {
  Json rows{Json::Array{}};
  for (const std::string isa : {"all", "avx2", "sse41"}) {
    const std::string file = a.json.empty() ? "/tmp/motley_formats_" + isa + ".json" : a.json + "." + isa;
    const std::string command = "'" + std::string(self) + "' --isa " + isa + (a.quick ? " --quick" : "") + " --json '" + file + "'";
    if (std::system(command.c_str()) != 0) return 70;
    Complaints complaints;
    const auto part = read_json(file, read_file(file), complaints);
    complaints.raise();
    for (const Json& row : std::get<Json::Array>(part->value)) rows.push(row);
    std::remove(file.c_str());
  }
  if (!a.json.empty()) write_file(a.json, to_text(rows, 1) + "\n");
  return 0;
}

int measure_one(const Arguments& a) {
  Device device;
  device.name = "bench";
  if (a.isas.front() != "all") device.isa = a.isas.front();
  const std::unique_ptr<Backend> backend = open_backend(device);
  const Format blocked = backend->isa().starts_with("avx512") ? Format::blocked16 : Format::blocked8;
  Json rows{Json::Array{}};
  const std::vector<std::string> nets = a.quick ? std::vector<std::string>{"vgg11"} : std::vector<std::string>{"paper_mnist", "paper_cifar", "vgg11"};
  for (const std::string& net : nets) {
    const Json row = row_of(net, *backend, blocked, a.quick);
    auto number = [&](const char* key) { return std::get<double>(row.find(key)->value); };
    std::printf("%-12s %-12s channels last %9.2f ms  blocked %9.2f ms  ratio %.3f  best mix %.3f\n", net.c_str(), backend->isa().c_str(),
                number("channels_last_seconds") * 1e3, number("blocked_seconds") * 1e3, number("blocked_over_channels_last"), number("best_mix_over_channels_last"));
    std::fflush(stdout);
    rows.push(row);
  }
  if (!a.json.empty()) write_file(a.json, to_text(rows, 1) + "\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::reported("formats", [&] {
    const Arguments a = parse(argc, argv);
    return a.isas.empty() ? each_isa(a, argv[0]) : measure_one(a);
  });
}
