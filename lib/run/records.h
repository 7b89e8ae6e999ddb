// SPDX-License-Identifier: Apache-2.0
// What each rank reports about itself: one record per rank in files that the ranks of its host (and the launcher) see, rewritten in
// place by one pwrite. No MPI: records must work when messages do not arrive.
#pragma once
#include <motley/transport.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/host.h"

namespace motley {

constexpr double kBeatSeconds = 0.25;

struct Record {
  std::uint64_t hash = 0;      // of the bytes that follow: a reader that reads while they are written reads again
  std::uint64_t beat = 0;      // + 1 every kBeatSeconds
  std::uint64_t exchange = 0;  // number of completed waits
  std::uint64_t moved = 0;     // messages that arrived during long waits
  std::int64_t bytes = 0;      // received
  std::int32_t rank = 0, pid = 0;
  std::int32_t code = -1;       // -1: has not ended
  std::int32_t agreed = -1;     // the code that all ranks agreed to end with, set from then on (MPI_Finalize may still be running)
  std::int32_t ready = 0;       // MPI has started
  std::int32_t waiting = 0;     // 0: computing
  std::int32_t waits_for = -1;  // a rank; -1: all
  std::int32_t gave_up = 0;     // ended without the others, which wait for it and have to be ended
  std::int32_t blames = -1;     // ended with 86: the rank that hung or died; -1: several
  char host[kHostNameSize]{}, device[64]{}, phase[96]{}, what[96]{}, reason[1028]{};  // no padding at the end
};

// `rank 1 ("old cpu", pid 4711 on host a)`
std::string who(const Record& record);

std::filesystem::path record_path(const std::filesystem::path& directory, int rank);

// Where a record is stored: in a separate file (the launcher's directory), or in a slot of its host's file.
struct RecordPlace {
  std::filesystem::path file{};
  off_t offset = 0;
};

// Reads one record repeatedly. Opens the file at the first read and keeps it open.
class RecordReader {
 public:
  explicit RecordReader(RecordPlace place) : place_(std::move(place)) {}
  explicit RecordReader(std::filesystem::path file) : place_{std::move(file)} {}
  ~RecordReader();
  RecordReader(RecordReader&& other) noexcept;
  RecordReader& operator=(RecordReader&&) = delete;
  std::optional<Record> read();  // nothing: not yet written

 private:
  RecordPlace place_;
  int fd_ = -1;
};

// This rank's record. Its threads may call anything at any time: a thread that changes the record never waits for another thread's
// write, except for an end, which is in the file when the call returns.
class RecordWriter : public WaitObserver {
 public:
  RecordWriter(const RecordPlace& place, int rank, const std::string& device);  // offset 0 makes the file. Error(io)
  RecordWriter(const std::filesystem::path& directory, int rank, const std::string& device);
  ~RecordWriter() override;
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  void ready();
  void phase(const std::string& text);
  void beat();
  void agreed(int code, const std::string& reason);  // all ranks end with this code; only MPI_Finalize is left to do
  void ended(int code, const std::string& reason, int blames = -1);  // the first end is kept
  void gave_up(int code, const std::string& reason);                 // an end that the other ranks did not agree to
  // Per rank whether a watch receives its records; set before the first wait. Waits for other ranks keep their deadline.
  void in_sight(std::vector<bool> ranks) { in_sight_ = std::move(ranks); }
  Record now();
  void waiting(const std::string& what, int from) override;
  void done(std::int64_t bytes_received) override;
  bool sees(int from) const override;

 protected:
  virtual bool write(const Record& record);  // one pwrite

 private:
  enum class Put : std::uint8_t { soon, now };  // soon: a thread that is already writing writes this change after its own
  bool put(Put when);                           // false: it cannot be written. The beat then stops, and the others act on that.
  bool put_one();
  void end(int code, const std::string& reason, int blames, bool alone);
  std::mutex writing_;  // held while the file is written; taken before mutex_
  std::mutex mutex_;    // guards what follows; never held while the file is written
  Record record_;
  bool changed_ = false;  // since it was last written
  std::vector<bool> in_sight_{};
  off_t offset_ = 0;
  int fd_ = -1;
};

}  // namespace motley
