// SPDX-License-Identifier: Apache-2.0
#include "tests/support/few_threads.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <climits>

namespace {

std::atomic<int> g_left{INT_MAX};

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* with, void* (*work)(void*), void* of) noexcept {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (g_left <= 0) return EAGAIN;
  g_left--;
  return real(thread, with, work, of);
}

namespace motley::testing {

FewThreads::FewThreads(int more) {
  g_left = more;
}
FewThreads::~FewThreads() {
  g_left = INT_MAX;
}

}  // namespace motley::testing
