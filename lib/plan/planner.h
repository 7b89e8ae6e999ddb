// SPDX-License-Identifier: Apache-2.0
// From rules and picks to a plan; nothing is searched or predicted here.
#pragma once
#include <map>
#include <vector>

#include "plan/cost.h"
#include "plan/layouts.h"
#include "plan/plan_data.h"
#include "plan/sweep.h"

namespace motley {

// The step's passes as one layout needs them: copies merged, except for tensors that a rule or a place names.
Passes passes_for(const Step& step, const LayoutRules& rules);
// One number per rank: ranks with the same number read each other's memory in place (by the mesh: of one host, with kernels that
// work in the host's memory).
std::vector<int> hosts_of(const Mesh& mesh);
// One number per rank: ranks with the same number share the network card of a host.
std::vector<int> machines_of(const Mesh& mesh);
std::vector<double> speeds_from_parts(const Passes& passes, const Mesh& mesh, const Layouts& layouts);
// A sweep's decisions as a plan's data (no predicted seconds yet).
PlanData data_of(const Passes& passes, const Mesh& mesh, const Layouts& layouts, Sweep sweep, DType dtype,
                 const Profile& profile = {});
Plan plan_from(const Step& step, const Mesh& mesh, PlanData data);
// A plan of these picks, one per pass (no predicted seconds yet); `rules` made the layouts.
PlanData plan_of_picks(const Passes& passes, const Mesh& mesh, const Layouts& layouts, const LayoutRules& rules,
                       const std::map<int, Pick>& picks, DType dtype, const Ownership& ownership = {});
// A plan for rules whose parts are all given (no predicted seconds yet). `known`: a Cost of the same passes, mesh, profile and
// dtype, whose seconds are not computed again; used where they are measured, as they then do not depend on the rules.
PlanData plan_with(const Passes& passes, const Mesh& mesh, const LayoutRules& resolved, const Profile& profile, DType dtype,
                   const Cost* known = nullptr);
// The same with the picks of another plan, whose rules differ only in sizes: one sweep that improves nothing.
PlanData plan_like(const PlanData& like, const Mesh& mesh, const LayoutRules& resolved, const Profile& profile,
                   const Cost* known = nullptr);
// Its layouts and picks in the sizes of these rules. A pick that they forbid is absent.
Layouts layouts_like(const PlanData& like, const Mesh& mesh, const LayoutRules& resolved);
std::map<int, Pick> picks_like(const PlanData& like, const Mesh& mesh, const Layouts& layouts);
// The hash of all arguments of balance() except the profile.
std::uint64_t plan_hash(const Step& step, const Mesh& mesh, const LayoutRules& rules, const BalanceOptions& options);

}  // namespace motley
