// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "run/host_watch.h"

namespace motley {

// A thread that beats in this rank's record and watches others. One that sees a hung rank writes the reason into its own record and
// leaves by _exit(86), without an MPI call and without the rank's main thread. A rank whose MPI_Finalize does not come back leaves
// with the code that all have agreed on.
class Heartbeat {
 public:
  // speaks: on stderr too (there is no launcher that reads the records).
  enum class Voice : std::uint8_t { silent, speaks };
  Heartbeat(RecordWriter& record, Limits limits, Voice voice);
  ~Heartbeat();  // the other hosts get this rank's last record
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  void watch(std::unique_ptr<HostWatch> others);  // from now on
  // Ends this process with this code, its record written and the other hosts informed. Callable from a signal handler.
  void leave(int code);

 private:
  void run();
  void pause(double seconds);
  void act();
  [[noreturn]] void end(int code, const std::string& reason, int blames);
  RecordWriter& record_;
  Limits limits_;
  Voice voice_;
  std::mutex mutex_;  // of others_
  std::unique_ptr<HostWatch> others_{};
  std::atomic<bool> over_{false};
  std::atomic<int> leaves_{-1};
  int wake_ = -1;         // an eventfd
  int agreed_beats_ = 0;  // since all agreed on the end
  std::thread thread_;
};

}  // namespace motley
