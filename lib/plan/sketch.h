// SPDX-License-Identifier: Apache-2.0
// The seconds of parts of one layout, without their plans.
#pragma once
#include "plan/planner.h"

namespace motley {

// What plans take whose rules differ in sizes alone from those of a given one. On ResNet-50 with two ranks a sketch takes a tenth
// of the time of a plan. Plans of VGG-11 and ResNet-50 on 2 and 4 ranks took 0.86 to 1.16 of the median of plan / sketch; the
// fastest of up to 123 was among the three least sketches, and the least sketch at most 0.7 % slower.
class Sketcher {
 public:
  // Keeps references. cost: of this mesh and the plan's passes.
  Sketcher(const PlanData& like, const Mesh& mesh, const Cost& cost);
  Sketcher(PlanData&& like, const Mesh& mesh, const Cost& cost) = delete;
  Sketcher(const Sketcher&) = delete;
  Sketcher& operator=(const Sketcher&) = delete;
  // With the plan's picks, in the sizes of these rules. LayoutError: lists that do not tile.
  Sketch of(const LayoutRules& resolved);

 private:
  const PlanData& like_;
  const Mesh& mesh_;
  Sweeper sweeper_;
};

}  // namespace motley
