// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/plan.h>
#include <motley/transport.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace motley {

// The plan that make() finds on rank 0, on every rank: its decisions are sent. (A search compares sums of seconds, which differ in
// their last bits from one kind of host to another.) Collective. An error of make() is thrown by all ranks; UserError: another
// step, or a mesh with other axes or devices, on some rank.
Plan planned(Transport& transport, const Step& step, const Mesh& mesh, const std::function<Plan()>& make);

// Collective. UserError: the number on some rank differs from rank 0's; what: what this rank then has, "another step".
void same_everywhere(Transport& transport, std::uint64_t number, const std::string& what);

// Collective. mine: what this rank works with beside its plan, one text for each setting. UserError: "rank 1 trains with seed 2,
// rank 0 with seed 1"; works: "trains".
void same_settings(Transport& transport, const std::string& works, const std::vector<std::string>& mine);

}  // namespace motley
