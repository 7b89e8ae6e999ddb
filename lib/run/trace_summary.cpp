// SPDX-License-Identifier: Apache-2.0
#include "run/trace_summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace motley {

namespace {

// Seconds per training step, by name, in the order in which names first appear.
class Sums {
 public:
  explicit Sums(std::size_t steps) : steps_(steps) {}
  void add(const std::string& name, const std::string& group, std::size_t step, double seconds) {
    row(name, group).measured[step] += seconds;
  }
  void predict(const std::string& name, const std::string& group, double seconds) {
    auto& known = row(name, group).predicted;
    known = known.value_or(0) + seconds;
  }
  std::vector<TraceRow> rows() const {
    std::vector<TraceRow> out;
    for (const Row& r : rows_) out.push_back({r.name, r.group, quartiles(r.measured), r.predicted});
    return out;
  }

 private:
  struct Row {
    std::string name, group;
    std::vector<double> measured;
    std::optional<double> predicted{};
  };
  Row& row(const std::string& name, const std::string& group) {
    const auto [at, is_new] = places_.emplace(std::pair(name, group), rows_.size());
    if (is_new) rows_.push_back({name, group, std::vector<double>(steps_, 0), {}});
    return rows_[at->second];
  }
  std::size_t steps_;
  std::vector<Row> rows_{};
  std::map<std::pair<std::string, std::string>, std::size_t> places_{};
};

// The part of a step's time that no event covers: progressing messages between kernels, and the loop itself.
constexpr const char* kBetweenEvents = "between events";

RankTraceSummary summary_of(const RankTrace& rank, std::size_t first, std::size_t steps) {
  RankTraceSummary out;
  out.device = rank.device;
  Sums rows(steps), groups(steps);
  std::vector<double> whole;
  for (std::size_t k = 0; k < steps; k++) {
    const TraceSpan step = rank.step(first + k);
    whole.push_back(step.end - step.begin);
    double rest = step.end - step.begin;
    for (std::size_t i = 0; i < rank.items.size(); i++) {
      const TraceItem& item = rank.items[i];
      const TraceSpan span = rank.at(first + k, i);
      const bool exchange = item.exchange >= 0;
      rows.add(item.name, exchange ? "exchanges" : item.group, k, span.end - span.begin);
      groups.add(item.group, item.group, k, span.end - span.begin);
      if (span.begin >= step.begin && span.end <= step.end) rest -= span.end - span.begin;
    }
    if (rank.own_clock) continue;  // the device's kernels and the host's waits run in parallel
    rows.add(kBetweenEvents, kBetweenEvents, k, rest);
    groups.add(kBetweenEvents, kBetweenEvents, k, rest);
  }
  out.step = quartiles(whole);
  if (!rank.simulated.empty()) {
    for (std::size_t i = 0; i < rank.items.size(); i++) {
      const TraceItem& item = rank.items[i];
      const double seconds = rank.simulated[i].end - rank.simulated[i].begin;
      rows.predict(item.name, item.exchange >= 0 ? "exchanges" : item.group, seconds);
      groups.predict(item.group, item.group, seconds);
    }
    if (!rank.own_clock) {
      rows.predict(kBetweenEvents, kBetweenEvents, 0);
      groups.predict(kBetweenEvents, kBetweenEvents, 0);
    }
    const TraceSpan step = rank.simulated_step();
    out.predicted_step = step.end - step.begin;
  }
  out.rows = rows.rows();
  out.groups = groups.rows();
  return out;
}

}  // namespace

Quartiles quartiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const double above = values[std::min(below + 1, values.size() - 1)];
    return values[below] + (place - static_cast<double>(below)) * (above - values[below]);
  };
  return {at(0.25), at(0.5), at(0.75)};
}

double TraceRow::weight(TraceOrder order) const {
  return order == TraceOrder::time ? measured.median : std::abs(difference().value_or(measured.median));
}

void sort_by(TraceOrder order, TraceSummary& summary) {
  for (RankTraceSummary& rank : summary.ranks)
    for (std::vector<TraceRow>* rows : {&rank.rows, &rank.groups})
      std::stable_sort(rows->begin(), rows->end(),
                       [&](const TraceRow& a, const TraceRow& b) { return a.weight(order) > b.weight(order); });
}

std::optional<double> TraceRow::difference() const {
  return predicted ? std::optional(measured.median - *predicted) : std::nullopt;
}

std::optional<double> TraceSummary::gap() const {
  return predicted_step ? std::optional(step.median - *predicted_step) : std::nullopt;
}

std::optional<double> TraceSummary::disturbed() const {
  std::optional<double> most;
  for (const RankTraceSummary& r : ranks)
    if (r.disturbed) most = std::max(most.value_or(0), *r.disturbed);
  return most;
}

TraceSummary summarise(const RunTrace& trace, Index first_step) {
  TraceSummary out;
  out.notes = trace.notes;
  const auto from =
      static_cast<std::size_t>(std::lower_bound(trace.steps.begin(), trace.steps.end(), first_step) - trace.steps.begin());
  const std::size_t steps = trace.steps.size() - from;
  out.steps = static_cast<Index>(steps);
  if (steps > 0) {
    out.first_step = trace.steps[from];
    out.last_step = trace.steps.back();
  }
  std::vector<double> slowest(steps, 0);
  for (const RankTrace& rank : trace.ranks) {
    for (std::size_t k = 0; k < steps; k++) slowest[k] = std::max(slowest[k], rank.step(from + k).end - rank.step(from + k).begin);
    out.ranks.push_back(summary_of(rank, from, steps));
  }
  out.step = quartiles(slowest);
  out.predicted_step = trace.predicted_step_seconds;
  sort_by(TraceOrder::time, out);
  return out;
}

}  // namespace motley
