// SPDX-License-Identifier: Apache-2.0
#include "program/draft.h"

#include <motley/error.h>

#include <algorithm>
#include <optional>

#include "graph/update_form.h"
#include "kernels/operands.h"
#include "plan/kernel_of.h"
#include "plan/tiles.h"

namespace motley {

// The boxes of every parameter that this rank owns, with memory for the optimizer's slots, and the fed buffers.
Draft::Draft(const LocalPlan& local) : plan(local) {
  const Passes& all = plan.passes();
  program.rank = plan.rank();
  program.dtype = plan.data().dtype;
  program.micro_batches = static_cast<int>(all.accumulate);
  program.main_buffer.assign(all.tensors.size(), -1);
  for (int t : all.parameters) {
    std::vector<Box> reads;
    for (const Shard& h : plan.plan_of(t).readers)
      if (h.rank == plan.rank()) reads.push_back(h.box);
    const auto& home = plan.plan_of(t).home;
    const auto count = std::count_if(home.begin(), home.end(), [&](const Shard& h) { return h.rank == plan.rank(); });
    for (const Shard& h : home) {
      if (h.rank != plan.rank()) continue;
      Slice s;
      s.tensor = t;
      s.name = plan.tensor(t).name;
      s.box = h.box;
      s.value = add_buffer(s.name, program.dtype, h.box, plan.format_of(t), Space::state);
      if (all.accumulate > 1 && !plan.tensor(t).frozen)
        s.sum = add_buffer("sum of the gradients of " + s.name, DType::f64, h.box, plan.format_of(t), Space::kept);
      for (const std::string& slot : update_slots(all))
        if (all.trains && all.is_trained(t))
          s.slots.push_back(add_buffer(slot + " of " + s.name, program.dtype, h.box, plan.format_of(t), Space::state));
      if (count == 1 && reads.size() == 1 && reads.front() == h.box && !plan.shared(t).is_shared())
        at(program.main_buffer, t) = s.value;
      program.slices.push_back(std::move(s));
    }
  }
  if (all.trains) {
    const Index common = update_scalars(all.optimizer, all.averages) - kOwnScalars;
    program.scalars =
        add_buffer("the update's scalars", DType::f64, {{0, common + kOwnScalars * static_cast<Index>(program.slices.size())}},
                   Format::plain, Space::kept);
  }
  program.directs = all.trains && !all.optimizer.direction.code.empty();
  if (program.directs) {
    const Index count = std::max<Index>(1, static_cast<Index>(program.slices.size()));
    program.lengths =
        add_buffer("norms of parameters and directions", DType::f64, {{0, count}, {0, 2}}, Format::plain, Space::kept);
    program.ratios = add_buffer("ratios of these norms", DType::f64, {{0, count}}, Format::plain, Space::kept);
  }
  for (int t = 0; t < static_cast<int>(all.tensors.size()); t++) {
    const TensorRole role = plan.tensor(t).role;
    const auto& readers = plan.plan_of(t).readers;
    const bool here = std::any_of(readers.begin(), readers.end(), [&](const Shard& h) { return h.rank == plan.rank(); });
    if (here && (role == TensorRole::input || role == TensorRole::label || role == TensorRole::key))
      program.feeds.push_back({t, plan.tensor(t).name, main_buffer(t)});
  }
}

int Draft::add_buffer(const std::string& name, DType dtype, const Box& box, Format format, Space space) {
  Buffer b;
  b.name = name;
  b.dtype = dtype;
  b.box = box;
  b.format = box.size() < 3 ? Format::plain : format;
  b.space = space;
  b.bytes = volume(box) * static_cast<Index>(bytes_of(dtype));
  program.buffers.push_back(std::move(b));
  return static_cast<int>(program.buffers.size()) - 1;
}

int Draft::temporary(const std::string& name, DType dtype, const std::vector<Index>& extents, Format format) {
  Box box;
  for (Index e : extents) box.push_back({0, e});
  return add_buffer(name, dtype, box, format);
}

View Draft::fresh_view(const std::string& name, int t, const Box& box) {
  const int made = add_buffer(name, plan.dtype_of(t), box, plan.format_of(t));
  return view_of(buffer(made), made, box);
}

int Draft::main_buffer(int t) {
  if (const int made = at(program.main_buffer, t); made >= 0) return made;
  const std::string& name = plan.tensor(t).name;
  if (const SharedTensor& shared = plan.shared(t); shared.has(plan.rank())) {
    const int made =
        add_buffer(name, plan.dtype_of(t), shared.box, plan.format_of(t), shared.home == plan.rank() ? Space::arena : Space::peer);
    if (shared.home != plan.rank()) buffer(made).peer = shared.home;
    return at(program.main_buffer, t) = made;
  }
  std::optional<Box> all;
  auto take = [&](const Box& box) { all = all ? hull(*all, box) : box; };
  const TensorPlan& of = plan.plan_of(t);
  const bool tiled = of.arriving().tiles > 0, parameter = plan.tensor(t).role == TensorRole::parameter;
  for (const auto* list : {&of.home, &of.owners, &of.readers})
    for (const Shard& h : *list)
      if (h.rank == plan.rank() && !(tiled && list != &of.owners) && !(parameter && list != &of.readers)) take(h.box);
  for (int p : plan.writers(t))
    if (plan.works(p) && plan.direct(p)) take(operand_box(plan.pass(p).writes, plan.work_of(p).box));
  check(all.has_value(), "a tensor that is used here is stored here");
  const int made = add_buffer(name, plan.dtype_of(t), *all, plan.format_of(t),
                              plan.tensor(t).role == TensorRole::seed ? Space::kept : Space::arena);
  if (plan.tensor(t).role == TensorRole::seed) program.ones.push_back(made);
  return at(program.main_buffer, t) = made;
}

// A tensor that arrives tiled is in one buffer per tile.
View Draft::main_view(int t, const Box& box) {
  int id = -1;
  if (plan.plan_of(t).arriving().tiles > 0) {
    if (!tiles_.contains(t)) {
      std::vector<Contribution>& tiles = tiles_[t];
      const std::vector<Box> boxes = arriving_tiles(plan.data(), t, plan.rank());
      for (std::size_t k = 1; k < boxes.size(); k++)
        tiles.push_back({boxes[k], fresh_view("tile of " + plan.tensor(t).name, t, boxes[k])});
    }
    for (const Contribution& tile : tiles_.at(t))
      if (contains(tile.box, box)) id = tile.view.buffer;
  }
  if (id < 0) id = main_buffer(t);
  return view_of(buffer(id), id, box);
}

View Draft::output_view(int p, const Box& box) {
  const Pass& it = plan.pass(p);
  const int t = it.writes.tensor;
  if (plan.direct(p)) return main_view(t, box);
  std::vector<Contribution>& sums = partial_sums_[p];
  if (sums.empty())
    for (const Box& b : plan.plan_of(t).add.tiles > 0 ? leaving_tiles(plan.data(), p, plan.rank())
                                                      : std::vector<Box>{operand_box(it.writes, plan.work_of(p).box)})
      sums.push_back({b, fresh_view("partial sum of " + it.name, t, b)});
  const auto found = std::find_if(sums.begin(), sums.end(), [&](const Contribution& c) { return contains(c.box, box); });
  check(found != sums.end(), "a part of a result is in one of its tiles");
  return view_of(buffer(found->view.buffer), found->view.buffer, box);
}

View Draft::finished_view(int t, const Box& box) {
  if (plan.tensor(t).role == TensorRole::parameter)
    for (const Slice& s : program.slices)
      if (s.tensor == t && contains(s.box, box)) return view_of(buffer(s.value), s.value, box);
  return main_view(t, box);
}

Contribution Draft::partial_sum(int t, int writer, const Box& box) {
  const int p = at(plan.writers(t), writer);
  if (!plan.is_view(p)) return {box, output_view(p, box)};
  const Pass& it = plan.pass(p);
  Box source;
  std::vector<int> dim_of(it.indices.size(), -1);
  for (std::size_t d = 0; d < it.writes.indices.size(); d++) at(dim_of, it.writes.indices[d]) = static_cast<int>(d);
  for (int i : it.reads[0].indices) source.push_back(at(box, at(dim_of, i)));
  const View from = main_view(it.reads[0].tensor, source);
  View view{from.buffer, from.element, std::vector<Index>(box.size(), 0), extents_of(box)};
  for (std::size_t d = 0; d < it.reads[0].indices.size(); d++)
    at(view.strides, at(dim_of, it.reads[0].indices[d])) = from.strides[d];
  return {box, view};
}

bool Draft::is_aligned(const View& view) const {
  return !plan.on_device() ||
         view.element * static_cast<Index>(bytes_of(at(program.buffers, view.buffer).dtype)) % kDeviceAlignment == 0;
}

void Draft::add(std::variant<RunKernel, Post, Wait, Move> what, std::vector<Payload> sends, std::vector<Payload> receives) {
  const int of = std::holds_alternative<RunKernel>(what) ? pass : -1;
  steps.push_back({std::move(what), turn, of, std::move(sends), std::move(receives), once});
}

void Draft::kernel(KernelSpec spec, std::vector<Place> operands, const std::string& name, Purpose purpose) {
  add(RunKernel{std::move(spec), std::move(operands), name, purpose});
}

void Draft::copy(const View& from, const View& to, const std::string& name) {
  KernelSpec spec = copy_of(buffer(from.buffer).dtype, from, to);
  spec.operands.back().dtype = buffer(to.buffer).dtype;
  kernel(std::move(spec), {{from.buffer, from.element}, {to.buffer, to.element}}, name, Purpose::move);
}

}  // namespace motley
