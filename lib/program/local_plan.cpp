// SPDX-License-Identifier: Apache-2.0
#include "program/local_plan.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/overlaps.h"
#include "plan/kernel_of.h"

namespace motley {

LocalPlan::LocalPlan(const CommonPlan& plan, int rank) : CommonPlan(plan), rank_(rank), direct_(plan.passes().passes.size()) {}

bool LocalPlan::works(int p) const {
  const auto& work = at(data().pass_plans, p).work;
  return !work.empty() && at(work, rank_).any;
}

bool LocalPlan::direct(int p) const {
  std::optional<bool>& answer = at(direct_, p);
  if (answer) return *answer;
  const Pass& it = pass(p);
  const TensorPlan& plan = plan_of(it.writes.tensor);
  const Box mine = operand_box(it.writes, work_of(p).box);
  const int k = writer_index(p), bias = bias_of(p);
  std::vector<int> fused{k};
  if (bias >= 0) fused.push_back(writer_index(bias));
  std::sort(fused.begin(), fused.end());
  bool good = plan.add.tiles == 0;
  for (const BoxMessage* m : messages_of(it.writes.tensor, 0)) {
    const bool has = has_value(m->writers, k);
    if (m->from == rank_)
      good = good && (has ? m->writers == fused : !overlaps(m->box, mine));  // no other partial sum of the same elements
    if (m->to == rank_ && overlaps(m->box, mine)) good = good && m->from == rank_ && has;
  }
  if (shared(it.writes.tensor).is_shared() || plan.arriving().tiles > 0)  // what other ranks write there must not be overwritten
    good = good && std::any_of(plan.owners.begin(), plan.owners.end(),
                               [&](const Shard& own) { return own.rank == rank_ && contains(own.box, mine); });
  answer = good;
  return good;
}

int LocalPlan::bias_of(int p) const {
  const Pass& it = pass(p);
  if (!options().fuse || it.kind != PassKind::forward || (it.op != KernelOp::conv2d && it.op != KernelOp::dense)) return -1;
  const auto& both = writers(it.writes.tensor);
  if (both.size() != 2) return -1;
  const int other = both[0] == p ? both[1] : both[0];
  const auto in_all = [&](int i) { return has_value(it.reads[0].indices, i) && has_value(it.reads[1].indices, i); };
  if (it.op == KernelOp::dense && std::any_of(it.writes.indices.begin(), it.writes.indices.end(), in_all)) return -1;
  if (!is_view(other) || !works(other) || tensor(pass(other).reads[0].tensor).role != TensorRole::parameter) return -1;
  // The bias has one value for each value of the indices that only the weights have, and no other index.
  std::set<std::string> made, its;
  for (const int i : it.writes.indices)
    if (has_value(it.reads[1].indices, i) && !has_value(it.reads[0].indices, i)) made.insert(at(it.indices, i).name);
  for (const int i : pass(other).reads[0].indices) its.insert(at(pass(other).indices, i).name);
  if (made != its) return -1;
  const Box mine = operand_box(it.writes, work_of(p).box);
  if (!contains(operand_box(pass(other).writes, work_of(other).box), mine)) return -1;
  for (const BoxMessage* m : messages_of(it.writes.tensor, 0)) {
    if (m->from == rank_ && m->writers != std::vector<int>{0, 1}) return -1;
    if (m->from != rank_ && overlaps(m->box, mine)) return -1;
  }
  return other;
}

int LocalPlan::activation_after(int t, const Box& box) const {
  if (!options().fuse || readers(t).size() != 1 || has_value(passes().outputs, t)) return -1;
  const int p = readers(t).front();
  const Pass& it = pass(p);
  if (!is_pointwise(it) || !works(p)) return -1;
  if (operand_box(it.reads[0], work_of(p).box) != box || operand_box(it.writes, work_of(p).box) != box || !direct(p)) return -1;
  for (const std::size_t hop : {1U, 2U})
    for (const BoxMessage* m : messages_of(t, hop))
      if (m->from != m->to) return -1;
  return p;
}

}  // namespace motley
