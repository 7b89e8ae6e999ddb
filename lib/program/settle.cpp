// SPDX-License-Identifier: Apache-2.0
// Acknowledgements are awaited where the memory that peers read is used again: before the first step of a buffer that is placed
// over it, before a step that writes it, at the latest at the end of the half of the step (an evaluation runs the forward half
// alone). `share` awaits each after the next exchange, and lifetimes, so places in the arena, follow from that: waiting later takes
// no memory.
//
// No rank waits in a circle: the wait comes later, and what it waits for has not moved.
#include <algorithm>
#include <limits>

#include "base/at.h"
#include "program/compile.h"

namespace motley {

namespace {

// Whether the step at i starts to wait for peers' reads of this rank's own memory.
const Post* acknowledgement(const Program& program, std::size_t i) {
  const auto* post = std::get_if<Post>(&program.steps[i].what);
  if (post == nullptr || !post->sends.empty() || post->receives.empty()) return nullptr;
  const bool flags = std::all_of(post->receives.begin(), post->receives.end(), [&](const Piece& p) {
    return p.window && p.bytes == 0 && at(program.buffers, p.at.buffer).space == Space::arena;
  });
  return flags ? post : nullptr;
}

bool writes(const ProgramStep& step, int buffer) {
  if (const auto* run = std::get_if<RunKernel>(&step.what)) return run->operands.back().buffer == buffer;
  const auto* post = std::get_if<Post>(&step.what);
  return post != nullptr && std::any_of(post->receives.begin(), post->receives.end(),
                                        [&](const Piece& p) { return !p.window && p.at.buffer == buffer; });
}

// The first step at which memory of the buffer belongs to another one that comes after it.
int used_again(const Program& program, const Buffer& buffer) {
  int first = std::numeric_limits<int>::max();
  for (const Buffer& other : program.buffers)
    if (other.space == Space::arena && other.first > buffer.last && other.offset < buffer.offset + buffer.bytes &&
        buffer.offset < other.offset + other.bytes)
      first = std::min(first, other.first);
  return first;
}

}  // namespace

void settle(Program& program) {
  const std::size_t steps = program.steps.size();
  std::vector<std::vector<std::size_t>> before(steps + 1);  // step -> acknowledgements that are awaited before it
  std::vector<bool> moves(steps + 1, false);
  for (std::size_t i = 0; i + 1 < steps; i++) {
    const Post* post = acknowledgement(program, i);
    if (post == nullptr) continue;
    const auto middle = static_cast<std::size_t>(program.forward_steps);
    std::size_t last = i < middle ? middle : steps;
    for (const Piece& p : post->receives) {
      last = std::min(last, static_cast<std::size_t>(used_again(program, at(program.buffers, p.at.buffer))));
      for (std::size_t s = i + 2; s < last; s++)
        if (writes(program.steps[s], p.at.buffer)) last = s;
    }
    moves[i] = moves[i + 1] = true;  // its Wait comes right after it
    before[last].push_back(i);
  }
  std::vector<ProgramStep> out;
  std::vector<int> now(steps + 1);  // where a step has gone
  auto take = [&](std::size_t i) {
    now[i] = static_cast<int>(out.size());
    out.push_back(std::move(program.steps[i]));
  };
  for (std::size_t i = 0; i <= steps; i++) {
    for (std::size_t k : before[i]) {
      take(k);
      take(k + 1);
    }
    if (i < steps && !moves[i]) take(i);
  }
  now[steps] = static_cast<int>(steps);
  program.steps = std::move(out);
  for (Buffer& b : program.buffers) {
    if (b.first >= 0) b.first = at(now, b.first);
    if (b.last >= 0) b.last = at(now, b.last);
  }
}

}  // namespace motley
