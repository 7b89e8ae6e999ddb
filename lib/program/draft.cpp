// SPDX-License-Identifier: Apache-2.0
#include "program/draft.h"

#include <motley/error.h>

#include <algorithm>
#include <optional>

#include "graph/update_form.h"
#include "kernels/operands.h"
#include "plan/kernel_of.h"
#include "plan/tiles.h"
#include "program/stored.h"

namespace motley {

// The boxes of every parameter that this rank owns, with memory for the optimizer's slots, and the fed buffers.
Draft::Draft(const LocalPlan& local) : plan(local) {
  const Passes& all = plan.passes();
  program.rank = plan.rank();
  program.dtype = plan.data().dtype;
  program.micro_batches = static_cast<int>(all.accumulate);
  program.stored.resize(all.tensors.size());
  for (int t : all.parameters) {
    for (const Shard& h : plan.plan_of(t).home) {
      if (h.rank != plan.rank()) continue;
      Slice s;
      s.tensor = t;
      s.name = plan.tensor(t).name;
      s.box = h.box;
      s.value = add_buffer(s.name, program.dtype, h.box, plan.format_of(t), Space::state, t);
      if (all.accumulate > 1 && !plan.tensor(t).frozen)
        s.sum = add_buffer("sum of the gradients of " + s.name, DType::f64, h.box, plan.format_of(t), Space::kept, t);
      for (const std::string& slot : update_slots(all))
        if (all.trains && all.is_trained(t))
          s.slots.push_back(add_buffer(slot + " of " + s.name, program.dtype, h.box, plan.format_of(t), Space::state, t));
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
    if (!here || (role != TensorRole::input && role != TensorRole::label && role != TensorRole::key)) continue;
    std::set<int> buffers;
    for (const Stored& s : stored(t))
      if (buffers.insert(s.buffer).second) program.feeds.push_back({t, plan.tensor(t).name, s.buffer});
  }
}

int Draft::add_buffer(const std::string& name, DType dtype, const Box& box, Format format, Space space, int tensor) {
  Buffer b;
  b.name = name;
  b.dtype = dtype;
  b.box = box;
  b.format = box.size() < 3 ? Format::plain : format;
  b.space = space;
  b.bytes = volume(box) * static_cast<Index>(bytes_of(dtype));
  program.buffers.push_back(std::move(b));
  tensor_of_.push_back(tensor);
  return static_cast<int>(program.buffers.size()) - 1;
}

int Draft::temporary(const std::string& name, DType dtype, const std::vector<Index>& extents, Format format) {
  Box box;
  for (Index e : extents) box.push_back({0, e});
  return add_buffer(name, dtype, box, format);
}

View Draft::fresh_view(const std::string& name, int t, const Box& box) {
  const int made = add_buffer(name, plan.dtype_of(t), box, plan.format_of(t), Space::arena, t);
  return view_of(buffer(made), made, box);
}

const std::vector<Stored>& Draft::stored(int t) {
  std::vector<Stored>& all = at(program.stored, t);
  if (all.empty()) {
    all = boxes_of(plan, t);
    give_buffers(t, all);
  }
  return all;
}

// What this rank owns of a parameter is in the State, and is read there if it reads the same; a tile that arrives has a buffer for
// itself.
void Draft::give_buffers(int t, std::vector<Stored>& all) {
  const StepTensor& tensor = plan.tensor(t);
  const auto give = [&](const Box& box, int buffer) {
    for (Stored& s : all)
      if (s.buffer < 0 && contains(box, s.box)) s.buffer = buffer;
  };
  std::vector<const Slice*> slices;
  for (const Slice& slice : program.slices)
    if (tensor.role == TensorRole::parameter && slice.tensor == t) slices.push_back(&slice);
  for (const Slice* slice : slices)
    for (Stored& s : all)
      if (s.as == Stored::As::home && s.box == slice->box) s.buffer = slice->value;
  if (const SharedTensor& shared = plan.shared(t); shared.has(plan.rank())) {
    const bool here = shared.home == plan.rank();
    const int made = add_buffer(tensor.name, plan.dtype_of(t), shared.box, plan.format_of(t), here ? Space::arena : Space::peer, t);
    if (!here) buffer(made).peer = shared.home;
    give(shared.box, made);
  } else if (slices.size() == 1 && std::any_of(all.begin(), all.end(), [&](const Stored& s) {
               return s.as == Stored::As::reader && s.box == slices.front()->box;
             })) {
    give(slices.front()->box, slices.front()->value);
  }
  if (plan.plan_of(t).arriving().tiles > 0) {
    const std::vector<Box> tiles = arriving_tiles(plan.data(), t, plan.rank());
    for (std::size_t k = 1; k < tiles.size(); k++) give(tiles[k], fresh_view("tile of " + tensor.name, t, tiles[k]).buffer);
  }
  give_new_buffers(t, all);
}

void Draft::give_new_buffers(int t, std::vector<Stored>& all) {
  const StepTensor& tensor = plan.tensor(t);
  std::vector<Stored*> open;
  std::vector<Box> boxes, hulls;
  for (Stored& s : all)
    if (s.buffer < 0) {
      open.push_back(&s);
      boxes.push_back(s.box);
    }
  const std::vector<std::size_t> numbers = buffers_for(boxes);
  for (std::size_t k = 0; k < boxes.size(); k++) {
    if (numbers[k] == hulls.size()) hulls.push_back(boxes[k]);
    hulls[numbers[k]] = hull(hulls[numbers[k]], boxes[k]);
  }
  const bool seed = tensor.role == TensorRole::seed;
  const int first = static_cast<int>(program.buffers.size());
  for (const Box& box : hulls) {
    const int made = add_buffer(tensor.name, plan.dtype_of(t), box, plan.format_of(t), seed ? Space::kept : Space::arena, t);
    if (seed) program.ones.push_back(made);
  }
  for (std::size_t k = 0; k < open.size(); k++) open[k]->buffer = first + static_cast<int>(numbers[k]);
}

View Draft::view(int t, Stored::As as, const Box& box) {
  stored(t);
  const int id = program.buffer_of(t, as, box);
  check(id >= 0, "a tensor that is used here is stored here");
  return view_of(buffer(id), id, box);
}

View Draft::output_view(int p, const Box& box) {
  const Pass& it = plan.pass(p);
  const int t = it.writes.tensor;
  if (plan.direct(p)) return view(t, Stored::As::made, box);
  std::vector<Contribution>& sums = partial_sums_[p];
  if (sums.empty())
    for (const Box& b : plan.plan_of(t).add.tiles > 0 ? leaving_tiles(plan.data(), p, plan.rank())
                                                      : std::vector<Box>{operand_box(it.writes, plan.work_of(p).box)})
      sums.push_back({b, fresh_view("partial sum of " + it.name, t, b)});
  const auto found = std::find_if(sums.begin(), sums.end(), [&](const Contribution& c) { return contains(c.box, box); });
  check(found != sums.end(), "a part of a result is in one of its tiles");
  return view_of(buffer(found->view.buffer), found->view.buffer, box);
}

Contribution Draft::partial_sum(int t, int writer, const Box& box) {
  const int p = at(plan.writers(t), writer);
  if (!plan.is_view(p)) return {box, output_view(p, box)};
  const Pass& it = plan.pass(p);
  Box source;
  std::vector<int> dim_of(it.indices.size(), -1);
  for (std::size_t d = 0; d < it.writes.indices.size(); d++) at(dim_of, it.writes.indices[d]) = static_cast<int>(d);
  for (int i : it.reads[0].indices) source.push_back(at(box, at(dim_of, i)));
  const View from = view(it.reads[0].tensor, Stored::As::reader, source);
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
  const int layer = pass >= 0 ? at(plan.layers().of_pass, pass) : layer_of(operands);
  add(RunKernel{std::move(spec), std::move(operands), name, purpose, {}, layer});
}

// Of a kernel that belongs to no pass: the layer of the tensor that it writes, or else reads.
int Draft::layer_of(const std::vector<Place>& operands) const {
  for (auto place = operands.rbegin(); place != operands.rend(); ++place)
    if (const int tensor = at(tensor_of_, place->buffer); tensor >= 0) return at(plan.layers().of_tensor, tensor);
  return -1;
}

void Draft::copy(const View& from, const View& to, const std::string& name) {
  KernelSpec spec = copy_of(buffer(from.buffer).dtype, from, to);
  spec.operands.back().dtype = buffer(to.buffer).dtype;
  kernel(std::move(spec), {{from.buffer, from.element}, {to.buffer, to.element}}, name, Purpose::move);
}

}  // namespace motley
