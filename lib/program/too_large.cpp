// SPDX-License-Identifier: Apache-2.0
#include "program/too_large.h"

#include <fmt/format.h>

#include <algorithm>

#include "program/memory.h"

namespace motley {

std::string too_large(const Program& program, Index room) {
  const Buffer* first = nullptr;
  for (const Buffer& b : program.buffers)
    if (b.space == Space::arena && b.last >= 0 && b.offset + b.bytes > room && (first == nullptr || b.first < first->first))
      first = &b;
  std::vector<const Buffer*> all;
  for (const Buffer& b : program.buffers) all.push_back(&b);
  std::stable_sort(all.begin(), all.end(), [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
  std::string text = first == nullptr ? "" : "\"" + first->name + "\" is the first that does not fit; ";
  text += "the largest: ";
  for (std::size_t i = 0; i < std::min<std::size_t>(5, all.size()); i++)
    text += (i == 0 ? "" : ", ") + all[i]->name + " " + std::to_string(all[i]->bytes);
  return text;
}

std::string not_enough(const Program& program, Index workspace, Index has, const std::string& source) {
  const Index all = memory_of(program, workspace);
  return fmt::format(
      "{} bytes for a step ({} of tensors, {} kept from step to step, {} for the workspace of its kernels), {} {}; {}; {}", all,
      program.arena_bytes, program.state_bytes, workspace, source, has, too_large(program, has - (all - program.arena_bytes)),
      kLess);
}

}  // namespace motley
