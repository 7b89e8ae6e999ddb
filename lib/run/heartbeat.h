// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "run/host_watch.h"
#include "run/launcher_lock.h"

namespace motley {

// A thread that beats in this rank's record and watches other ranks. A heartbeat that sees a hung rank writes the reason into its
// own record and leaves by _exit(86), without an MPI call and without the rank's main thread. A rank whose MPI_Finalize does not
// return leaves with the code that all ranks have agreed on. A rank whose launcher has ended is asked to stop; one that has not
// Limits::orphan_seconds later leaves by _exit(86), whatever it waits for.
class Heartbeat {
 public:
  // speaks: also writes to stderr (there is no launcher that reads the records).
  enum class Voice : std::uint8_t { silent, speaks };
  // records: where a launched rank's record is; empty: it has no launcher.
  Heartbeat(RecordWriter& record, Limits limits, Voice voice, const std::filesystem::path& records = {});
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
  void see_launcher();
  [[noreturn]] void end(int code, const std::string& reason, int blames);
  RecordWriter& record_;
  Limits limits_;
  Voice voice_;
  std::mutex mutex_;  // guards others_
  std::unique_ptr<HostWatch> others_{};
  std::optional<LauncherWatch> launcher_{};
  std::atomic<bool> over_{false};
  std::atomic<int> leaves_{-1};
  int wake_ = -1;                     // an eventfd
  int agreed_beats_ = 0;              // since all ranks agreed on the end
  int beats_ = 0, orphan_beats_ = 0;  // so far; since the launcher was found to have ended
  std::thread thread_;
};

}  // namespace motley
