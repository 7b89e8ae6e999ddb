// SPDX-License-Identifier: Apache-2.0
// What a law says of a case, and the smallest case near a failing one that still fails.
#pragma once
#include <motley/exchange.h>
#include <motley/plan.h>

#include <functional>
#include <string>

#include "tests/support/random_network.h"

namespace motley::law {

// Every pass takes one of its legal picks at random, determined by the number, and tensors that may be tiled are, at random.
// UserError: the rules do not go together.
Plan with_random_picks(const Step& step, const Mesh& mesh, const LayoutRules& rules, unsigned number, DType dtype,
                       const Ownership& ownership = {});
// Small networks have few atoms that several ranks would share: at times they share smaller ones too, determined by the number.
Ownership random_ownership(unsigned number);

// The same plan, every exchange by a schedule at random, determined by the number.
Plan with_random_schedules(const Plan& plan, unsigned number);

// The same plan, every rank on a host of its own: all that travels goes by message, and beside kernels.
Plan with_hosts_apart(const Plan& plan);

struct Verdict {
  bool refused = false;  // two dims of one tensor cannot both be cut
  std::string wrong{};   // empty: the law holds
};
// The network under the case's cuts (and picks) equals the unsharded one, within 1e-11 in f64 or (integers) bit for bit in f32 by
// the kernels users run; every rank receives the bytes that were planned.
Verdict verdict_on(const Case& one);

// Drops layers, cuts and axes, makes sizes, windows and meshes smaller and cuts simpler, as long as `fails` holds.
Case smallest(Case failing, const std::function<bool(const Case&)>& fails, int tries = 400);

// "" or the smallest failing case near this one, with what is wrong with it.
std::string broken(const Case& one, int* refused = nullptr);

}  // namespace motley::law
