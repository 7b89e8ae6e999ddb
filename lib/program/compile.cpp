// SPDX-License-Identifier: Apache-2.0
#include "program/compile.h"

#include <motley/error.h>

#include <algorithm>

#include "graph/update_form.h"
#include "program/views.h"

namespace motley {

namespace {

// Exchanges in which a tensor arrives tile by tile.
std::set<int> tiled_exchanges(const Draft& draft) {
  std::set<int> out;
  for (int e = 0; e < static_cast<int>(draft.program.moved.size()); e++)
    if (const Moved& of = at(draft.program.moved, e); of.hop > 0 && !of.flags)
      for (int t : of.tensors)
        if (draft.plan.plan_of(t).arriving().tiles > 0) out.insert(e);
  return out;
}

}  // namespace

Program compile(const Plan& plan, int rank, const CompileOptions& options) {
  Program out = compile(CommonPlan(plan.data(), options), rank);
  out.learning_rate = plan.step().scalars().learning_rate;
  out.step_scalars = plan.step().passes().optimizer.scalars;
  out.average = plan.step().scalars().average;
  out.slot_names = update_slots(plan.step().passes());
  for (Slice& s : out.slices) {
    const OwnScalars its = own_scalars(plan.step().scalars(), s.name, at(plan.data().passes.tensors, s.tensor).decays);
    s.rate_factor = its.rate_factor;
    s.weight_decay = its.weight_decay;
  }
  return out;
}

std::vector<Program> compile_all(const CommonPlan& plan) {
  std::vector<Program> out;
  for (std::size_t r = 0; r < plan.data().predicted.size(); r++) out.push_back(compile(plan, static_cast<int>(r)));
  return out;
}

Program compile(const CommonPlan& all, int rank, Fusions* fusions) {
  const PlanData& plan = all.data();
  const CompileOptions& options = all.options();
  const LocalPlan local(all, rank);
  Draft draft = lower(local, fusions);
  exchange(draft);
  share(draft);
  coalesce(draft);
  const std::set<int> tiled = tiled_exchanges(draft);
  Program out = finished(std::move(draft));
  tile(out, plan);
  if (options.fuse_maps) fuse(out, plan, options, fusions);
  if (options.pending != Pending::none) overlap(out, plan, tiled);
  name_implementations(out, plan);
  if (options.chain != Chained::none && !at(plan.on_device, rank)) chain(out, options.chain);
  place(out, plan.passes, options);
  if (options.settle) settle(out);
  return out;
}

Program finished(Draft draft) {
  const int middle = draft.plan.backward_turn();
  Program out = std::move(draft.program);
  out.combine_begin = out.update_begin = out.move_begin = -1;
  std::vector<bool> used(out.buffers.size(), false);
  for (const FedBuffer& f : out.feeds) at(used, f.buffer) = true;
  out.steps.reserve(draft.steps.size());
  for (DraftStep& s : draft.steps) {
    if (s.turn < middle) out.forward_steps++;
    auto begin_at = [&](int& first, int turn) {
      if (first < 0 && s.turn >= turn) first = static_cast<int>(out.steps.size());
    };
    begin_at(out.combine_begin, draft.plan.combine_turn());
    begin_at(out.update_begin, draft.plan.update_turn());
    begin_at(out.move_begin, draft.plan.move_turn());
    for_buffers(s.what, [&](int buffer) { at(used, buffer) = true; });
    if (auto* run = std::get_if<RunKernel>(&s.what)) {
      out.steps.push_back({std::move(*run), s.once});
    } else if (auto* post = std::get_if<Post>(&s.what)) {
      out.steps.push_back({std::move(*post), s.once});
    } else {
      check(std::holds_alternative<Wait>(s.what), "every move has become messages");
      out.steps.push_back({std::get<Wait>(s.what), s.once});
    }
  }
  for (int* begin : {&out.combine_begin, &out.update_begin, &out.move_begin})
    if (*begin < 0) *begin = static_cast<int>(out.steps.size());
  for (std::vector<Stored>& stored : out.stored)  // a tensor that exists only inside a kernel
    std::erase_if(stored, [&](const Stored& s) { return !at(used, s.buffer) && at(out.buffers, s.buffer).space == Space::arena; });
  return out;
}

void name_implementations(Program& program, const PlanData& plan) {
  if (plan.implementations.empty()) return;
  const std::vector<ChosenKernel>& chosen = at(plan.implementations, program.rank);
  for (ProgramStep& s : program.steps) {
    auto* run = std::get_if<RunKernel>(&s.what);
    if (run == nullptr) continue;
    const auto found = std::find_if(chosen.begin(), chosen.end(), [&](const ChosenKernel& c) { return c.spec == run->spec; });
    if (found != chosen.end()) run->implementation = found->implementation;
  }
}

}  // namespace motley
