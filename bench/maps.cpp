// SPDX-License-Identifier: Apache-2.0
// What does a map cost beside a loop written by hand for the same formula, and one by a formula's text beside a built-in op of the
// same arithmetic? maps [--quick] [--isa NAME] [--json FILE]. Per size: the smallest of several interleaved rounds, in this
// thread's processor time.
#include <fmt/core.h>
#include <motley/backend.h>
#include <motley/error.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <functional>

#include "bench/support/hand_loops.h"
#include "graph/map_formula.h"
#include "graph/optimizers.h"
#include "kernels/open_cpu.h"
#include "kernels/operands.h"
#include "tests/support/formulas.h"

namespace {

using namespace motley;
using namespace motley::testing;

double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

KernelSpec spec_of(const std::string& name, Index n) {
  const std::vector<Index> one{1};
  const Value a = operand(0), b = operand(1);
  if (name == "add") return sum_of({n}, {one, one, one});
  if (name == "add four") return sum_of({n}, {one, one, one, one, one});
  if (name == "sgd") {
    KernelSpec spec = map_of(Optimizer(Sgd{.momentum = 0.9}).update, {n}, {{0}, {0}, {0}, one, one, one, one, one});
    for (std::size_t k = 0; k < 3; k++) spec.operands[k].dtype = DType::f64;
    return spec;
  }
  if (name == "adam") {
    KernelSpec spec = map_of(Optimizer(Adam{}).update, {n}, {{0}, {0}, {0}, {0}, {0}, one, one, one, one, one, one, one});
    for (std::size_t k = 0; k < 5; k++) spec.operands[k].dtype = DType::f64;
    return spec;
  }
  if (name.starts_with("norm")) {  // as batch_norm makes them
    Graph g;
    const Tensor x = dense(g.input("x", {{"n", 2}, {"c", 3}}), {.out = {Dim{"f", 4}}, .name = "d"});
    const Step step = training(sum(batch_norm(x, {.name = "n"})), Sgd{});
    const Index channels = bench::kNormChannels;
    const std::vector<Index> extents{n / channels, channels}, each{channels, 1}, still{0, 1};
    if (name == "norm") return map_of(formula_of(step, "n forward"), extents, {each, still, still, still, still, each});
    if (name == "norm gradient")
      return map_of(formula_of(step, "n backward_data"), extents, {each, each, still, still, still, still, still, each});
    const auto whole = [&](const std::string& pass) { return apply(formula_of(step, pass), [](int k) { return operand(k); })[0]; };
    KernelSpec spec = map_of(formula({whole("n shifted_mean"), whole("n shifted_squares")}), extents, {each, still, still, still});
    for (std::size_t k = 1; k < 4; k++) spec.operands[k].dtype = DType::f64;
    spec.combine = Combine::add;
    return spec;
  }
  if (name == "fused: (a - b) * c") return map_of(formula({(a - b) * 0.3}), {n}, {one, one, one});
  if (name == "fused: a a + b b - c") return map_of(formula({a * a + b * b - 0.5}), {n}, {one, one, one});
  if (name == "fused: exp(a - b) b") return map_of(formula({exp(a - b) * b}), {n}, {one, one, one});
  const std::size_t space = name.find(' ');
  if (space != std::string::npos) return map_of(gradient_of(name.substr(0, space)), {n}, {one, one, one});
  return map_of(forward_of(name), {n}, {one, one});
}

// The operands of one map; those that are written in place share memory.
class Operands {
 public:
  Operands(const KernelSpec& spec, Index n) {
    const std::size_t inputs = input_count(spec), results = result_count(spec);
    for (std::size_t k = 0; k < inputs + results; k++) {
      if (k >= inputs && results > 1 && spec.combine == Combine::set) {
        pointers_.push_back(pointers_[k - results]);
        continue;
      }
      blocks_.emplace_back(static_cast<std::size_t>(n) + 16);
      for (std::size_t i = 0; i < blocks_.back().size(); i++) blocks_.back()[i] = 0.5f + 1e-3f * static_cast<float>(i % 97);
      const auto at = reinterpret_cast<std::uintptr_t>(blocks_.back().data());
      pointers_.push_back(reinterpret_cast<float*>((at + 63) / 64 * 64));
      if (spec.operands[k].dtype == DType::f64)
        std::fill_n(reinterpret_cast<double*>(pointers_.back()), n / 2, k == 0 ? 0.01 : 1.0);
    }
  }
  float* const* floats() const { return pointers_.data(); }
  std::vector<void*> all() const { return {pointers_.begin(), pointers_.end()}; }

 private:
  std::vector<std::vector<float>> blocks_{};
  std::vector<float*> pointers_{};
};

// Formulas as a user writes them: the arithmetic of a built-in op in another order, of which no op declares a loop.
struct Written {
  const char *op, *text;
};
constexpr Written kWritten[] = {{"gelu", "(erf(t0 * 0.70710678) + 1) * t0 * 0.5"},
                                {"silu", "select(-88 <= t0, t0 / (exp(-select(-88 <= t0, t0, -88)) + 1), 0)"},
                                {"softplus", "log1p(exp(select(0 <= t0, -t0, t0))) + select(0 <= t0, t0, 0)"},
                                {"hard_swish", "select(t0 <= -3, 0, select(t0 >= 3, t0, (t0 + 3) * t0 / 6))"}};

// The smallest seconds of `first` and of `second`, each `times` calls in a row.
std::pair<double, double> smallest(int rounds, Index times, const std::function<void()>& first,
                                   const std::function<void()>& second) {
  double best[2] = {1e9, 1e9};
  for (int round = 0; round < rounds; round++)
    for (const int which : {0, 1}) {
      const double begin = now();
      for (Index k = 0; k < times; k++) (which == 0 ? first : second)();
      best[which] = std::min(best[which], now() - begin);
    }
  return {best[0], best[1]};
}

}  // namespace

int main(int argc, char** argv) try {
  bool quick = false;
  std::string json;
  Device device;
  for (int i = 1; i < argc; i++) {
    const std::string flag = argv[i];
    if (flag == "--quick")
      quick = true;
    else if (flag == "--isa" && i + 1 < argc)
      device.isa = argv[++i];
    else if (flag == "--json" && i + 1 < argc)
      json = argv[++i];
    else
      throw UserError("maps: unknown option " + flag + " (known: --quick, --isa NAME, --json FILE)", Exit::usage);
  }
  const auto backend = open_cpu(device);
  const std::string isa = backend->isa();
  const bench::HandLoops& hand = bench::hand_loops(isa);
  fmt::print("maps on {}, {} loops: time over a loop by hand\n{:>28}", backend->model(), hand.isa, "floats");
  const std::vector<Index> sizes{4 << 10, 64 << 10, 1 << 20, 16 << 20};
  for (const Index n : sizes) fmt::print(" {:>9}", n >= (1 << 20) ? fmt::format("{} Mi", n >> 20) : fmt::format("{} Ki", n >> 10));
  fmt::print("\n");
  std::string rows;
  const auto times_of = [&](Index n) { return std::max<Index>(1, (quick ? 1 << 20 : 4 << 20) / n); };
  const int rounds = quick ? 5 : 21;
  const auto row = [&](const std::string& name, Index n, double seconds, const char* beside, double its) {
    const auto times = static_cast<double>(times_of(n));
    fmt::print(" {:>9.2f}", seconds / its);
    rows += fmt::format("{}{{\"map\": \"{}\", \"isa\": \"{}\", \"floats\": {}, \"seconds\": {:.4g}, \"{}\": {:.4g}}}",
                        rows.empty() ? "" : ",\n", name, hand.isa, n, seconds / times, beside, its / times);
  };
  for (const auto& [name, loop] : hand.list) {
    fmt::print("{:>28}", name);
    for (const Index n : sizes) {
      const KernelSpec spec = spec_of(name, n);
      const Operands operands(spec, n);
      const auto kernel = backend->compile(spec);
      const std::vector<void*> all = operands.all();
      const auto by_hand = loop;
      const auto [ours, its] = smallest(
          rounds, times_of(n), [&] { kernel->run(all, nullptr); }, [&] { by_hand(operands.floats(), n); });
      row(name, n, ours, "by_hand_seconds", its);
    }
    fmt::print("\n");
  }
  fmt::print("by a formula's text: time over the built-in op's\n");
  for (const Written& written : kWritten)
    for (const bool gradient : {false, true}) {
      const MapFormula its = parse_map(written.text, 1);
      const Formula by_text = gradient ? its.gradients.front().formula : its.value;
      const Formula built_in = gradient ? gradient_of(written.op) : forward_of(written.op);
      const std::string name = std::string("text: ") + written.op + (gradient ? " gradient" : "");
      fmt::print("{:>28}", name);
      for (const Index n : sizes) {
        const std::vector<std::vector<Index>> strides(gradient ? 3 : 2, std::vector<Index>{1});
        const KernelSpec spec = map_of(by_text, {n}, strides), other = map_of(built_in, {n}, strides);
        const Operands operands(spec, n);
        const auto kernel = backend->compile(spec), op = backend->compile(other);
        const std::vector<void*> all = operands.all();
        const auto [ours, ops] = smallest(
            rounds, times_of(n), [&] { kernel->run(all, nullptr); }, [&] { op->run(all, nullptr); });
        row(name, n, ours, "built_in_seconds", ops);
      }
      fmt::print("\n");
    }
  if (!json.empty()) std::ofstream(json) << "[" << rows << "]\n";
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 64;
}
