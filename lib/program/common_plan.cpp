// SPDX-License-Identifier: Apache-2.0
#include "program/common_plan.h"

#include <map>
#include <numeric>

#include "plan/kernel_of.h"
#include "plan/moved_once.h"
#include "plan/schedules.h"
#include "plan/tiles.h"
#include "program/compile.h"

namespace motley {

bool SharedTensor::has(int rank) const {
  return has_value(ranks, rank);
}

MessagesByRank::MessagesByRank(std::span<const BoxMessage> messages, std::size_t ranks) {
  if (messages.empty()) return;
  begin_.assign(ranks + 1, 0);
  const auto each = [&](const auto& visit) {
    for (const BoxMessage& m : messages) {
      visit(m, m.from);
      if (m.to != m.from) visit(m, m.to);
    }
  };
  each([&](const BoxMessage&, int rank) { at(begin_, rank + 1)++; });
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  messages_.resize(begin_.back());
  std::vector<std::size_t> next = begin_;
  each([&](const BoxMessage& m, int rank) { messages_[at(next, rank)++] = &m; });
}

std::span<const BoxMessage* const> MessagesByRank::of(int rank) const {
  if (begin_.empty()) return {};
  return std::span(messages_).subspan(at(begin_, rank), at(begin_, rank + 1) - at(begin_, rank));
}

namespace {

// Lists that the plan does not have as they are become a part of `scheduled`.
std::array<StagesOfHop, 3> stages_in(const TensorPlan& plan, std::span<const int> hosts,
                                     std::vector<std::array<Stages, 3>>& scheduled) {
  std::array<StagesOfHop, 3> out;
  const auto as_they_are = [](const Hop& hop) { return hop.schedule.tree == Tree::direct && hop.tiles == 0; };
  if (as_they_are(plan.add) && as_they_are(plan.copy) && as_they_are(plan.fill)) {
    for (std::size_t hop = 0; hop < out.size(); hop++) out[hop] = {(plan.*kHops[hop]).messages};
    return out;
  }
  const std::array<Stages, 3>& made = scheduled.emplace_back(stages_of(plan, hosts));  // its lists stay where they are
  for (std::size_t hop = 0; hop < out.size(); hop++) out[hop].assign(made[hop].begin(), made[hop].end());
  return out;
}

}  // namespace

CommonPlan::CommonPlan(const PlanData& data, const CompileOptions& options) : data_(data) {
  const auto making = std::make_shared<Made>();
  made_ = making;
  Made& made = *making;
  made.options = options;
  made.layers = layers_of(data_.passes);
  const Passes& all = data_.passes;
  const auto tensors = static_cast<int>(all.tensors.size()), passes = static_cast<int>(all.passes.size());
  made.writers.resize(all.tensors.size());
  made.readers.resize(all.tensors.size());
  made.opened.assign(all.tensors.size(), -1);
  for (int p = 0; p < passes; p++) {
    at(made.writers, pass(p).writes.tensor).push_back(p);
    for (const PassOperand& o : pass(p).reads) at(made.readers, o.tensor).push_back(p);
  }
  for (int t = 0; t < tensors; t++) {
    if (writers(t).empty()) continue;
    const int p = writers(t).front();
    at(made.opened, t) = p;
    if (is_pointwise(pass(p)))  // the kernel before it may apply the activation
      if (const auto& before = writers(pass(p).reads[0].tensor); !before.empty()) at(made.opened, t) = before.front();
  }
  for (int p = 0; p < passes; p++)  // a parameter is opened when its values are first put together
    for (int w : writers(pass(p).writes.tensor))
      for (const PassOperand& o : pass(w).reads)
        if ((w == p || is_view(w)) && tensor(o.tensor).role == TensorRole::parameter && opened_at(o.tensor) < 0) {
          at(made.opened, o.tensor) = p;
          made.filled.push_back(o.tensor);
        }
  made.once = moved_once(data_);
  const auto first = std::find_if(all.passes.begin(), all.passes.end(), [&](const Pass& p) {
    const TensorRole role = tensor(p.writes.tensor).role;
    return role == TensorRole::gradient || role == TensorRole::parameter_gradient;
  });
  made.backward_turn = static_cast<int>(first - all.passes.begin());
  made.memory = memories();
  for (const TensorPlan& plan : data_.tensors) {
    const std::array<StagesOfHop, 3>& hops = made.stages.emplace_back(stages_in(plan, data_.hosts, made.scheduled));
    auto& reaches = made.reaches.emplace_back();
    auto& by_rank = made.stage_messages.emplace_back();
    for (std::size_t hop = 0; hop < hops.size(); hop++)
      for (const auto& stage : hops[hop]) {
        reaches[hop].push_back(reach_of(stage));
        by_rank[hop].emplace_back(stage, data_.hosts.size());
      }
    auto& messages = made.messages.emplace_back();
    for (const auto hop : kHops) messages.emplace_back((plan.*hop).messages, data_.hosts.size());
  }
  made.group.assign(all.tensors.size(), -1);
  made.together = moved_together(*this);
  for (std::size_t m = 0; m < made.together.size(); m++)
    for (int t : made.together[m].tensors) {
      at(made.group, t) = static_cast<int>(m);
      if (tensor(t).role == TensorRole::parameter) at(made.opened, t) = made.together[m].turn;
    }
  const int memories = made.memory.empty() ? 0 : *std::max_element(made.memory.begin(), made.memory.end()) + 1;
  for (int t = 0; t < tensors; t++) {
    std::vector<SharedTensor>& shared = made.shared.emplace_back();
    for (int memory = 0; memory < memories; memory++) shared.push_back(shared_in(t, memory));
  }
}

const MovedTogether* CommonPlan::together(int t) const {
  const int group = at(made_->group, t);
  return group < 0 ? nullptr : &at(made_->together, group);
}

int CommonPlan::writer_index(int p) const {
  const auto& all = writers(pass(p).writes.tensor);
  return static_cast<int>(std::find(all.begin(), all.end(), p) - all.begin());
}

bool CommonPlan::is_view(int p) const {
  return motley::is_view(pass(p));
}

bool CommonPlan::same_memory(int a, int b) const {
  return at(made_->memory, a) >= 0 && at(made_->memory, a) == at(made_->memory, b);
}

const SharedTensor& CommonPlan::shared_with(int t, int rank) const {
  static const SharedTensor none;
  const int memory = at(made_->memory, rank);
  return memory < 0 ? none : at(at(made_->shared, t), memory);
}

bool CommonPlan::is_shared(int t) const {
  const auto& in = at(made_->shared, t);
  return std::any_of(in.begin(), in.end(), [](const SharedTensor& s) { return s.is_shared(); });
}

std::vector<int> CommonPlan::memories() const {
  std::vector<int> out(data_.on_device.size(), -1);
  std::map<std::pair<int, int>, int> numbers;
  for (std::size_t r = 0; r < data_.hosts.size() && options().share; r++)
    if (!data_.on_device[r]) {
      const std::pair<int, int> host{data_.hosts[r], options().hosts.empty() ? 0 : options().hosts.at(r)};
      out[r] = numbers.emplace(host, static_cast<int>(numbers.size())).first->second;
    }
  return out;
}

Reach CommonPlan::reach_of(std::span<const BoxMessage> stage) const {
  Reach out;
  for (const BoxMessage& m : stage)
    if (m.from != m.to) (same_memory(m.from, m.to) ? out.same_memory : out.apart) = true;
  return out;
}

// Whether the tensor is shared among the ranks with this memory, and where it is stored.
SharedTensor CommonPlan::shared_in(int t, int memory) const {
  const auto here = [&](int rank) { return at(made_->memory, rank) == memory; };
  const TensorRole role = tensor(t).role;
  if (role == TensorRole::input || role == TensorRole::label || role == TensorRole::key || role == TensorRole::seed ||
      has_value(passes().outputs, t) || has_value(options().keep, t))
    return {};
  if (options().keep_gradients && role == TensorRole::parameter_gradient) return {};
  const TensorPlan& plan = plan_of(t);
  if (plan.arriving().tiles > 0) return {};
  SharedTensor out;
  for (const Shard& need : plan.readers) {
    if (!here(need.rank)) continue;
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
    if (!here(own.rank)) continue;
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
    if (role != TensorRole::parameter && here(home.rank) && !out.has(home.rank)) return {};
  out.home = at(out.ranks, static_cast<std::size_t>(t) % out.ranks.size());
  return out;
}

int CommonPlan::closed_at(int t) const {
  int last = writers(t).empty() ? -1 : writers(t).back();
  for (int p : readers(t))  // a view is read where the tensor that it is a part of is put together
    last = std::max(last, is_view(p) ? writers(pass(p).writes.tensor).back() : p);
  return last;
}

}  // namespace motley
