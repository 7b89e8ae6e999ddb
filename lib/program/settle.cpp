// SPDX-License-Identifier: Apache-2.0
// Acknowledgements are awaited where the memory that peers read is used again: before the first step of a buffer that is placed
// over it, before a step that writes it, at the latest at the end of that part of the step (an evaluation runs only the forward
// half, a micro-batch everything up to its gradients). `share` awaits each after the next exchange, and lifetimes, hence places in
// the arena, follow from that: waiting later takes no memory.
//
// Ranks do not wait in a cycle: the wait comes later, and what it waits for has not moved.
#include <algorithm>
#include <map>

#include "base/at.h"
#include "kernels/operands.h"
#include "program/compile.h"

namespace motley {

namespace {

// The pieces of a Post that are about peers' reads of this rank's memory; null: it has none.
const std::vector<Piece>* acknowledged(const Program& program, const Post& post) {
  const bool flags = post.sends.empty() && std::all_of(post.receives.begin(), post.receives.end(), [&](const Piece& p) {
                       return p.window && p.bytes == 0 && at(program.buffers, p.at.buffer).space == Space::arena;
                     });
  return flags ? &post.receives : nullptr;
}

// Per buffer: the steps that write it.
std::vector<std::vector<std::size_t>> writers_of(const Program& program) {
  std::vector<std::vector<std::size_t>> out(program.buffers.size());
  for (std::size_t i = 0; i < program.steps.size(); i++) {
    const auto& what = program.steps[i].what;
    if (const auto* run = std::get_if<RunKernel>(&what))
      for (std::size_t k = run->operands.size() - result_count(run->spec); k < run->operands.size(); k++)
        at(out, run->operands[k].buffer).push_back(i);
    if (const auto* post = std::get_if<Post>(&what))
      for (const Piece& p : post->receives)
        if (!p.window) at(out, p.at.buffer).push_back(i);
  }
  return out;
}

// The arena's buffers, ordered by the first step that uses them.
std::vector<const Buffer*> by_first_step(const Program& program) {
  std::vector<const Buffer*> out;
  for (const Buffer& b : program.buffers)
    if (b.space == Space::arena) out.push_back(&b);
  std::stable_sort(out.begin(), out.end(), [](const Buffer* a, const Buffer* b) { return a->first < b->first; });
  return out;
}

// The first step before `end` at which another, later buffer uses memory of this buffer; `end` if there is none.
std::size_t used_again(const std::vector<const Buffer*>& arena, const Buffer& buffer, std::size_t end) {
  auto other = std::upper_bound(arena.begin(), arena.end(), buffer.last, [](int last, const Buffer* b) { return last < b->first; });
  for (; other != arena.end() && static_cast<std::size_t>((*other)->first) < end; ++other)
    if ((*other)->offset < buffer.offset + buffer.bytes && buffer.offset < (*other)->offset + (*other)->bytes)
      return static_cast<std::size_t>((*other)->first);
  return end;
}

}  // namespace

void settle(Program& program) {
  const std::size_t steps = program.steps.size(), middle = static_cast<std::size_t>(program.forward_steps),
                    sums = static_cast<std::size_t>(program.combine_begin);
  std::vector<std::vector<std::size_t>> before(steps + 1);  // step -> the steps that now come before it
  std::vector<bool> moves(steps, false);
  const std::vector<const Buffer*> arena = by_first_step(program);
  const std::vector<std::vector<std::size_t>> writers = writers_of(program);
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
      last = used_again(arena, at(program.buffers, p.at.buffer), last);
      const std::vector<std::size_t>& writes = at(writers, p.at.buffer);
      if (const auto next = std::upper_bound(writes.begin(), writes.end(), i); next != writes.end()) last = std::min(last, *next);
    }
    for (const Chain& c : program.chains)  // the steps of a chain stay together
      if (static_cast<int>(last) > c.begin && static_cast<int>(last) < c.end) last = static_cast<std::size_t>(c.begin);
    moves[post] = moves[i] = true;
    before[last].insert(before[last].end(), {post, i});
  }
  std::vector<ProgramStep> out;
  out.reserve(steps);
  std::vector<int> now(steps + 1, static_cast<int>(steps)),
      begin = now;  // the step's new position; the new begin of a part that began with it
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
  for (Chain& c : program.chains) {
    c.end += at(now, c.begin) - c.begin;
    c.begin = at(now, c.begin);
  }
  for (int* part : {&program.combine_begin, &program.update_begin, &program.move_begin}) *part = at(begin, *part);
  for (Buffer& b : program.buffers) {
    if (b.first >= 0) b.first = at(now, b.first);
    if (b.last >= 0) b.last = at(now, b.last);
  }
}

}  // namespace motley
