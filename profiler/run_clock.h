// SPDX-License-Identifier: Apache-2.0
// Times one run on this thread, and says whether another thread used its core in that time.
#pragma once
#include <sys/resource.h>

#include <ctime>

#include "base/clock.h"

namespace motley {

struct RunTime {
  double wall = 0, cpu = 0;  // seconds; cpu: of this thread
  bool lost_core = false;    // the operating system took the core away (waiting for a device does not count)
};

class RunClock {
 public:
  RunClock() : taken_(times_taken()), cpu_(thread_seconds()), wall_(seconds_now()) {}
  RunTime stop() const {
    const double wall = seconds_now() - wall_;
    return {wall, thread_seconds() - cpu_, times_taken() != taken_};
  }

 private:
  static double thread_seconds() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  static long times_taken() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
  }
  long taken_;
  double cpu_, wall_;
};

}  // namespace motley
