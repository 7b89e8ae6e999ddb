// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/state.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/at.h"
#include "base/random.h"
#include "graph/passes.h"
#include "plan/plan_data.h"
#include "program/too_large.h"
#include "program/views.h"

namespace motley {

namespace {

// Elements contracted per output: of the pass that reads the layer's weight.
Index fan_in(const Passes& passes, int parameter) {
  const std::string& layer = at(passes.tensors, parameter).layer;
  for (const Pass& p : passes.passes) {
    if (p.layer != layer || p.kind != PassKind::forward || (p.op != KernelOp::conv2d && p.op != KernelOp::dense)) continue;
    Index n = 1;
    for (int i : p.reads[1].indices)
      if (std::find(p.writes.indices.begin(), p.writes.indices.end(), i) == p.writes.indices.end()) n *= at(p.indices, i).size;
    return n;
  }
  return 1;
}

template <class T>
void fill(T* out, const Shape& shape, const Buffer& buffer, const std::string& name, Index fan, bool bias, std::uint64_t seed) {
  const View view = view_of(buffer, 0, buffer.box);
  for_each_index(buffer.box, [&](const std::vector<Index>& here) {
    const Index global = position_of(shape, here);
    out[element_of(view, buffer.box, here)] =
        static_cast<T>(bias ? bias_uniform(seed, name, global, fan) : he_uniform(seed, name, global, fan));
  });
}

}  // namespace

State::State(const Plan& plan, const Program& program, std::uint64_t seed, DeviceMemory* device) {
  const Passes& passes = plan.data().passes;
  for (std::size_t i = 0; i < program.buffers.size(); i++) {
    const Buffer& b = program.buffers[i];
    if (b.space != Space::state) continue;
    const std::size_t bytes = (static_cast<std::size_t>(b.bytes) + 127) / 64 * 64;
    std::shared_ptr<std::byte> made(static_cast<std::byte*>(std::aligned_alloc(64, bytes)), std::free);
    if (made == nullptr) throw DeviceError("no memory for \"" + b.name + "\": " + std::to_string(b.bytes) + " bytes");
    std::memset(made.get(), 0, bytes);
    memory_.emplace(static_cast<int>(i), std::move(made));
  }
  for (const Slice& s : program.slices) {
    const Shape& shape = at(passes.tensors, s.tensor).shape;
    const Buffer& b = at(program.buffers, s.value);
    const bool bias = s.name.ends_with(".bias");
    const Index fan = fan_in(passes, s.tensor);
    if (program.dtype == DType::f64)
      fill(reinterpret_cast<double*>(buffer(s.value)), shape, b, s.name, fan, bias, seed);
    else
      fill(reinterpret_cast<float*>(buffer(s.value)), shape, b, s.name, fan, bias, seed);
  }
  if (program.scalars >= 0) {
    auto* scalars = reinterpret_cast<double*>(buffer(program.scalars));
    scalars[0] = plan.step().scalars().learning_rate;
    scalars[1] = 1;
  }
  for (std::size_t t = 0; t < passes.tensors.size(); t++) {
    const int id = program.main_buffer[t];
    if (passes.tensors[t].role != TensorRole::seed || id < 0) continue;
    if (program.dtype == DType::f64)
      *reinterpret_cast<double*>(buffer(id)) = 1.0;
    else
      *reinterpret_cast<float*>(buffer(id)) = 1.0F;
  }
  if (device == nullptr) return;
  for (auto& [id, block] : memory_) {
    const auto bytes = static_cast<std::size_t>(at(program.buffers, id).bytes);
    DeviceMemory::Block there;
    try {
      there = device->allocate(std::max<std::size_t>(bytes, 1));
    } catch (const DeviceError& e) {
      throw DeviceError(std::string(e.what()) + " for \"" + at(program.buffers, id).name + "\"; " + too_large(program, 0) +
                        "; give this rank a smaller part");
    }
    copy_and_wait(*device, there.get(), block.get(), bytes);
    block = std::move(there);
  }
}

}  // namespace motley
