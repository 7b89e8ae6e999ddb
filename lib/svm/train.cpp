// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <motley/error.h>
#include <motley/svm.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "kernels/loops/this_cpu.h"
#include "svm/shares.h"
#include "svm/solver.h"

namespace motley::svm {

namespace {

void check_options(const Options& o) {
  const auto require = [](bool good, const std::string& text) {
    if (!good) throw UserError("svm: " + text);
  };
  require(std::isfinite(o.c) && o.c > 0, fmt::format("c is {}; expected a number above 0", o.c));
  require(std::isfinite(o.epsilon) && o.epsilon > 0, fmt::format("epsilon is {}; expected a number above 0", o.epsilon));
  require(o.dtype == DType::f32 || o.dtype == DType::f64, "dtype is one of f32, f64");
  require(o.cache_bytes >= 0, "the cache's size is below 0");
  const KernelFunction& k = o.kernel;
  if (k.kind == KernelKind::linear) return;
  require(std::isfinite(k.gamma) && k.gamma > 0, fmt::format("gamma is {}; expected a number above 0", k.gamma));
  require(k.kind != KernelKind::polynomial || (k.degree >= 1 && k.degree <= 64),
          fmt::format("degree is {}; expected 1 to 64", k.degree));
  require(std::isfinite(k.coef0), "coef0 is not a number");
}

// libsvm's order of classes: as they come in the data; of -1 and 1, 1 is first.
std::vector<double> classes_of(const Data& data) {
  std::vector<double> out;
  for (const double label : data.labels)
    if (std::find(out.begin(), out.end(), label) == out.end()) out.push_back(label);
  if (out == std::vector<double>{-1, 1}) std::swap(out[0], out[1]);
  if (out.size() < 2)
    throw UserError(
        out.empty() ? "there are no samples" : fmt::format("all samples are of one class, {}; expected two or more", out[0]),
        Exit::data);
  return out;
}

Pair pair_of(const Data& data, double positive, double negative) {
  Pair out;
  for (Index s = 0; s < data.samples(); s++)
    if (const double label = data.labels[static_cast<std::size_t>(s)]; label == positive || label == negative) {
      out.samples.push_back(s);
      out.signs.push_back(label == positive ? 1 : -1);
    }
  return out;
}

Index cache_bytes_of(Runtime& rt, const Mesh& mesh, const Options& options) {
  if (options.cache_bytes > 0) return options.cache_bytes;
  const std::vector<int>& hosts = rt.transport().hosts();
  const auto beside = std::count(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(rt.rank())]);
  const Device& device = mesh.device(rt.rank());
  const Index memory = device.memory_bytes > 0 ? device.memory_bytes : cpu::host_memory_bytes() / beside;
  return std::max<Index>(memory / 4, Index{1} << 20);
}

// The machines' coefficients as a model: each sample that supports some machine once, class after class.
class ModelMaker {
 public:
  ModelMaker(const Data& data, const KernelFunction& kernel, const std::vector<double>& classes) : data_(data) {
    model_.kernel = kernel;
    model_.labels = classes;
  }
  void add(std::size_t a, std::size_t b, const Pair& pair, const Solved& solved) {
    model_.rho.push_back(solved.machine.rho);
    const std::size_t others = model_.labels.size() - 1;
    for (std::size_t i = 0; i < solved.alpha.size(); i++) {
      if (!(solved.alpha[i] > 0)) continue;
      auto& of = coefficients_.try_emplace(pair.samples[i], others, 0.0).first->second;
      of[pair.signs[i] > 0 ? b - 1 : a] = solved.alpha[i] * pair.signs[i];
    }
  }
  Model made() {
    model_.vectors.features = data_.features;
    for (const double label : model_.labels) {
      Index count = 0;
      for (const auto& [sample, of] : coefficients_) {
        const auto s = static_cast<std::size_t>(sample);
        if (data_.labels[s] != label) continue;
        count++;
        model_.coefficients.insert(model_.coefficients.end(), of.begin(), of.end());
        Data& to = model_.vectors;
        to.labels.push_back(label);
        to.columns.insert(to.columns.end(), data_.columns.begin() + data_.offsets[s], data_.columns.begin() + data_.offsets[s + 1]);
        to.values.insert(to.values.end(), data_.values.begin() + data_.offsets[s], data_.values.begin() + data_.offsets[s + 1]);
        to.offsets.push_back(static_cast<Index>(to.values.size()));
      }
      model_.counts.push_back(count);
    }
    return std::move(model_);
  }

 private:
  const Data& data_;
  Model model_{};
  std::map<Index, std::vector<double>> coefficients_{};  // by sample
};

template <class T>
Result train_as(Tools& tools, const Mesh& mesh, Backend& backend, const std::vector<double>& classes) {
  const Data& data = tools.samples.data;
  Runtime& rt = tools.rt;
  const auto source = row_source<T>(tools.samples, backend, tools.threads);
  std::vector<Index> every(static_cast<std::size_t>(data.samples()));
  std::iota(every.begin(), every.end(), Index{0});
  Partition proportions = Partition::even(data.samples(), rt.ranks());
  if (rt.ranks() > 1) {
    rt.phase("measuring");
    proportions = tools.options.shares.empty() ? balanced(measured_staircases(tools, every, *source), data.samples())
                                               : Partition::proportional(data.samples(), tools.options.shares);
    tools.check_speeds = measured_check_speeds(tools, every);
  }
  if (tools.check_speeds.empty()) tools.check_speeds.assign(static_cast<std::size_t>(rt.ranks()), 1.0);
  rt.phase("training");
  Result out;
  RankReport report;
  ModelMaker maker(data, tools.samples.kernel, classes);
  Progress progress{.machines = static_cast<Index>(classes.size() * (classes.size() - 1) / 2)};
  for (std::size_t a = 0; a < classes.size(); a++)
    for (std::size_t b = a + 1; b < classes.size(); b++) {
      const Pair pair = pair_of(data, classes[a], classes[b]);
      const Shares shares = dealt(pair.size(), proportions);
      report.samples += static_cast<Index>(shares[static_cast<std::size_t>(rt.rank())].size());
      Solved solved = Solver<T>(tools, pair, shares, *source, report, progress).solve();
      solved.machine.positive = classes[a];
      solved.machine.negative = classes[b];
      if (!std::isfinite(solved.machine.objective))
        throw Error(Exit::internal, "kernel values are not finite: scale the features, or choose a smaller degree or gamma");
      maker.add(a, b, pair, solved);
      out.machines.push_back(solved.machine);
      out.stopped = out.stopped || solved.stopped;
      progress.machine++;
    }
  report.waiting_seconds = tools.meeting.waiting_seconds();
  struct Figures {
    Index samples, rows, row_hits;
    double row_seconds, step_seconds, check_seconds, waiting_seconds, processor_seconds;
  };
  const Figures mine{report.samples,      report.rows,          report.row_hits,        report.row_seconds,
                     report.step_seconds, report.check_seconds, report.waiting_seconds, report.processor_seconds};
  for (const Figures& its : tools.meeting.all(mine))
    out.ranks.push_back({.device = mesh.device(static_cast<int>(out.ranks.size())).name,
                         .samples = its.samples,
                         .row_seconds = its.row_seconds,
                         .step_seconds = its.step_seconds,
                         .check_seconds = its.check_seconds,
                         .waiting_seconds = its.waiting_seconds,
                         .processor_seconds = its.processor_seconds,
                         .rows = its.rows,
                         .row_hits = its.row_hits});
  out.model = maker.made();
  return out;
}

}  // namespace

Result train(Runtime& rt, const Mesh& mesh, const Data& data, const Options& given) {
  Options options = given;
  if (options.kernel.gamma == 0 && data.features > 0) options.kernel.gamma = 1 / static_cast<double>(data.features);
  check_options(options);
  if (!options.shares.empty() && static_cast<int>(options.shares.size()) != rt.ranks())
    throw UserError(fmt::format("svm: {} shares for {} ranks", options.shares.size(), rt.ranks()));
  const std::vector<double> classes = classes_of(data);
  Backend& backend = rt.backend(mesh);
  const Device& device = driven(mesh.device(rt.rank()));
  const Samples samples(data, options.kernel);
  Meeting meeting(rt.transport());
  Tools tools{.rt = rt,
              .meeting = meeting,
              .samples = samples,
              .options = options,
              .loops = cpu::smo_loops_of(cpu::simd_within(device.isa)),
              .threads = device.threads,
              .cache_bytes = cache_bytes_of(rt, mesh, options)};
  const Result out = options.dtype == DType::f64 ? train_as<double>(tools, mesh, backend, classes)
                                                 : train_as<float>(tools, mesh, backend, classes);
  if (options.warn && rt.rank() == 0)
    for (const Machine& m : out.machines)
      if (!m.converged && !out.stopped)
        options.warn(
            fmt::format("the gap is {:.3g}, above epsilon, after {} iterations{}", m.gap, m.iterations,
                        options.dtype == DType::f64 ? "" : ": rounding of f32 kernel rows may not allow less; try dtype f64"));
  return out;
}

}  // namespace motley::svm
