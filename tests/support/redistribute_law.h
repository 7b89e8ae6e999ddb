// SPDX-License-Identifier: Apache-2.0
// The exchange law over any transport.
#pragma once
#include <motley/redistribute.h>

#include <string>

#include "tests/support/random_network.h"

namespace motley::law {

// A tensor of three dims on a mesh of up to `ranks` ranks: uneven, empty and jagged cuts, dims over two axes, copies, dims in any
// order.
LaidOut random_lay(Random& random, const Shape& shape, int ranks);

// One seeded case, called by every rank: a tensor filled with its global linear index goes from one random layout to another and
// back. Empty, or what was wrong: values, the bytes counted, the messages.
std::string redistribute_law(Transport& transport, unsigned number);

}  // namespace motley::law
