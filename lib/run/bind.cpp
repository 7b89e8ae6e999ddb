// SPDX-License-Identifier: Apache-2.0
// Binds a Program to a device: kernels are compiled, memory is allocated, steps get addresses.
#include <motley/error.h>

#include <algorithm>
#include <cstring>

#include "kernels/operands.h"
#include "plan/kernel_of.h"
#include "program/memory.h"
#include "program/too_large.h"
#include "program/views.h"
#include "run/bound_program.h"
#include "run/memory_with.h"

namespace motley {

void Executor::Bound::take_memory() {
  std::size_t most = 0;
  for (auto& [hash, same] : kernels)
    for (auto& [spec, made] : same) most = std::max(most, made->workspace_bytes());
  const auto needed = static_cast<Index>(most);
  if (const Index has = backend.memory_bytes(); has > 0 && memory_of(program, needed) > has)
    throw DeviceError("this rank needs " + not_enough(program, needed, has, "the device has"));
  const auto flags = static_cast<std::size_t>(std::max(flag_bytes(program), kFlagBytes)),
             bytes = static_cast<std::size_t>(block_bytes(program, needed));
  if (device == nullptr) {
    held = transport.allocate(bytes);
    memory = held.bytes;
  } else {
    try {
      blocks.push_back(device->allocate(bytes));
    } catch (const DeviceError& e) {
      throw DeviceError(std::string(e.what()) + "; " + too_large(program, 0) + "; " + kLess);
    }
    memory = {blocks.back().get(), bytes};
  }
  workspace = memory.data() + in_blocks(program.arena_bytes);
  if (!program.windows) return;
  if (device != nullptr) held = transport.allocate(flags);  // with a device only the flags are shared
  peers = std::make_unique<PeerMemory>(program, transport, held, held.bytes.last(flags));
}

void Executor::Bound::find_state() {
  owned.assign(program.buffers.size(), nullptr);
  for (const Slice& s : program.slices) {
    at(owned, s.value) = state.address(s.name, state.has(s.name, slot) ? slot : "", at(program.buffers, s.value));
    for (std::size_t k = 0; k < s.slots.size(); k++)
      at(owned, s.slots[k]) = state.address(s.name, at(program.slot_names, k), at(program.buffers, s.slots[k]));
  }
  for (std::size_t i = 0; i < program.buffers.size(); i++) {
    const Buffer& b = program.buffers[i];
    if (b.space != Space::kept) continue;
    std::vector<std::byte> values(static_cast<std::size_t>(b.bytes));
    auto all = [&](auto value) {
      for (std::size_t k = 0; k < values.size(); k += sizeof value) std::memcpy(values.data() + k, &value, sizeof value);
    };
    const int id = static_cast<int>(i);
    if (id == program.scalars) {
      const std::vector<double> scalars = update_values(program.learning_rate, 1, 1);
      check(scalars.size() * sizeof(double) == values.size(), "as many scalars as an update reads");
      std::memcpy(values.data(), scalars.data(), values.size());
    } else if (std::find(program.ones.begin(), program.ones.end(), id) != program.ones.end()) {
      b.dtype == DType::f64 ? all(1.0) : all(1.0F);
    }
    kept.emplace(id, memory_with(values, b.name, device));
  }
}

void Executor::Bound::bind_steps() {
  chains.assign(program.steps.size(), nullptr);
  std::vector<const Chain::Part*> parts(program.steps.size(), nullptr);
  for (const Chain& c : program.chains) {
    if (backend.threads() > 1 || device != nullptr) continue;
    at(chains, c.begin) = &c;
    chain_seconds.reserve(std::max(chain_seconds.capacity(), c.parts.size()));
    for (int i = c.begin; i < c.end; i++) {
      const auto* run = std::get_if<RunKernel>(&at(program.steps, i).what);
      at(parts, i) = &at(c.parts, i - c.begin);
      check(run != nullptr && run->spec.op == at(parts, i)->spec.op && run->spec.formula == at(parts, i)->spec.formula,
            "a chain's parts are of its steps");
    }
  }
  for (std::size_t i = 0; i < parts.size(); i++)
    if (const auto* run = std::get_if<RunKernel>(&program.steps[i].what))
      for (const KernelSpec& spec : parts[i] == nullptr ? std::vector{run->spec} : std::vector{parts[i]->spec, parts[i]->last})
        kernel(spec, run->implementation);
  for (const FedBuffer& f : program.feeds) {
    const Buffer& b = at(program.buffers, f.buffer);
    const View view = view_of(b, f.buffer, b.box);
    Fed one{&f, {}, nullptr, {}};
    if (!is_dense(view, Format::plain)) {
      one.reorder = kernel(copy_of(b.dtype, dense_view(f.buffer, Format::plain, view.extents), view));
      staging.emplace_back(static_cast<std::size_t>(volume(b.box)) * bytes_of(b.dtype) + 64);
    }
    fed.push_back(std::move(one));
  }
  take_memory();
  find_state();
  tickets.resize(program.exchange_names.size());
  for (const ProgramStep& s : program.steps) {
    Step step;
    if (const auto* run = std::get_if<RunKernel>(&s.what)) {
      const Chain::Part* part = parts[steps.size()];
      step.kernel = kernel(part == nullptr ? run->spec : part->spec);
      for (const Place& p : run->operands) step.operands.push_back(address(p));
      if (part != nullptr) {
        step.last = kernel(part->last);
        for (std::size_t k = 0; k < part->advance.size(); k++)
          step.advance.push_back(part->advance[k] * static_cast<Index>(bytes_of(part->spec.operands[k].dtype)));
      }
      step.name = run->pass.c_str();
    } else if (const auto* post = std::get_if<Post>(&s.what)) {
      step.kind = Step::Kind::post;
      step.exchange = post->exchange;
      for (const Piece& p : post->sends)
        step.sends.push_back({p.peer, {address(p.at), static_cast<std::size_t>(p.bytes)}, p.window});
      for (const Piece& p : post->receives)
        step.receives.push_back({p.peer, {address(p.at), static_cast<std::size_t>(p.bytes)}, p.window});
      at(tickets, post->exchange).reserve(step.sends.size() + step.receives.size());
      auto is_flag = [](const Message& m) { return m.window; };
      step.signals = std::any_of(step.sends.begin(), step.sends.end(), is_flag);
      step.flags_alone = std::all_of(step.sends.begin(), step.sends.end(), is_flag) &&
                         std::all_of(step.receives.begin(), step.receives.end(), is_flag);
    } else {
      step.kind = Step::Kind::wait;
      step.exchange = std::get<Wait>(s.what).exchange;
    }
    if (step.kind != Step::Kind::kernel) step.name = at(program.exchange_names, step.exchange).c_str();
    steps.push_back(std::move(step));
  }
  if (device != nullptr) stage();
}

void Executor::Bound::stage() {
  staged = std::make_unique<StagedExchanges>(*device, transport);
  start = device->make_mark();
  for (std::size_t i = 0; i < steps.size(); i++) {
    Step& s = steps[i];
    if (s.kind != Step::Kind::post) {
      s.end = device->make_mark();
      continue;
    }
    std::size_t waited = i;
    while (steps[waited].kind != Step::Kind::wait || steps[waited].exchange != s.exchange) waited++;
    auto staged_of = [](const std::vector<Message>& messages) {
      std::vector<StagedExchanges::Message> out;
      for (const Message& m : messages) {
        check(!m.window, "no rank reads a device's memory in place");
        out.push_back({m.peer, m.bytes});
      }
      return out;
    };
    staged->add(s.exchange, staged_of(s.sends), staged_of(s.receives), static_cast<int>(i), static_cast<int>(waited));
  }
  staged->allocate();
}

void Executor::Bound::bind_feeds() {
  std::size_t used = 0;
  for (Fed& f : fed) {
    const Buffer& b = at(program.buffers, f.feed->buffer);
    std::byte* to = address({f.feed->buffer, 0});
    const std::size_t bytes = static_cast<std::size_t>(volume(b.box)) * bytes_of(b.dtype);
    std::byte* from = to;
    if (f.reorder != nullptr) {
      from = staging[used++].data();
      f.operands = {from, to};
    }
    if (device != nullptr) {
      if (f.reorder == nullptr) {
        from = staging.emplace_back(bytes + 64).data();
        f.operands = {to};
      } else {
        blocks.push_back(device->allocate(bytes + 64));
        f.operands[0] = blocks.back().get();
      }
    }
    f.staging = {from, bytes};
  }
}

}  // namespace motley
