// SPDX-License-Identifier: Apache-2.0
#include "train/beside.h"

#include <motley/error.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "base/core_use.h"
#include "run/start.h"

namespace motley {

namespace {

constexpr int kNice = 10;  // a tenth of a core that another thread also wants

// Threads started while an object of this class lives get no signals: signals are for the rank's own thread.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

std::thread start_beside(const std::vector<int>& cores, std::function<void()> work) {
  const NoSignals held;
  return std::thread([cores, work = std::move(work)] {
    try {
      if (!cores.empty()) bind_to_cores(cores);
    } catch (const Error&) {  // the cores are no longer this process's: it runs where the rank does
    }
    // Linux: sets this thread alone. If that is not permitted, it runs as any other thread.
    if (cores.empty()) static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice));
    const ThreadBeside uncounted;
    work();
  });
}

}  // namespace motley
