// SPDX-License-Identifier: Apache-2.0
#include "plan/index_maps.h"

#include <algorithm>

#include "base/at.h"
#include "graph/layers.h"
#include "plan/kernel_of.h"

namespace motley {

Range numbers_of(const std::vector<Index>& sizes, const Box& box) {
  if (volume(box) == 0) return {0, 0};
  Index first = 0, last = 0;
  for (std::size_t k = 0; k < sizes.size(); k++) {
    first = first * sizes[k] + box[k].begin;
    last = last * sizes[k] + box[k].end - 1;
  }
  return {first, last + 1};
}

Box box_of_numbers(const std::vector<Index>& sizes, Range numbers) {
  Box box;
  for (Index size : sizes) box.push_back({0, numbers.size() == 0 ? 0 : size});
  if (numbers.size() == 0) return box;
  Index inner = 1;
  for (Index size : sizes) inner *= size;
  for (std::size_t k = 0; k < sizes.size(); k++) {  // within one row of dim k only a part of the next dim is needed
    inner /= sizes[k];
    const Index row = numbers.begin / inner, end = (numbers.end - 1) / inner + 1;
    box[k] = {row, end};
    if (end > row + 1) break;
    numbers = {numbers.begin - row * inner, numbers.end - row * inner};
  }
  return box;
}

void infer_index_maps(const Pass& pass, Box& work) {
  auto sizes_of = [&](const std::vector<int>& indices) {
    std::vector<Index> out;
    for (int i : indices) out.push_back(at(pass.indices, i).size);
    return out;
  };
  for (const IndexMap& map : pass.index_maps) {
    Box made;
    Index there = 1;
    for (int i : map.made) made.push_back(at(work, i));
    for (Index size : sizes_of(map.read)) there *= size;
    const Range wanted = numbers_of(sizes_of(map.made), made);
    const Range numbers = intersect({wanted.begin + map.offset, wanted.end + map.offset}, {0, there});
    if (map.made.size() == 1) at(work, map.made[0]) = {numbers.begin - map.offset, numbers.end - map.offset};
    const Box read = box_of_numbers(sizes_of(map.read), numbers);
    for (std::size_t k = 0; k < read.size(); k++) at(work, map.read[k]) = read[k];
  }
}

std::vector<std::string> reshaping_notes(const PlanData& data) {
  std::vector<std::string> notes;
  for (std::size_t p = 0; p < data.pass_plans.size(); p++) {
    const Pass& pass = data.passes.passes[p];
    if (pass.index_maps.empty() || data.pass_plans[p].work.empty()) continue;
    const PassOperand& read = pass.reads.front();
    const int made = at(data.passes.tensors, pass.writes.tensor).role == TensorRole::gradient ? read.tensor : pass.writes.tensor;
    if (is_inner(data.passes, made)) continue;  // a norm's statistics: no rule aligns it
    const TensorPlan& source = at(data.tensors, read.tensor);
    if (source.layout.cuts.empty()) continue;
    Index elements = 0;
    for (std::size_t r = 0; r < data.pass_plans[p].work.size(); r++) {
      if (!data.pass_plans[p].work[r].any) continue;
      std::vector<Box> own;
      for (const Shard& h : source.home)
        if (h.rank == static_cast<int>(r)) own.push_back(h.box);
      for (const Box& b : subtract(operand_box(read, data.pass_plans[p].work[r].box), own)) elements += volume(b);
    }
    if (elements > 0)
      notes.push_back(pass.name + ": its cut and that of \"" + at(data.passes.tensors, read.tensor).name +
                      "\" are not aligned at block boundaries; " + std::to_string(elements) + " elements are gathered first");
  }
  return notes;
}

}  // namespace motley
