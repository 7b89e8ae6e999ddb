// SPDX-License-Identifier: Apache-2.0
// What a rank does before it sets a flag in memory that another rank reads.
#pragma once
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <atomic>

namespace motley {

// On x86 a release store does not order non-temporal stores, which a kernel may have used (about 10 ns).
inline void finish_stores() {
#if defined(__x86_64__)
  _mm_sfence();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace motley
