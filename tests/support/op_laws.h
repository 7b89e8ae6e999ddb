// SPDX-License-Identifier: Apache-2.0
// Laws of networks that have one op at random places, under random cuts over one or two axes of up to 6 ranks. Each checks
// share_of(count) cases, whose numbers begin at `first`.
#pragma once
#include "tests/support/random_network.h"

namespace motley::law {

using WithOp = Recipe (*)(Recipe, Random&);  // adds the op to a network

// Under its rules a network is what it is on one rank; fewer than half of the rules are refused.
void check_layouts(unsigned first, unsigned count, WithOp with, const CutOptions& cuts);
// Likewise under every legal pick, drawn at random.
void check_picks(unsigned first, unsigned count, WithOp with, const CutOptions& cuts);
// On small integers, through the kernels, formats and exchanges that users run, on one to three hosts: bit for bit.
void check_exact(unsigned first, unsigned count, WithOp with, const CutOptions& cuts);

}  // namespace motley::law
