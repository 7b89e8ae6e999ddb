// SPDX-License-Identifier: Apache-2.0
// Changes of shape by interval arithmetic on row-major numbers (passes.h, IndexMap).
#pragma once
#include <string>
#include <vector>

#include "plan/plan_data.h"

namespace motley {

// The range of row-major numbers from the first to the last element of a box of indices (sizes: of the whole dims); {0, 1} if there
// are no indices.
Range numbers_of(const std::vector<Index>& sizes, const Box& box);
// The smallest box that holds a range of numbers. The numbers of that box are contiguous.
Box box_of_numbers(const std::vector<Index>& sizes, Range numbers);

// Bounds inference for work whose written side is given: the read side becomes what the written side needs, the written side what
// there is input for.
void infer_index_maps(const Pass& pass, Box& work);

// For people: passes whose cuts do not fall on whole blocks, so that they read other ranks' elements.
std::vector<std::string> reshaping_notes(const PlanData& data);

}  // namespace motley
