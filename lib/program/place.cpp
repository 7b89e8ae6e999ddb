// SPDX-License-Identifier: Apache-2.0
// Buffers -> places in the arena. If a map is the last reader of an operand, its result takes that operand's memory: this saves
// memory, and the cache lines that are written have just been read.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/at.h"
#include "kernels/operands.h"
#include "program/compile.h"
#include "program/views.h"

namespace motley {

namespace {

// From the first step that uses a buffer to the last; a buffer in flight is used until its wait.
void find_lifetimes(Program& program, const Passes& passes, const CompileOptions& options) {
  const int end = static_cast<int>(program.steps.size());
  std::map<int, std::vector<int>> posted;  // exchange -> buffers in flight
  std::vector<std::pair<int, int>> span;   // per step: the first and the last step of its chain; without a chain the step itself
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
    for_buffers(what, [&](int buffer) { touch(buffer, s); });
    if (const auto* post = std::get_if<Post>(&what))
      for_buffers(*post, [&](int buffer) { posted[post->exchange].push_back(buffer); });
    if (const auto* wait = std::get_if<Wait>(&what))
      for (int b : posted[wait->exchange]) touch(b, s);
  }
  const std::vector<bool> lasts = lasting(program);
  for (std::size_t b = 0; b < lasts.size(); b++)
    if (lasts[b]) {
      Buffer& buffer = program.buffers[b];
      buffer.first = 0;
      if (program.micro_batches > 1)
        touch(static_cast<int>(b), std::max(0, program.combine_begin - 1));
      else
        buffer.last = end;  // until the State changes
    }
  // What is read after the step. Nothing else may use the memory of what only the first micro-batch writes.
  std::set<int> once;
  for (const ProgramStep& s : program.steps)
    if (s.once) for_buffers(s.what, [&](int buffer) { once.insert(buffer); });
  auto keep = [&](int buffer) {
    if (buffer < 0) return;
    Buffer& b = at(program.buffers, buffer);
    if (b.first < 0 || once.contains(buffer)) b.first = 0;
    b.last = end;
  };
  auto keep_tensors = [&](const std::vector<int>& tensors) {
    for (int t : tensors)
      if (t >= 0)  // the gradient of a frozen parameter
        for (const Stored& stored : at(program.stored, t)) keep(stored.buffer);
  };
  for (int norm : program.norms) keep(norm);
  keep_tensors(passes.outputs);
  keep_tensors(options.keep);
  if (options.keep_gradients) keep_tensors(passes.parameter_gradients);
  for (const FedBuffer& f : program.feeds) at(program.buffers, f.buffer).first = -1;
}

// Buffers whose memory a later buffer may not take while they live: what messages send and receive, what peers read, what other
// micro-batches read.
std::vector<bool> needed_elsewhere(const Program& program, std::vector<bool> lasts) {
  for (const ProgramStep& s : program.steps)
    if (const auto* post = std::get_if<Post>(&s.what)) for_buffers(*post, [&](int buffer) { at(lasts, buffer) = true; });
  return lasts;
}

// The operand whose memory this result may take: read for the last time in this step, each element before the result's element is
// written. -1: none.
int operand_under(const Program& program, const RunKernel& run, int step, std::size_t result, const std::vector<bool>& not_these) {
  const Place made = run.operands[result];
  const Buffer& to = at(program.buffers, made.buffer);
  if (to.space != Space::arena || to.first != step) return -1;
  for (std::size_t k = 0; k < input_count(run.spec); k++) {
    const Place read = run.operands[k];
    const Buffer& from = at(program.buffers, read.buffer);
    const MapOperand &in = run.spec.operands[k], &out = run.spec.operands[result];
    if (from.space != Space::arena || from.last != step || from.bytes != to.bytes || read.element != made.element ||
        in.dtype != out.dtype || in.strides != out.strides || at(not_these, read.buffer))
      continue;
    if (std::count_if(run.operands.begin(), run.operands.end(), [&](const Place& p) { return p.buffer == read.buffer; }) == 1)
      return read.buffer;
  }
  return -1;
}

// Per buffer the one in whose memory it is: the first of those that share the memory, usually itself.
std::vector<std::size_t> share_memory(const Program& program, bool reuse) {
  std::vector<std::size_t> out(program.buffers.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  const std::vector<bool> lasts = lasting(program);
  std::vector<bool> not_these = needed_elsewhere(program, lasts);
  for (std::size_t s = 0; reuse && s < program.steps.size(); s++) {
    const auto* run = std::get_if<RunKernel>(&program.steps[s].what);
    if (run == nullptr || run->spec.op != KernelOp::map || run->spec.combine != Combine::set || run->spec.summands != 1) continue;
    for (std::size_t k = input_count(run->spec); k < run->operands.size(); k++) {
      const int made = run->operands[k].buffer, under = operand_under(program, *run, static_cast<int>(s), k, not_these);
      if (under < 0 || at(lasts, made)) continue;
      at(not_these, under) = true;
      at(out, made) = at(out, under);
    }
  }
  return out;
}

}  // namespace

// Buffers used by both a step that runs once and another step.
std::vector<bool> lasting(const Program& program) {
  std::vector<bool> out(program.buffers.size(), false), once = out;
  if (std::none_of(program.steps.begin(), program.steps.end(), [](const ProgramStep& s) { return s.once; })) return out;
  for (const bool first : {true, false})
    for (const ProgramStep& s : program.steps) {
      if (s.once != first) continue;
      for_buffers(s.what, [&](int buffer) {
        if (first)
          at(once, buffer) = true;
        else if (at(once, buffer))
          at(out, buffer) = true;
      });
    }
  return out;
}

void place(Program& program, const Passes& passes, const CompileOptions& options) {
  find_lifetimes(program, passes, options);
  const std::vector<std::size_t> owner = share_memory(program, options.reuse_memory);
  std::vector<std::size_t> order;
  std::vector<int> last;  // step up to which the memory of each buffer is live
  for (std::size_t i = 0; i < program.buffers.size(); i++) {
    const Buffer& b = program.buffers[i];
    last.push_back(b.last);
    if (b.space == Space::state || b.space == Space::kept)
      program.state_bytes += b.bytes;
    else if (b.space == Space::arena && b.last >= 0 && owner[i] == i)
      order.push_back(i);
  }
  for (std::size_t i = 0; i < last.size(); i++) last[owner[i]] = std::max(last[owner[i]], last[i]);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return program.buffers[a].bytes > program.buffers[b].bytes; });
  std::vector<std::size_t> placed;  // in the order of offsets
  const auto end_of = [](const Buffer& b) { return b.offset + (b.bytes + 63) / 64 * 64; };
  for (std::size_t i : order) {  // takes the lowest gap among buffers that live at the same time
    Buffer& b = program.buffers[i];
    b.offset = 0;
    for (std::size_t p : placed) {
      const Buffer& other = program.buffers[p];
      if (other.offset >= end_of(b)) break;
      if (!options.reuse_memory || (other.first <= last[i] && b.first <= last[p])) b.offset = std::max(b.offset, end_of(other));
    }
    program.arena_bytes = std::max(program.arena_bytes, end_of(b));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](std::size_t x, std::size_t y) { return program.buffers[x].offset < program.buffers[y].offset; }),
        i);
  }
  for (std::size_t i = 0; i < last.size(); i++)
    if (owner[i] != i) program.buffers[i].offset = program.buffers[owner[i]].offset;
}

}  // namespace motley
