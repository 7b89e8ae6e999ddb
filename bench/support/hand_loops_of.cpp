// SPDX-License-Identifier: Apache-2.0
#include "bench/support/hand_loops.h"

namespace motley::bench {

const HandLoops& hand_loops([[maybe_unused]] const std::string& isa) {
#if defined(__x86_64__)
  if (isa.starts_with("avx512")) return hand_loops_avx512();
  if (isa.starts_with("avx2")) return hand_loops_avx2();
  if (isa.starts_with("sse")) return hand_loops_sse41();
#endif
  return hand_loops_generic();
}

}  // namespace motley::bench
