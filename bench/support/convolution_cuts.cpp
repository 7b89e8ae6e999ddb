// SPDX-License-Identifier: Apache-2.0
#include "bench/support/convolution_cuts.h"

#include <motley/error.h>
#include <motley/partition.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "balance/candidate_sizes.h"
#include "profiler/measure_kernels.h"
#include "profiler/operand_memory.h"
#include "profiler/run_clock.h"

namespace motley::bench {

namespace {

constexpr const char* kPassNames[] = {"forward", "backward_data", "backward_filter"};

// In the formats that plans choose: activations channels last, weights plain (the kernel packs them).
KernelSpec spec_of(const Convolution& k, PassKind pass, Index filters) {
  KernelSpec s;
  s.pass = pass;
  s.roles = {.n = k.n, .c = k.c, .h = k.hw, .w = k.hw, .f = filters, .r = k.window, .s = k.window, .p = k.hw, .q = k.hw};
  s.padding = {k.window / 2, k.window / 2, k.window / 2, k.window / 2};
  s.x_format = s.y_format = Format::channels_last;
  return s;
}

// Both ranks' numbers, on both ranks.
std::vector<std::vector<double>> of_both(Transport& transport, const std::vector<double>& mine) {
  std::vector<std::vector<double>> out;
  for (const auto& bytes : transport.gather_all(std::as_bytes(std::span(mine)))) {
    out.emplace_back(bytes.size() / sizeof(double));
    std::memcpy(out.back().data(), bytes.data(), bytes.size());
  }
  return out;
}

// A message each way: both ranks leave within a microsecond or two.
void meet(Transport& transport) {
  const int peer = 1 - transport.rank();
  const Transport::Ticket tickets[] = {transport.send(peer, 1, {}), transport.receive(peer, 1, {})};
  wait(transport, tickets, "the other rank of the bench");
}

Json list(const std::vector<Index>& parts) {
  Json::Array out;
  for (Index p : parts) out.emplace_back(p);
  return out;
}

}  // namespace

std::string shape_of(const Convolution& k) {
  auto text = [](Index v) { return std::to_string(v); };
  return "n" + text(k.n) + " c" + text(k.c) + " " + text(k.hw) + "x" + text(k.hw) + " -> f" + text(k.f) + " " + text(k.window) +
         "x" + text(k.window);
}

Json ConvolutionCuts::row(const Convolution& k, PassKind pass) {
  std::vector<Index> coarse = candidate_sizes(k.f);
  std::erase_if(coarse, [&](Index f) { return f % 8 != 0 && f != k.f; });
  points_.assign(2, {});
  measure(k, pass, coarse);
  const std::vector<Index> first = balance_dim(tables(k.f), k.f).parts;
  measure(k, pass, sizes_near(first[static_cast<std::size_t>(transport_.rank())], k.f));
  const SizeTables seconds = tables(k.f);
  const DimBalance chosen = balance_dim(seconds, k.f);
  list_cuts(k.f, chosen.parts[0]);
  const std::size_t c = index_of(chosen.parts), even = index_of(Partition::even(k.f, 2).sizes()),
                    proportional = index_of(proportional_parts(seconds, k.f));
  sweep(k, pass, {c, even, proportional});

  std::size_t best = c;
  for (std::size_t i = 0; i < cuts_.size(); i++)
    if (least(i, 1) < least(best, 1)) best = i;
  const double best_seconds = least(best, 0);
  Json row{Json::Object{}};
  row.set("shape", shape_of(k));
  row.set("pass", kPassNames[static_cast<std::size_t>(pass)]);
  row.set("chosen_parts", list(chosen.parts));
  row.set("best_parts", list(cuts_[best]));
  row.set("chosen_over_best", least(c, 0) / best_seconds);
  row.set("even_over_best", least(even, 0) / best_seconds);
  row.set("proportional_over_best", least(proportional, 0) / best_seconds);
  row.set("fast_alone_over_best", least(index_of({k.f, 0}), 0) / best_seconds);
  row.set("best_seconds", best_seconds);
  row.set("predicted_over_measured", chosen.seconds / least(c, 0));
  row.set("runs_lost", static_cast<double>(lost_) / static_cast<double>(runs_));
  return row;
}

// Adds this rank's times for these sizes to both ranks' points.
void ConvolutionCuts::measure(const Convolution& k, PassKind pass, const std::vector<Index>& sizes) {
  std::vector<KernelSpec> specs;
  for (Index f : sizes) specs.push_back(spec_of(k, pass, f));
  KernelTimingOptions options;
  options.least_rounds = quick_ ? 5 : 7;
  options.most_rounds = quick_ ? 9 : 15;
  options.budget_seconds = 30;
  const Measurement mine = measure_kernels(backend_, transport_.rank(), specs, options, [&](Wish wish) {
    return static_cast<Wish>(agree(transport_, static_cast<int>(wish)).status);
  });
  if (!mine.fits)
    throw UserError("this machine is too slow or too busy for the bench: " + shape_of(k) + " takes more than 30 seconds");
  std::vector<double> numbers;
  for (const KernelPoint& p : mine.points) numbers.insert(numbers.end(), {static_cast<double>(p.spec.roles.f), p.seconds.min});
  const auto both = of_both(transport_, numbers);
  for (std::size_t r = 0; r < 2; r++)
    for (std::size_t i = 0; i < both[r].size(); i += 2) {
      double& least = points_[r].try_emplace(static_cast<Index>(both[r][i]), HUGE_VAL).first->second;
      least = std::min(least, both[r][i + 1]);
    }
}
SizeTables ConvolutionCuts::tables(Index size) const {
  SizeTables out;
  for (const auto& points : points_) out.push_back(step_table({points.begin(), points.end()}, size));
  return out;
}

// Steps of 4, and of 1 around what was chosen.
void ConvolutionCuts::list_cuts(Index size, Index chosen) {
  std::set<Index> first{size};
  for (Index f = 0; f <= size; f += 4) first.insert(f);
  for (Index f = std::max(Index{0}, chosen - 8); f <= std::min(size, chosen + 8); f++) first.insert(f);
  cuts_.clear();
  for (Index f : first) cuts_.push_back({f, size - f});
}

std::size_t ConvolutionCuts::index_of(const std::vector<Index>& parts) {
  const auto at = std::find(cuts_.begin(), cuts_.end(), parts);
  if (at != cuts_.end()) return static_cast<std::size_t>(at - cuts_.begin());
  cuts_.push_back(parts);
  return cuts_.size() - 1;
}

void ConvolutionCuts::sweep(const Convolution& k, PassKind pass, const std::vector<std::size_t>& keep) {
  OperandMemory memory;
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<KernelSpec> specs;
  for (const auto& parts : cuts_) {
    specs.push_back(spec_of(k, pass, parts[static_cast<std::size_t>(transport_.rank())]));
    kernels.push_back(specs.back().roles.f > 0 ? backend_.compile(specs.back()) : nullptr);
    memory.reserve(specs.back(), kernels.back() ? kernels.back()->workspace_bytes() : 0);
  }
  memory.allocate();
  std::vector<std::size_t> order(cuts_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  seconds_.assign(cuts_.size(), {});
  busy_.assign(cuts_.size(), {});
  runs_ = lost_ = 0;
  std::mt19937 random(1);  // the same order on both ranks
  const std::size_t wanted = 16;
  for (std::size_t round = 0; round < 3 * wanted && !order.empty(); round++) {
    std::shuffle(order.begin(), order.end(), random);
    std::vector<double> mine;  // per cut: wall seconds (infinite: the core was lost), CPU seconds
    for (std::size_t i : order) {
      const RunTime took = timed(kernels[i].get(), memory.operands(specs[i]), memory.workspace());
      mine.insert(mine.end(), {took.lost_core ? HUGE_VAL : took.wall, took.cpu});
    }
    const auto both = of_both(transport_, mine);
    for (std::size_t i = 0; i < order.size(); i++) {
      const double wall = std::max(both[0][2 * i], both[1][2 * i]), cpu = std::max(both[0][2 * i + 1], both[1][2 * i + 1]);
      busy_[order[i]].push_back(cpu);
      if (std::isfinite(wall))
        seconds_[order[i]].push_back(wall);
      else
        lost_++;
    }
    runs_ += order.size();
    leave_out(order, keep, wanted);
  }
}

// Those that have enough rounds, and after three those that are far from the best.
void ConvolutionCuts::leave_out(std::vector<std::size_t>& order, const std::vector<std::size_t>& keep, std::size_t wanted) const {
  auto least_of = [](const std::vector<double>& s) { return *std::min_element(s.begin(), s.end()); };
  double best = HUGE_VAL;
  for (const auto& s : busy_) best = std::min(best, least_of(s));
  std::erase_if(order, [&](std::size_t i) {
    const double far = std::find(keep.begin(), keep.end(), i) != keep.end() ? 2 : busy_[i].size() < 6 ? 1.2 : 1.08;
    return seconds_[i].size() >= wanted || (busy_[i].size() >= 3 && least_of(busy_[i]) > far * best);
  });
}

RunTime ConvolutionCuts::timed(Kernel* kernel, const std::vector<void*>& operands, void* workspace) {
  if (kernel != nullptr) kernel->run(operands, workspace);
  meet(transport_);
  const RunClock clock;
  if (kernel != nullptr) kernel->run(operands, workspace);
  return clock.stop();
}

// The least of the even (0) or odd (1) rounds that kept their cores; of the CPU seconds where there are not both.
double ConvolutionCuts::least(std::size_t cut, std::size_t parity) const {
  const auto& s = seconds_[cut].size() < 2 ? busy_[cut] : seconds_[cut];
  double out = HUGE_VAL;
  for (std::size_t r = parity; r < s.size(); r += 2) out = std::min(out, s[r]);
  return out;
}

}  // namespace motley::bench
