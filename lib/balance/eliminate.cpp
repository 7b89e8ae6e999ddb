// SPDX-License-Identifier: Apache-2.0
#include "balance/eliminate.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/at.h"

namespace motley {

namespace {

constexpr std::size_t kMostTableEntries = std::size_t{1} << 21;
constexpr int kMostSweeps = 20;  // over all variables, where tables are too large

std::size_t entries_of(const std::vector<int>& values, const std::vector<int>& scope) {
  std::size_t entries = 1;
  for (const int v : scope) {
    entries *= static_cast<std::size_t>(at(values, v));
    if (entries > kMostTableEntries) return entries;
  }
  return entries;
}

std::size_t entry_of(const CostTable& table, const std::vector<int>& values, const std::vector<int>& chosen) {
  std::size_t here = 0;
  for (const int v : table.scope) here = here * static_cast<std::size_t>(at(values, v)) + static_cast<std::size_t>(at(chosen, v));
  return here;
}

double sum_of(const std::vector<const CostTable*>& tables, const std::vector<int>& values, const std::vector<int>& chosen) {
  double sum = 0;
  for (const CostTable* t : tables) sum += t->seconds[entry_of(*t, values, chosen)];
  return sum;
}

// What was eliminated, and its best value for each combination of the variables that it depends on.
struct Eliminated {
  int variable = -1;
  CostTable best{};  // `seconds`: the value
};

class Eliminator {
 public:
  Eliminator(const std::vector<int>& values, std::vector<CostTable> tables) : values_(values), tables_(std::move(tables)) {
    for (std::size_t v = 0; v < values.size(); v++) left_.insert(static_cast<int>(v));
  }

  // Nothing: a table would be too large.
  bool run(LeastSum& out) {
    while (!left_.empty()) {
      const int next = cheapest();
      if (next < 0) return false;
      eliminate(next);
    }
    out.values.assign(values_.size(), 0);
    for (auto one = eliminated_.rbegin(); one != eliminated_.rend(); one++)
      at(out.values, one->variable) = static_cast<int>(one->best.seconds[entry_of(one->best, values_, out.values)]);
    out.seconds = 0;
    for (const CostTable& t : tables_) out.seconds += t.seconds.front();
    return true;
  }

 private:
  static std::vector<int> neighbours(const std::vector<CostTable>& tables, int variable) {
    std::set<int> found;
    for (const CostTable& t : tables)
      if (std::find(t.scope.begin(), t.scope.end(), variable) != t.scope.end()) found.insert(t.scope.begin(), t.scope.end());
    found.erase(variable);
    return {found.begin(), found.end()};
  }

  int cheapest() const {
    int best = -1;
    std::size_t least = kMostTableEntries + 1;
    for (const int v : left_) {
      std::vector<int> scope = neighbours(tables_, v);
      scope.push_back(v);
      if (const std::size_t entries = entries_of(values_, scope); entries < least) {
        least = entries;
        best = v;
      }
    }
    return best;
  }

  void eliminate(int variable) {
    std::vector<CostTable> with, without;
    for (CostTable& t : tables_)
      (std::find(t.scope.begin(), t.scope.end(), variable) == t.scope.end() ? without : with).push_back(std::move(t));
    CostTable rest{neighbours(with, variable), {}}, best;
    best.scope = rest.scope;
    std::vector<const CostTable*> parts;
    for (const CostTable& t : with) parts.push_back(&t);
    std::vector<int> chosen(values_.size(), 0);
    const std::size_t entries = entries_of(values_, rest.scope);
    for (std::size_t here = 0; here < entries; here++) {
      double least = std::numeric_limits<double>::infinity();
      int value = 0;
      for (int k = 0; k < at(values_, variable); k++) {
        at(chosen, variable) = k;
        if (const double seconds = sum_of(parts, values_, chosen); seconds < least) {
          least = seconds;
          value = k;
        }
      }
      rest.seconds.push_back(least);
      best.seconds.push_back(value);
      next_values(values_, rest.scope, chosen);
    }
    tables_ = std::move(without);
    tables_.push_back(std::move(rest));
    eliminated_.push_back({variable, std::move(best)});
    left_.erase(variable);
  }

  const std::vector<int>& values_;
  std::vector<CostTable> tables_;
  std::set<int> left_{};
  std::vector<Eliminated> eliminated_{};
};

// From each uniform start, one variable and then each pair in a table, while the sum falls.
class Descent {
 public:
  Descent(const std::vector<int>& values, const std::vector<CostTable>& tables, const std::map<int, int>& forced)
      : values_(values), of_(values.size()), forced_(forced) {
    for (const CostTable& t : tables) {
      all_.push_back(&t);
      for (const int v : t.scope) at(of_, v).push_back(&t);
      for (const int a : t.scope)
        for (const int b : t.scope)
          if (a < b) pairs_.insert({a, b});
    }
  }

  LeastSum run() {
    LeastSum best{{}, std::numeric_limits<double>::infinity(), false};
    const int most = *std::max_element(values_.begin(), values_.end());
    for (int start = 0; start < most; start++) {
      std::vector<int> chosen;
      for (const int n : values_) chosen.push_back(std::min(start, n - 1));
      for (const auto& [v, k] : forced_) at(chosen, v) = k;
      for (int sweep = 0; sweep < kMostSweeps && improve(chosen); sweep++) {
      }
      if (const double seconds = sum_of(all_, values_, chosen); seconds < best.seconds) best = {chosen, seconds, false};
    }
    return best;
  }

 private:
  bool improve(std::vector<int>& chosen) const {
    bool better = false;
    for (int v = 0; v < static_cast<int>(values_.size()); v++) better = change(chosen, {v}) || better;
    for (const auto& [a, b] : pairs_) better = change(chosen, {a, b}) || better;
    return better;
  }

  bool change(std::vector<int>& chosen, const std::vector<int>& variables) const {
    std::vector<const CostTable*> touched;
    std::size_t combinations = 1;
    for (const int v : variables) {
      if (forced_.contains(v)) return false;
      combinations *= static_cast<std::size_t>(at(values_, v));
      for (const CostTable* t : at(of_, v))
        if (std::find(touched.begin(), touched.end(), t) == touched.end()) touched.push_back(t);
    }
    std::vector<int> best = chosen, next = chosen;
    const double before = sum_of(touched, values_, chosen);
    double least = before;
    for (const int v : variables) at(next, v) = 0;
    const std::vector<int> first_fastest(variables.rbegin(), variables.rend());
    for (std::size_t k = 0; k < combinations; k++, next_values(values_, first_fastest, next))
      if (const double seconds = sum_of(touched, values_, next); seconds < least) {
        least = seconds;
        best = next;
      }
    chosen = best;
    return least < before;
  }

  const std::vector<int>& values_;
  std::vector<const CostTable*> all_{};
  std::vector<std::vector<const CostTable*>> of_;
  std::set<std::pair<int, int>> pairs_{};
  const std::map<int, int>& forced_;
};

}  // namespace

void next_values(const std::vector<int>& values, const std::vector<int>& scope, std::vector<int>& chosen) {
  for (auto v = scope.rbegin(); v != scope.rend(); v++) {
    if (++at(chosen, *v) < at(values, *v)) return;
    at(chosen, *v) = 0;
  }
}

double sum_of_tables(const std::vector<CostTable>& tables, const std::vector<int>& values, const std::vector<int>& chosen) {
  std::vector<const CostTable*> all;
  for (const CostTable& t : tables) all.push_back(&t);
  return sum_of(all, values, chosen);
}

LeastSum least_sum(const std::vector<int>& values, const std::vector<CostTable>& tables, const std::map<int, int>& forced) {
  if (values.empty()) return {};
  std::map<std::vector<int>, std::vector<double>> by_scope;
  for (const CostTable& t : tables) {
    const auto [sum, first] = by_scope.emplace(t.scope, t.seconds);
    for (std::size_t i = 0; i < t.seconds.size() && !first; i++) sum->second[i] += t.seconds[i];
  }
  std::vector<CostTable> all;
  for (auto& [scope, seconds] : by_scope) all.push_back({scope, std::move(seconds)});
  const std::vector<CostTable> merged = all;
  for (const auto& [v, k] : forced) {
    CostTable only{{v}, std::vector<double>(static_cast<std::size_t>(at(values, v)), std::numeric_limits<double>::infinity())};
    at(only.seconds, k) = 0;
    all.push_back(std::move(only));
  }
  LeastSum out;
  if (Eliminator(values, std::move(all)).run(out)) return out;
  return Descent(values, merged, forced).run();
}

}  // namespace motley
