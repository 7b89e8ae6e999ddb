// SPDX-License-Identifier: Apache-2.0
// What each rank tells about itself: one record per rank in a directory that all of them (and the launcher) see,
// rewritten in place by one pwrite. No MPI: it must still speak when messages do not arrive.
#pragma once
#include <motley/transport.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

namespace motley {

constexpr double kBeatSeconds = 0.25;

struct Record {
  std::uint64_t serial = 0;    // of this write, here and at the end: a reader that sees two looks again
  std::uint64_t beat = 0;      // + 1 every kBeatSeconds
  std::uint64_t exchange = 0;  // waits that are over
  std::uint64_t moved = 0;     // messages that came in during long waits
  std::int64_t bytes = 0;      // received
  std::int32_t rank = 0, pid = 0;
  std::int32_t code = -1;       // -1: has not ended
  std::int32_t ready = 0;       // MPI has started
  std::int32_t waiting = 0;     // 0: computing
  std::int32_t waits_for = -1;  // a rank; -1: all
  std::int32_t gave_up = 0;     // ended without the others, who wait for it and have to be ended
  std::int32_t unused = 0;
  char host[64]{}, device[64]{}, phase[96]{}, what[96]{}, reason[1024]{};
  std::uint64_t serial_end = 0;
};

// `rank 1 ("old cpu", pid 4711 on host a)`
std::string who(const Record& record);

std::filesystem::path record_path(const std::filesystem::path& directory, int rank);

// Reads one record again and again; keeps the file open, so it may lose its name meanwhile.
class RecordReader {
 public:
  explicit RecordReader(std::filesystem::path file) : file_(std::move(file)) {}
  ~RecordReader();
  RecordReader(RecordReader&& other) noexcept;
  RecordReader& operator=(RecordReader&&) = delete;
  std::optional<Record> read();  // nothing: not written yet

 private:
  std::filesystem::path file_;
  int fd_ = -1;
};

// This rank's record. Its own threads may call anything at any time.
class RecordWriter final : public WaitObserver {
 public:
  RecordWriter(const std::filesystem::path& directory, int rank, const std::string& device);  // Error(io)
  ~RecordWriter() override;
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  void ready();
  void phase(const std::string& text);
  void beat();
  void ended(int code, const std::string& reason);    // the first end stands
  void gave_up(int code, const std::string& reason);  // an end that the others did not agree to
  void waiting(const std::string& what, int from) override;
  void done(std::int64_t bytes_received) override;

 private:
  bool put();  // under the mutex. Where it fails the beat stands still, and the others act on that.
  void end(int code, const std::string& reason);
  std::mutex mutex_;
  Record record_;
  int fd_ = -1;
};

}  // namespace motley
