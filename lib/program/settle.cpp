// SPDX-License-Identifier: Apache-2.0
// Acknowledgements are awaited where the memory that peers read is used again: before the first step of a buffer that is placed
// over it, before a step that writes it, at the latest at the end of the part of the step (an evaluation runs the forward half
// alone, a micro-batch all up to its gradients). `share` awaits each after the next exchange, and lifetimes, so places in the
// arena, follow from that: waiting later takes no memory.
//
// No rank waits in a circle: the wait comes later, and what it waits for has not moved.
#include <algorithm>
#include <limits>
#include <map>

#include "base/at.h"
#include "kernels/operands.h"
#include "program/compile.h"

namespace motley {

namespace {

// What the Post says if it is about peers' reads of this rank's own memory; null: it is not.
const std::vector<Piece>* acknowledged(const Program& program, const Post& post) {
  const bool flags = post.sends.empty() && std::all_of(post.receives.begin(), post.receives.end(), [&](const Piece& p) {
                       return p.window && p.bytes == 0 && at(program.buffers, p.at.buffer).space == Space::arena;
                     });
  return flags ? &post.receives : nullptr;
}

bool writes(const ProgramStep& step, int buffer) {
  if (const auto* run = std::get_if<RunKernel>(&step.what))
    return std::any_of(run->operands.end() - static_cast<std::ptrdiff_t>(result_count(run->spec)), run->operands.end(),
                       [&](const Place& p) { return p.buffer == buffer; });
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
  const std::size_t steps = program.steps.size(), middle = static_cast<std::size_t>(program.forward_steps),
                    sums = static_cast<std::size_t>(program.combine_begin);
  std::vector<std::vector<std::size_t>> before(steps + 1);  // step -> what now comes before it
  std::vector<bool> moves(steps, false);
  std::map<int, std::size_t> posted;  // exchange -> step
  for (std::size_t i = 0; i < steps; i++) {
    if (const auto* post = std::get_if<Post>(&program.steps[i].what)) posted[post->exchange] = i;
    const auto* wait = std::get_if<Wait>(&program.steps[i].what);
    if (wait == nullptr) continue;
    const std::size_t post = posted.at(wait->exchange);
    const std::vector<Piece>* pieces = acknowledged(program, std::get<Post>(program.steps[post].what));
    if (pieces == nullptr) continue;
    std::size_t last = i < middle ? middle : i < sums && program.micro_batches > 1 ? sums : steps;
    for (const Piece& p : *pieces) {
      last = std::min(last, static_cast<std::size_t>(used_again(program, at(program.buffers, p.at.buffer))));
      for (std::size_t s = i + 1; s < last; s++)
        if (writes(program.steps[s], p.at.buffer)) last = s;
    }
    moves[post] = moves[i] = true;
    before[last].insert(before[last].end(), {post, i});
  }
  std::vector<ProgramStep> out;
  std::vector<int> now(steps + 1, static_cast<int>(steps)),
      begin = now;  // where a step has gone; where a part that began with it begins
  auto take = [&](std::size_t i) {
    now[i] = static_cast<int>(out.size());
    out.push_back(std::move(program.steps[i]));
  };
  for (std::size_t i = 0; i <= steps; i++) {
    for (std::size_t moved : before[i]) take(moved);
    begin[i] = static_cast<int>(out.size());
    if (i < steps && !moves[i]) take(i);
  }
  program.steps = std::move(out);
  for (int* part : {&program.combine_begin, &program.update_begin, &program.move_begin}) *part = at(begin, *part);
  for (Buffer& b : program.buffers) {
    if (b.first >= 0) b.first = at(now, b.first);
    if (b.last >= 0) b.last = at(now, b.last);
  }
}

}  // namespace motley
