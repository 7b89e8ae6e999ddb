// SPDX-License-Identifier: Apache-2.0
// "axes": "auto": the axes of a mesh, and which device is where along them.
#pragma once
#include <motley/mesh.h>
#include <motley/profile.h>
#include <motley/rules.h>
#include <motley/step.h>

#include <string>
#include <vector>

namespace motley {

struct Arrangement {
  Mesh mesh;
  std::string how{};   // "one axis", "as listed", "hosts along outer", "kinds along inner"
  double seconds = 0;  // of a predicted step; kNever: no plan fits
};

// One axis `all`, with the devices as listed; then for every a * b = ranks, both above 1, axes `outer` of a and `inner` of b: the
// devices as listed, hosts along either axis, kinds of devices along either axis. Of those with equal devices (but for name, index
// and cores) at all places only the first.
std::vector<Arrangement> arrangements(const Mesh& given);

struct PlannedArrangements {
  std::vector<Arrangement> planned{};  // completely; the fastest first, of equal ones the first of arrangements()
  int dropped = 0;                     // by their tables
};
// At most 12, one axis among them: those with the least sum of tables (choose_layout.h); of a step that is not small at most 2,
// those within 15 % of the least, with as many ranks along outer as there are hosts or kinds of devices. profile: of the given
// mesh, not empty. UserError: none can be planned. Pure.
PlannedArrangements plan_arrangements(const Step& step, const Mesh& given, const LayoutRules& rules, const Profile& profile,
                                      DType dtype);

// "outer 2 x inner 2, hosts along outer: [a, b], [c, d]"
std::string text_of(const Arrangement& one);
// "axes auto: ..., predicted 12.3 ms; next best ..., 13.1 ms; 5 complete plans, 3 arrangements dropped by their tables"
std::string text_of(const PlannedArrangements& all);

}  // namespace motley
