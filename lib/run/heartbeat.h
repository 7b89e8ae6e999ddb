// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "run/host_watch.h"

namespace motley {

// A thread that beats in this rank's record and watches other ranks. A heartbeat that sees a hung rank writes the reason into its
// own record and leaves by _exit(86), without an MPI call and without the rank's main thread. A rank whose MPI_Finalize does not
// return leaves with the code that all ranks have agreed on.
class Heartbeat {
 public:
  // speaks: also writes to stderr (there is no launcher that reads the records).
  enum class Voice : std::uint8_t { silent, speaks };
  Heartbeat(RecordWriter& record, Limits limits, Voice voice);
  ~Heartbeat();  // sends this rank's last record to the other hosts
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  void watch(std::unique_ptr<HostWatch> others);  // starts watching these
  // Ends this process with this code, after writing its record and informing the other hosts. Callable from a signal handler.
  void leave(int code);

 private:
  void run();
  void pause(double seconds);
  void act();
  [[noreturn]] void end(int code, const std::string& reason, int blames);
  RecordWriter& record_;
  Limits limits_;
  Voice voice_;
  std::mutex mutex_;  // guards others_
  std::unique_ptr<HostWatch> others_{};
  std::atomic<bool> over_{false};
  std::atomic<int> leaves_{-1};
  int wake_ = -1;         // an eventfd
  int agreed_beats_ = 0;  // since all ranks agreed on the end
  std::thread thread_;
};

}  // namespace motley
