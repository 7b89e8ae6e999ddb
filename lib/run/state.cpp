// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/state.h>

#include <algorithm>
#include <cstring>

#include "base/at.h"
#include "base/copy_box.h"
#include "base/random.h"
#include "graph/update_form.h"
#include "plan/plan_data.h"
#include "program/views.h"
#include "run/buffer_values.h"
#include "run/gather.h"
#include "run/memory_with.h"

namespace motley {

namespace {

// Element `global` of a parameter, row-major in the complete tensor. draws: the stream of the tensor's name.
double initial_value(const StepTensor& t, const RandomStream& draws, Index global) {
  switch (t.initial) {
    case Initial::weight: return he_uniform(draws, global, t.fan_in);
    case Initial::bias: return bias_uniform(draws, global, t.fan_in);
    case Initial::zeros: return 0;
    case Initial::ones: return 1;
    case Initial::normal: return normal(t.deviation, draws, global);
  }
  throw InternalError("an unknown initial value");
}

// each(position in the complete tensor, reference to the value) for the elements of a box, row-major
template <class Each>
void for_each_value(const Buffer& as, const Shape& shape, std::byte* memory, Each&& each) {
  const std::vector<Index> complete = row_major(whole(shape));
  const Index first = item_of(whole(shape), complete, as.box);
  for_each_row_of(as, as.box, memory, complete, [&](auto* values, const BoxRow& row) {
    for (Index i = 0; i < row.length; i++) each(first + row.b + i * row.b_step, values[row.a + i * row.a_step]);
  });
}

}  // namespace

State::State(const Plan& plan, int rank, std::uint64_t seed, DeviceMemory* device) : device_(device) {
  if (rank < 0 || rank >= plan.mesh().ranks())
    throw UserError("the plan has no rank " + std::to_string(rank) + "; its number of ranks is " +
                    std::to_string(plan.mesh().ranks()));
  const PlanData& data = plan.data();
  const Passes& passes = data.passes;
  dtype_ = data.dtype;
  if (passes.trains)
    for (const std::string& slot : update_slots(passes)) slots_.push_back(slot);
  for (int t : passes.parameters) {
    const StepTensor& tensor = at(passes.tensors, t);
    std::vector<std::string> also;
    for (const std::string& layer : tensor.shared_by) also.push_back(layer + ".weight");
    parameters_.push_back({tensor.name, tensor.shape, passes.statistic(t) != nullptr, tensor.frozen, also});
    const RandomStream draws(seed, tensor.name);
    for (const Shard& h : at(data.tensors, t).home) {
      if (h.rank != rank) continue;
      for (const std::string& slot : slots_) {
        if (!slot.empty() && !passes.is_trained(t)) continue;
        Buffer as{.name = tensor.name, .dtype = data.dtype, .box = h.box, .space = Space::state};
        as.format = h.box.size() < 3 ? Format::plain : at(data.formats, t);
        as.bytes = volume(h.box) * static_cast<Index>(bytes_of(data.dtype));
        std::vector<std::byte> values(static_cast<std::size_t>(as.bytes));
        if (slot.empty() || slot == kAverage)
          for_each_value(as, tensor.shape, values.data(), [&](Index global, auto& value) {
            value = static_cast<std::remove_reference_t<decltype(value)>>(initial_value(tensor, draws, global));
          });
        std::shared_ptr<std::byte> memory = memory_with(values, as.name, device);
        stored_.push_back({slot, std::move(as), std::move(memory)});
      }
    }
  }
}

std::vector<std::string> State::names() const {
  std::vector<std::string> out;
  for (const Parameter& p : parameters_) out.push_back(p.name);
  return out;
}

std::vector<StateEntry> State::entries() const {
  std::vector<StateEntry> out;
  for (const Parameter& p : parameters_)
    for (const std::string& slot : slots_)
      if (slot.empty() || p.has_slots()) out.push_back({p.name, slot, p.shape, dtype_, p.frozen, p.also});
  return out;
}

bool State::has(const std::string& name, const std::string& slot) const {
  const auto found = std::find_if(parameters_.begin(), parameters_.end(), [&](const Parameter& p) { return p.name == name; });
  return found != parameters_.end() && (slot.empty() || found->has_slots()) &&
         std::find(slots_.begin(), slots_.end(), slot) != slots_.end();
}

const State::Parameter& State::parameter(const std::string& name) const {
  const auto found = std::find_if(parameters_.begin(), parameters_.end(), [&](const Parameter& p) { return p.name == name; });
  if (found == parameters_.end()) throw UserError("no parameter is called \"" + name + "\"" + did_you_mean(name, names()));
  return *found;
}

void State::check_slot(const std::string& name, const std::string& slot) const {
  if (const Parameter& its = parameter(name); !its.has_slots() && !slot.empty())
    throw UserError("\"" + name + "\" is " + (its.frozen ? "frozen" : "a running statistic") +
                    ": the optimizer has no state for it");
  if (std::find(slots_.begin(), slots_.end(), slot) != slots_.end()) return;
  std::string known;
  for (const std::string& one : slots_)
    if (!one.empty()) known += (known.empty() ? "\"" : ", \"") + one + "\"";
  throw UserError("the optimizer has no slot \"" + slot + "\"" + (known.empty() ? "" : " (it has " + known + ")"));
}

std::vector<BoxValues> State::shard(const std::string& name, const std::string& slot) const {
  check_slot(name, slot);
  std::vector<BoxValues> out;
  for (const StoredBox& stored : stored_) {
    const Buffer& as = stored.as;
    if (as.name != name || stored.slot != slot) continue;
    std::vector<std::byte> room(device_ != nullptr ? static_cast<std::size_t>(as.bytes) : 0);
    if (device_ != nullptr) copy_and_wait(*device_, room.data(), stored.memory.get(), room.size());
    out.push_back({as.box, read_values(as, as.box, device_ != nullptr ? room.data() : stored.memory.get())});
  }
  return out;
}

std::vector<double> State::get(Transport& transport, const std::string& name, const std::string& slot) const {
  return put_together(parameter(name).shape, shard(name, slot), transport);
}

std::vector<Box> State::boxes(const std::string& name, const std::string& slot) const {
  check_slot(name, slot);
  std::vector<Box> out;
  for (const StoredBox& stored : stored_)
    if (stored.as.name == name && stored.slot == slot) out.push_back(stored.as.box);
  return out;
}

// value(box number, position in the box, position in the tensor)
template <class Value>
void State::overwrite_each(const std::string& name, const std::string& slot, Value&& value) {
  std::size_t box = 0;
  for (const StoredBox& stored : stored_) {
    const Buffer& as = stored.as;
    if (as.name != name || stored.slot != slot) continue;
    std::vector<std::byte> room(device_ != nullptr ? static_cast<std::size_t>(as.bytes) : 0);
    std::size_t place = 0;
    for_each_value(as, parameter(name).shape, device_ != nullptr ? room.data() : stored.memory.get(), [&](Index global, auto& to) {
      to = static_cast<std::remove_reference_t<decltype(to)>>(value(box, place++, global));
    });
    if (device_ != nullptr) copy_and_wait(*device_, stored.memory.get(), room.data(), room.size());
    box++;
  }
}

void State::set_shard(const std::string& name, const std::vector<BoxValues>& values, const std::string& slot) {
  const std::vector<Box> own = boxes(name, slot);
  bool same = own.size() == values.size();
  for (std::size_t b = 0; b < own.size() && same; b++)
    same = own[b] == values[b].box && values[b].values.size() == static_cast<std::size_t>(volume(own[b]));
  if (!same) throw UserError("the boxes that are given for \"" + name + "\" are not those that this rank owns");
  overwrite_each(name, slot, [&](std::size_t box, std::size_t place, Index) { return values[box].values[place]; });
  changed();
}

void State::set(const std::string& name, const std::vector<double>& values, const std::string& slot) {
  const Shape& shape = parameter(name).shape;
  check_slot(name, slot);
  if (values.size() != static_cast<std::size_t>(shape.elements()))
    throw UserError("\"" + name + "\" has " + std::to_string(shape.elements()) + " elements, " + std::to_string(values.size()) +
                    " are given");
  overwrite_each(name, slot, [&](std::size_t, std::size_t, Index global) { return at(values, global); });
  changed();
}

std::byte* State::address(const std::string& name, const std::string& slot, const Buffer& as) const {
  static_cast<void>(parameter(name));
  for (const StoredBox& stored : stored_)
    if (stored.slot == slot && stored.as.name == name && stored.as.box == as.box && stored.as.dtype == as.dtype &&
        stored.as.format == as.format)
      return stored.memory.get();
  for (const StoredBox& stored : stored_)
    if (stored.as.dtype != as.dtype)
      throw UserError("the State is in " + to_string(stored.as.dtype) + ", this plan in " + to_string(as.dtype) +
                      "; give balance() the State's dtype");
  throw UserError("the State stores \"" + name + "\" in other boxes than this plan, on some rank; plan with rules.homes = the " +
                  "homes() of the plan that the State was made from");
}

void State::overwrite(const StoredBox& box, const std::byte* values) {
  const Buffer& as = box.as;
  const auto bytes = static_cast<std::size_t>(as.bytes);
  const View view = view_of(as, 0, as.box);
  const std::vector<Index> dense = row_major(as.box);
  std::vector<std::byte> room;
  if (view.strides != dense) {
    room.resize(device_ != nullptr ? bytes : 0);
    std::byte* const to = device_ != nullptr ? room.data() : box.memory.get();
    copy_box(view.extents, bytes_of(as.dtype), values, dense, to, view.strides);
    if (device_ == nullptr) return;
    values = room.data();
  }
  if (device_ != nullptr)
    copy_and_wait(*device_, box.memory.get(), values, bytes);
  else
    std::memcpy(box.memory.get(), values, bytes);
}

}  // namespace motley
