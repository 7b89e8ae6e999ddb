// SPDX-License-Identifier: Apache-2.0
// Threads that cannot be started: few_threads.cpp replaces pthread_create.
#pragma once

namespace motley::testing {

// As long as an object of this class lives, so many more threads start.
class FewThreads {
 public:
  explicit FewThreads(int more);
  ~FewThreads();
  FewThreads(const FewThreads&) = delete;
  FewThreads& operator=(const FewThreads&) = delete;
};

}  // namespace motley::testing
