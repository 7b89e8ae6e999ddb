// SPDX-License-Identifier: Apache-2.0
#include "program/local_plan.h"

#include <algorithm>
#include <set>
#include <string>

#include "plan/kernel_of.h"
#include "plan/moved_once.h"
#include "plan/schedules.h"
#include "plan/tiles.h"
#include "program/compile.h"

namespace motley {

namespace {

template <class List, class T>
bool has_value(const List& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

bool SharedTensor::has(int rank) const {
  return has_value(ranks, rank);
}

LocalPlan::LocalPlan(const PlanData& data, int rank, const CompileOptions& options) : data_(data), rank_(rank), options_(options) {
  const Passes& all = data_.passes;
  writers_.resize(all.tensors.size());
  readers_.resize(all.tensors.size());
  opened_.assign(all.tensors.size(), -1);
  direct_.resize(all.passes.size());
  stages_.resize(all.tensors.size());
  shared_.resize(all.tensors.size());
  for (int p = 0; p < static_cast<int>(all.passes.size()); p++) {
    at(writers_, pass(p).writes.tensor).push_back(p);
    for (const PassOperand& o : pass(p).reads) at(readers_, o.tensor).push_back(p);
  }
  for (int t = 0; t < static_cast<int>(all.tensors.size()); t++) {
    if (writers(t).empty()) continue;
    const int p = writers(t).front();
    at(opened_, t) = p;
    if (is_pointwise(pass(p)))  // the kernel before it may apply the activation
      if (const auto& before = writers(pass(p).reads[0].tensor); !before.empty()) at(opened_, t) = before.front();
  }
  for (int p = 0; p < static_cast<int>(all.passes.size()); p++)  // a parameter is opened when its values are first put together
    for (int w : writers(pass(p).writes.tensor))
      for (const PassOperand& o : pass(w).reads)
        if ((w == p || is_view(w)) && tensor(o.tensor).role == TensorRole::parameter && opened_at(o.tensor) < 0) {
          at(opened_, o.tensor) = p;
          filled_.push_back(o.tensor);
        }
  once_ = moved_once(data_);
  const auto first = std::find_if(all.passes.begin(), all.passes.end(), [&](const Pass& p) {
    const TensorRole role = tensor(p.writes.tensor).role;
    return role == TensorRole::gradient || role == TensorRole::parameter_gradient;
  });
  backward_turn_ = static_cast<int>(first - all.passes.begin());
  group_.assign(all.tensors.size(), -1);
  together_ = moved_together(*this);
  for (std::size_t m = 0; m < together_.size(); m++)
    for (int t : together_[m].tensors) {
      at(group_, t) = static_cast<int>(m);
      if (tensor(t).role == TensorRole::parameter) at(opened_, t) = together_[m].turn;
    }
}

const MovedTogether* LocalPlan::together(int t) const {
  const int group = at(group_, t);
  return group < 0 ? nullptr : &at(together_, group);
}

bool LocalPlan::works(int p) const {
  const auto& work = at(data_.pass_plans, p).work;
  return !work.empty() && at(work, rank_).any;
}

int LocalPlan::writer_index(int p) const {
  const auto& all = writers(pass(p).writes.tensor);
  return static_cast<int>(std::find(all.begin(), all.end(), p) - all.begin());
}

const std::array<Stages, 3>& LocalPlan::stages_of(int t) const {
  auto& known = at(stages_, t);
  if (!known) known = motley::stages_of(plan_of(t), data_.hosts);
  return *known;
}

bool LocalPlan::is_view(int p) const {
  return motley::is_view(pass(p));
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
  for (const BoxMessage& m : plan.add.messages) {
    const bool has = has_value(m.writers, k);
    if (m.from == rank_)
      good = good && (has ? m.writers == fused : !overlaps(m.box, mine));  // no other partial sum of the same elements
    if (m.to == rank_ && overlaps(m.box, mine)) good = good && m.from == rank_ && has;
  }
  if (shared(it.writes.tensor).is_shared() || plan.arriving().tiles > 0)  // what other ranks write there must not be overwritten
    good = good && std::any_of(plan.owners.begin(), plan.owners.end(),
                               [&](const Shard& own) { return own.rank == rank_ && contains(own.box, mine); });
  answer = good;
  return good;
}

int LocalPlan::bias_of(int p) const {
  const Pass& it = pass(p);
  if (!options_.fuse || it.kind != PassKind::forward || (it.op != KernelOp::conv2d && it.op != KernelOp::dense)) return -1;
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
  for (const BoxMessage& m : plan_of(it.writes.tensor).add.messages) {
    if (m.from == rank_ && m.writers != std::vector<int>{0, 1}) return -1;
    if (m.to == rank_ && m.from != rank_ && overlaps(m.box, mine)) return -1;
  }
  return other;
}

int LocalPlan::activation_after(int t, const Box& box) const {
  if (!options_.fuse || readers(t).size() != 1 || has_value(passes().outputs, t)) return -1;
  const int p = readers(t).front();
  const Pass& it = pass(p);
  if (!is_pointwise(it) || !works(p)) return -1;
  if (operand_box(it.reads[0], work_of(p).box) != box || operand_box(it.writes, work_of(p).box) != box || !direct(p)) return -1;
  const TensorPlan& plan = plan_of(t);
  for (const Hop* hop : {&plan.copy, &plan.fill})
    for (const BoxMessage& m : hop->messages)
      if (m.from != m.to && (m.from == rank_ || m.to == rank_)) return -1;
  return p;
}

bool LocalPlan::same_memory(int a, int b) const {
  return options_.share && !data_.hosts.empty() && at(data_.hosts, a) == at(data_.hosts, b) && !at(data_.on_device, a) &&
         !at(data_.on_device, b) && (options_.hosts.empty() || at(options_.hosts, a) == at(options_.hosts, b));
}

const SharedTensor& LocalPlan::shared(int t) const {
  auto& known = at(shared_, t);
  if (!known) known = shared_of(t, rank_);
  return *known;
}

// Whether the tensor is shared among the ranks that read this one's memory, and where it is stored.
SharedTensor LocalPlan::shared_of(int t, int rank) const {
  const TensorRole role = tensor(t).role;
  if (role == TensorRole::input || role == TensorRole::label || role == TensorRole::key || role == TensorRole::seed ||
      has_value(passes().outputs, t) || has_value(options_.keep, t))
    return {};
  if (options_.keep_gradients && role == TensorRole::parameter_gradient) return {};
  const TensorPlan& plan = plan_of(t);
  if (plan.arriving().tiles > 0) return {};
  SharedTensor out;
  for (const Shard& need : plan.readers) {
    if (!same_memory(need.rank, rank)) continue;
    out.box = out.ranks.empty() ? need.box : hull(out.box, need.box);
    if (!out.has(need.rank)) out.ranks.push_back(need.rank);
  }
  if (out.ranks.size() < 2) return {};
  for (int r : out.ranks) {  // each of these ranks must read all of it
    Index reads = 0;
    for (const Shard& need : plan.readers) reads += need.rank == r ? volume(need.box) : 0;
    if (reads != volume(out.box)) return {};
  }
  std::vector<Box> parts;  // each element is written by one of these ranks, or comes from elsewhere
  for (const Shard& own : plan.owners) {
    if (!same_memory(own.rank, rank)) continue;
    if (!out.has(own.rank) || !contains(out.box, own.box)) return {};
    parts.push_back(own.box);
  }
  for (std::size_t hop : {1U, 2U})
    for (const auto& stage : stages_of(t)[hop])
      for (const BoxMessage& m : stage)
        if (out.has(m.to) && !out.has(m.from)) parts.push_back(m.box);
  Index filled = 0;
  for (const Box& part : parts) filled += volume(part);
  if (filled != volume(out.box) || !subtract(out.box, parts).empty()) return {};
  for (const Shard& home : plan.home)
    if (role != TensorRole::parameter && same_memory(home.rank, rank) && !out.has(home.rank)) return {};
  out.home = at(out.ranks, static_cast<std::size_t>(t) % out.ranks.size());
  return out;
}

int LocalPlan::closed_at(int t) const {
  int last = writers(t).empty() ? -1 : writers(t).back();
  for (int p : readers(t))  // a view is read where the tensor that it is a part of is put together
    last = std::max(last, is_view(p) ? writers(pass(p).writes.tensor).back() : p);
  return last;
}

}  // namespace motley
