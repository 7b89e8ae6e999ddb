// SPDX-License-Identifier: Apache-2.0
#include "balance/part_bounds.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/at.h"
#include "mesh/parts.h"

namespace motley {

PartBounds::PartBounds(const PlanData& base, const Mesh& mesh, const Cost& cost, const std::vector<Variable>& variables,
                       double fused)
    : sums_(static_cast<std::size_t>(mesh.ranks()), 0.0) {
  for (std::size_t p = 0; p < base.passes.passes.size(); p++) {
    const Pass& pass = base.passes.passes[p];
    const PassPlan& plan = base.pass_plans[p];
    const auto follows = [&](const Variable& v) { return following(base, mesh, pass, plan, v) >= 0; };
    if (plan.work.empty() || std::none_of(variables.begin(), variables.end(), follows)) continue;
    Box all;
    for (const PassIndex& i : pass.indices) all.push_back({0, i.size});
    std::vector<double>& seconds = passes_.emplace_back();
    for (int r = 0; r < mesh.ranks(); r++) at(sums_, r) += seconds.emplace_back(fused * cost.pass(r, static_cast<int>(p), all));
  }
}

double PartBounds::of(const RankSet& ranks) const {
  double sum = 0;
  for (const std::vector<double>& seconds : passes_) {
    double speed = 0;
    for (std::size_t r = 0; r < seconds.size(); r++) speed += ranks[r] ? 1 / std::max(seconds[r], 1e-30) : 0;
    sum += 1 / speed;
  }
  return sum;
}

double PartBounds::of(const Assignment& parts, const Mesh& mesh, const std::vector<Variable>& variables) const {
  double most = 0;
  for (std::size_t r = 0; r < sums_.size(); r++) {
    const int rank = static_cast<int>(r);
    std::vector<double> least(mesh.axes().size(), 1.0);
    for (std::size_t i = 0; i < parts.size(); i++) {
      const Variable& v = variables[i];
      const Index units = at(at(parts[i].lists, list_of(mesh, parts[i].per, rank)), part_of(mesh, v.axes, rank));
      for (int a : v.axes) at(least, a) = std::min(at(least, a), static_cast<double>(units) / static_cast<double>(v.size));
    }
    most = std::max(most, std::accumulate(least.begin(), least.end(), sums_[r], std::multiplies<>()));
  }
  return most;
}

}  // namespace motley
