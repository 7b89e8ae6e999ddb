// SPDX-License-Identifier: Apache-2.0
// One sweep backward over the passes: consumers are decided before producers; each pass takes the pick of least cost. Then one
// improving sweep over the whole plan. Source: notes of the algebra's prototype (DESIGN "The algebra, tried").
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "plan/cost.h"
#include "plan/layouts.h"
#include "plan/plan_data.h"

namespace motley {

struct Sweep {
  std::vector<PassPlan> passes{};
  std::vector<TensorPlan> tensors{};
  std::vector<std::vector<Index>> received{};  // [tensor][rank] bytes
  double cost = 0;
};

class Sweeper {
 public:
  Sweeper(const Passes& passes, const Mesh& mesh, Layouts layouts, const Cost& cost);
  // Every pick told, or (an absent one) chosen by least local cost.
  Sweep run(const std::map<int, Pick>& picks);
  Sweep improve();
  std::vector<Pick> candidates(int pass) const;  // every compatible set of cuts; the empty one first
  const Layouts& layouts() const { return layouts_; }

 private:
  using Boxes = std::vector<std::vector<Box>>;  // per rank: disjoint
  struct Moves {
    std::vector<BoxMessage> first{}, second{};
    std::vector<Held> tiles{};
  };
  int key(int rank, const std::vector<bool>& axes) const;
  PassPlan work(int pass, const Pick& pick, const std::vector<Held>& asked) const;
  Moves route(const std::vector<int>& writers, const std::vector<PassPlan>& plans, const std::vector<Held>& targets) const;
  Pick cheapest(int pass, const std::vector<Held>& asked, const std::vector<Boxes>& needs) const;
  std::vector<Held> home(int parameter) const;
  std::vector<Held> resting(int tensor, const std::vector<Held>& needs) const;
  std::vector<bool> ruled(int tensor) const;
  double compute(int pass, const PassPlan& plan) const;
  double exchange(int tensor, const std::vector<BoxMessage>& messages, std::vector<Index>* received) const;
  bool fold_of_whole(const Pass& p) const;

  const Passes& passes_;
  const Mesh& mesh_;
  Layouts layouts_;
  const Cost& cost_;
  std::vector<std::vector<int>> writers_;  // per tensor
};

}  // namespace motley
