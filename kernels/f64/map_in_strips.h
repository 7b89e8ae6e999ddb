// SPDX-License-Identifier: Apache-2.0
// A map instruction by instruction over strips of positions: the reference's arithmetic in the reference's order, so its bits, at
// a fraction of its time.
#pragma once
#include <motley/backend.h>

#include <memory>

namespace motley {

// Any map of at most 16 extents, of operands of any dtype; registers are f64.
std::unique_ptr<Kernel> map_in_strips(const KernelSpec& spec);

}  // namespace motley
