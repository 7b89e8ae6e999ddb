// SPDX-License-Identifier: Apache-2.0
#include "program/too_large.h"

#include <algorithm>

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

}  // namespace motley
