// SPDX-License-Identifier: Apache-2.0
// Counts what operator new gives. In a file of its own: where the compiler sees both ends, it takes the pair for a mistake.
#pragma once

namespace motley::testing {

long allocations();  // of this thread, so far

}  // namespace motley::testing
