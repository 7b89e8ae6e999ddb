// SPDX-License-Identifier: Apache-2.0
// A map instruction by instruction over strips of positions: the reference's arithmetic in the reference's order, so its bits, in
// less time. Not the loops of kernels/loops: verify compares these with what is computed here.
#pragma once
#include <motley/backend.h>

#include <memory>

namespace motley {

// Any map, of operands of any dtype; registers are f64. run() is called by one thread at a time.
std::unique_ptr<Kernel> map_in_strips(const KernelSpec& spec);

}  // namespace motley
