// SPDX-License-Identifier: Apache-2.0
// Counts what operator new gives. In a file of its own: where the compiler sees both ends, it takes the pair for a mistake.
#pragma once
#include <cstddef>

namespace motley::testing {

struct Allocations {
  std::size_t count = 0, largest = 0;  // bytes
};
Allocations& allocations();  // of this thread, since it was last set

}  // namespace motley::testing
