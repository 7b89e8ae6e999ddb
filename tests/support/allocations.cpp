// SPDX-License-Identifier: Apache-2.0
#include "tests/support/allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local long g_allocations = 0;
}  // namespace

void* operator new(std::size_t bytes) {
  g_allocations++;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace motley::testing {

long allocations() { return g_allocations; }

}  // namespace motley::testing
