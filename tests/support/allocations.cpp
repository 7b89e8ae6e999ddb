// SPDX-License-Identifier: Apache-2.0
#include "tests/support/allocations.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

thread_local motley::testing::Allocations g_so_far;

void* counted(std::size_t bytes) {
  g_so_far.count++;
  g_so_far.largest = std::max(g_so_far.largest, bytes);
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // GCC 12 sees the one through the other
void* operator new(std::size_t bytes) {
  if (void* p = counted(bytes)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}

namespace motley::testing {

Allocations& allocations() {
  return g_so_far;
}

}  // namespace motley::testing
#pragma GCC diagnostic pop
