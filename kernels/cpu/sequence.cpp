// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/sequence.h"

#include <motley/error.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include <algorithm>

namespace motley::cpu {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr int kScratchpad = -2;  // Place::operand

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void check_status(dnnl_status_t status, const char* call) {
  if (status == dnnl_success) return;
  throw DeviceError(std::string("oneDNN: ") + call + " failed: " + dnnl_status2str(status));
}

}  // namespace

Sequence::Place Sequence::reserve(std::size_t bytes) {
  const Place place{-1, reserved_};
  reserved_ += aligned(bytes);
  return place;
}

void Sequence::add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, const std::vector<Argument>& arguments) {
  Step step;
  step.primitive = primitive;
  const auto take = [&](int name, const dnnl::memory::desc& desc, Place place) {
    step.memories.push_back({dnnl::memory(desc, engine_, nullptr), place});
    step.arguments.push_back({name, step.memories.back().memory.get()});
  };
  for (const Argument& argument : arguments) take(argument.name, argument.desc, argument.place);
  if (scratchpad.get_size() > 0) {
    take(DNNL_ARG_SCRATCHPAD, scratchpad, {kScratchpad, 0});
    scratchpad_ = std::max(scratchpad_, aligned(scratchpad.get_size()));
  }
  steps_.push_back(std::move(step));
}

void Sequence::add_reorder(const dnnl::memory::desc& from, Place from_place, const dnnl::memory::desc& to, Place to_place) {
  const dnnl::reorder::primitive_desc pd(engine_, from, engine_, to, vendor::attributes());
  add(dnnl::reorder(pd), pd.scratchpad_desc(), {{DNNL_ARG_FROM, from, from_place}, {DNNL_ARG_TO, to, to_place}});
}

void Sequence::add_work(Place a, Place b, Work work) {
  Step step;
  step.work = std::move(work);
  step.a = a, step.b = b;
  steps_.push_back(std::move(step));
}

// The workspace's alignment is not guaranteed: run() aligns its start.
std::size_t Sequence::workspace_bytes() const {
  const std::size_t bytes = reserved_ + scratchpad_;
  return bytes == 0 ? 0 : bytes + kAlignment;
}

void Sequence::run(std::span<void* const> operands, void* workspace) {
  auto* start = reinterpret_cast<std::byte*>(aligned(reinterpret_cast<std::uintptr_t>(workspace)));
  const auto at = [&](Place place) -> std::byte* {
    if (place.operand >= 0) return static_cast<std::byte*>(operands[static_cast<std::size_t>(place.operand)]) + place.offset;
    return place.operand == kScratchpad ? start + reserved_ : start + place.offset;
  };
  for (Step& step : steps_) {
    if (step.work) {
      step.work(at(step.a), at(step.b));
      continue;
    }
    for (const Memory& memory : step.memories)
      check_status(dnnl_memory_set_data_handle(memory.memory.get(), at(memory.place)), "dnnl_memory_set_data_handle");
    check_status(
        dnnl_primitive_execute(step.primitive.get(), stream_.get(), static_cast<int>(step.arguments.size()), step.arguments.data()),
        "dnnl_primitive_execute");
  }
  check_status(dnnl_stream_wait(stream_.get()), "dnnl_stream_wait");
}

}  // namespace motley::cpu
