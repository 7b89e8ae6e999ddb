// SPDX-License-Identifier: Apache-2.0
// Buffers -> places in the arena.
#include <algorithm>
#include <map>

#include "program/compile.h"

namespace motley {

namespace {

// From the first step that touches a buffer to the last; what is in flight is touched until its wait.
void find_lifetimes(Program& program, const Passes& passes, const CompileOptions& options) {
  const int end = static_cast<int>(program.steps.size());
  std::map<int, std::set<int>> posted;    // exchange -> buffers in flight
  std::vector<std::pair<int, int>> span;  // per step: the first and the last one of its chain, itself where it is in none
  for (int s = 0; s < end; s++) span.emplace_back(s, s);
  for (const Chain& c : program.chains)
    for (int s = c.begin; s < c.end; s++) at(span, s) = {c.begin, c.end - 1};
  auto touch = [&](int buffer, int step) {
    Buffer& b = at(program.buffers, buffer);
    if (b.first < 0) b.first = at(span, step).first;
    b.last = std::max(b.last, at(span, step).second);
  };
  for (int s = 0; s < end; s++) {
    const auto& what = at(program.steps, s).what;
    if (const auto* run = std::get_if<RunKernel>(&what))
      for (const Place& o : run->operands) touch(o.buffer, s);
    if (const auto* post = std::get_if<Post>(&what))
      for (const auto* pieces : {&post->sends, &post->receives})
        for (const Piece& piece : *pieces) {
          touch(piece.at.buffer, s);
          posted[post->exchange].insert(piece.at.buffer);
        }
    if (const auto* wait = std::get_if<Wait>(&what))
      for (int b : posted[wait->exchange]) touch(b, s);
  }
  const std::vector<bool> lasts = lasting(program);
  for (std::size_t b = 0; b < lasts.size(); b++)
    if (lasts[b]) {
      touch(static_cast<int>(b), std::max(0, program.combine_begin - 1));
      program.buffers[b].first = 0;
    }
  auto keep = [&](int buffer) {
    if (buffer < 0) return;
    Buffer& b = at(program.buffers, buffer);
    if (b.first < 0) b.first = 0;
    b.last = end;
  };
  for (int norm : program.norms) keep(norm);
  for (int t : passes.outputs) keep(at(program.main_buffer, t));
  for (int t : options.keep) keep(at(program.main_buffer, t));
  if (options.keep_gradients)
    for (int t : passes.parameter_gradients) keep(at(program.main_buffer, t));
  for (const FedBuffer& f : program.feeds) at(program.buffers, f.buffer).first = -1;
}

}  // namespace

// What a step that runs once touches, and another one too.
std::vector<bool> lasting(const Program& program) {
  std::vector<bool> out(program.buffers.size(), false), once = out;
  if (std::none_of(program.steps.begin(), program.steps.end(), [](const ProgramStep& s) { return s.once; })) return out;
  for (const bool first : {true, false})
    for (const ProgramStep& s : program.steps) {
      if (s.once != first) continue;
      auto touch = [&](int buffer) {
        if (first)
          at(once, buffer) = true;
        else if (at(once, buffer))
          at(out, buffer) = true;
      };
      if (const auto* run = std::get_if<RunKernel>(&s.what))
        for (const Place& p : run->operands) touch(p.buffer);
      if (const auto* post = std::get_if<Post>(&s.what))
        for (const auto* pieces : {&post->sends, &post->receives})
          for (const Piece& p : *pieces) touch(p.at.buffer);
    }
  return out;
}

void place(Program& program, const Passes& passes, const CompileOptions& options) {
  find_lifetimes(program, passes, options);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < program.buffers.size(); i++) {
    if (program.buffers[i].space == Space::state || program.buffers[i].space == Space::kept)
      program.state_bytes += program.buffers[i].bytes;
    else if (program.buffers[i].space == Space::arena && program.buffers[i].last >= 0)
      order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return program.buffers[a].bytes > program.buffers[b].bytes; });
  std::vector<const Buffer*> placed;  // by offset
  const auto end_of = [](const Buffer& b) { return b.offset + (b.bytes + 63) / 64 * 64; };
  for (std::size_t i : order) {  // the lowest gap among buffers that live at the same time
    Buffer& b = program.buffers[i];
    b.offset = 0;
    for (const Buffer* other : placed) {
      if (other->offset >= end_of(b)) break;
      if (!options.reuse_memory || (other->first <= b.last && b.first <= other->last))
        b.offset = std::max(b.offset, end_of(*other));
    }
    program.arena_bytes = std::max(program.arena_bytes, end_of(b));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &b, [](const Buffer* x, const Buffer* y) { return x->offset < y->offset; }),
        &b);
  }
}

}  // namespace motley
