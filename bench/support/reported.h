// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/error.h>

#include <cstdio>

namespace motley::bench {

// The whole of a bench: its exit code, or that of the error, which is printed after the bench's name.
template <class Work>
int reported(const char* name, Work&& work) {
  try {
    return work();
  } catch (const Error& e) {
    std::fprintf(stderr, "%s: %s\n", name, e.what());
    return static_cast<int>(e.code());
  }
}

}  // namespace motley::bench
