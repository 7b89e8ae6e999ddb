// SPDX-License-Identifier: Apache-2.0
#include "plan/sketch.h"

#include <motley/error.h>
#include <motley/schedule.h>

#include <algorithm>
#include <utility>

#include "base/at.h"
#include "plan/statistics.h"

namespace motley {

namespace {

struct Clocks {
  Clocks(const Passes& passes, int ranks)
      : now(static_cast<std::size_t>(ranks), 0.0), busy(now), arrived(passes.tensors.size() * now.size(), 0.0) {}
  void spend(int rank, double seconds) {
    at(now, rank) += seconds;
    at(busy, rank) += seconds;
  }
  void wait(int rank, double until) { at(now, rank) = std::max(at(now, rank), until); }
  double& arrival(int tensor, int rank) {
    return arrived[static_cast<std::size_t>(tensor) * now.size() + static_cast<std::size_t>(rank)];
  }
  std::vector<double> now, busy;  // per rank
  std::vector<double> arrived;    // per tensor and rank: what other hosts send
};

}  // namespace

Sketcher::Sketcher(const PlanData& like, const Mesh& mesh, const Cost& cost)
    : like_(like), mesh_(mesh), sweeper_(like.passes, mesh, layouts_like(like, mesh, like.rules), cost) {}

Sketch Sketcher::of(const LayoutRules& resolved) {
  sweeper_.lay_out(layouts_like(like_, mesh_, resolved));
  return sweeper_.sketch(picks_like(like_, mesh_, sweeper_.layouts()));
}

void Sweeper::lay_out(Layouts layouts) {
  layouts_ = std::move(layouts);
  homes_.clear();
  for (auto& of_pass : candidates_) of_pass.clear();
  relaid_ = true;
}

Sketch Sweeper::sketch(const std::map<int, Pick>& picks) const {
  check(relaid_, "what a sketch needs is kept from lay_out on");
  const Trial trial = attempt(picks);
  Clocks clocks(passes_, mesh_.ranks());
  Wires wires(cost_.machines());
  std::vector<double> written;
  const auto move = [&](int tensor) {
    for (const std::vector<Transfer>& hop : at(trial.tensors, tensor)->hops) {
      if (!hop.empty()) written = clocks.now;
      for (const Transfer& t : hop)
        if (cost_.host(t.from) == cost_.host(t.to)) {
          clocks.wait(t.to, at(written, t.from));
          clocks.spend(t.to, t.takes.seconds);
        } else {
          double& last = clocks.arrival(tensor, t.to);
          last = std::max(last, wires.arrival(t.from, t.to, at(written, t.from), t.takes));
        }
    }
  };
  Sketch out;
  for (const int t : passes_.parameters) move(t);
  std::vector<std::size_t> of_tensor(passes_.tensors.size(), 0);  // of its writers, those that have run
  for (std::size_t p = 0; p < passes_.passes.size(); p++) {
    const Pass& pass = passes_.passes[p];
    const int t = pass.writes.tensor;
    const Decided& its = *at(trial.tensors, t);
    const std::size_t writer = at(of_tensor, t)++;
    for (int r = 0; r < mesh_.ranks() && !its.passes.empty(); r++) {
      const Work& work = at(its.passes[writer].work, r);
      if (!work.any) continue;
      for (const PassOperand& o : pass.reads) clocks.wait(r, clocks.arrival(o.tensor, r));
      clocks.spend(r, at(its.seconds[writer], r));
      out.defined = out.defined && !leaves_undefined(pass, work);
    }
    if (writer + 1 == at(writers_, t).size()) move(t);
  }
  for (int t = 0; t < static_cast<int>(passes_.tensors.size()); t++)
    for (int r = 0; r < mesh_.ranks(); r++) clocks.wait(r, clocks.arrival(t, r));
  out.seconds = *std::max_element(clocks.now.begin(), clocks.now.end());
  out.busy = std::move(clocks.busy);
  return out;
}

}  // namespace motley
