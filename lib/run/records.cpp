// SPDX-License-Identifier: Apache-2.0
#include "run/records.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/at.h"
#include "base/hash.h"
#include "base/host.h"

namespace motley {

static_assert(std::has_unique_object_representations_v<Record> && sizeof(Record) <= 4096,
              "a record is one small write, all hashed");

namespace {

// Cuts at the first byte of a character, so that no character is cut in half.
template <std::size_t N>
void fill_text(char (&to)[N], const std::string& text) {
  std::size_t length = std::min(text.size(), N - 1);
  while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0U) == 0x80U) length--;
  std::memset(to, 0, N);
  std::memcpy(to, text.data(), length);
}

std::uint64_t hash_of_rest(const Record& record) {
  return hash_bytes(reinterpret_cast<const std::byte*>(&record) + sizeof record.hash, sizeof record - sizeof record.hash);
}

}  // namespace

std::string who(const Record& record) {
  const std::string device = record.device[0] != 0 ? "\"" + std::string(record.device) + "\", " : "";
  return "rank " + std::to_string(record.rank) + " (" + device + "pid " + std::to_string(record.pid) + " on host " + record.host +
         ")";
}

std::filesystem::path record_path(const std::filesystem::path& directory, int rank) {
  return directory / ("rank-" + std::to_string(rank));
}

RecordReader::RecordReader(RecordReader&& other) noexcept : place_(std::move(other.place_)), fd_(std::exchange(other.fd_, -1)) {}

RecordReader::~RecordReader() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<Record> RecordReader::read() {
  if (fd_ < 0) fd_ = ::open(place_.file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) return std::nullopt;
  Record record;
  for (int attempt = 0; attempt < 100; attempt++) {
    if (pread(fd_, &record, sizeof record, place_.offset) != static_cast<ssize_t>(sizeof record)) return std::nullopt;
    if (record.hash == hash_of_rest(record)) return record;
  }
  return std::nullopt;
}

RecordWriter::RecordWriter(const RecordPlace& place, int rank, const std::string& device) : offset_(place.offset) {
  const int make = place.offset == 0 ? O_CREAT | O_EXCL | O_NOFOLLOW : 0;
  fd_ = ::open(place.file.c_str(), make | O_WRONLY | O_CLOEXEC, 0600);
  record_.rank = rank;
  record_.pid = static_cast<std::int32_t>(getpid());
  fill_text(record_.host, host_name());
  fill_text(record_.device, device);
  fill_text(record_.phase, "start");
  if (fd_ >= 0 && put(Put::now)) return;
  const std::string why = std::strerror(errno);
  if (fd_ >= 0) ::close(fd_);
  throw Error(Exit::io, place.file.string() + ": " + why);
}

RecordWriter::RecordWriter(const std::filesystem::path& directory, int rank, const std::string& device)
    : RecordWriter(RecordPlace{record_path(directory, rank)}, rank, device) {}

RecordWriter::~RecordWriter() {
  ::close(fd_);
}

bool RecordWriter::write(const Record& record) {
  return pwrite(fd_, &record, sizeof record, offset_) == static_cast<ssize_t>(sizeof record);
}

bool RecordWriter::put(Put when) {
  bool good = true;
  for (bool again = true; again;) {
    std::unique_lock writing(writing_, std::defer_lock);
    if (when == Put::now)
      writing.lock();
    else if (!writing.try_lock())
      return true;  // the thread that holds the lock sees changed_ after its write
    good = put_one();
    writing.unlock();
    const std::lock_guard lock(mutex_);
    again = good && changed_;
  }
  return good;
}

bool RecordWriter::put_one() {
  Record copy;
  {
    const std::lock_guard lock(mutex_);
    changed_ = false;
    copy = record_;
  }
  copy.hash = hash_of_rest(copy);
  return write(copy);
}

void RecordWriter::ready() {
  {
    const std::lock_guard lock(mutex_);
    record_.ready = 1;
    fill_text(record_.phase, "ready");
    changed_ = true;
  }
  static_cast<void>(put(Put::soon));
}

void RecordWriter::phase(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    fill_text(record_.phase, text);
    record_.moved++;
    changed_ = true;
  }
  static_cast<void>(put(Put::soon));
}

void RecordWriter::beat() {
  {
    const std::lock_guard lock(mutex_);
    record_.beat++;
    changed_ = true;
  }
  static_cast<void>(put(Put::soon));
}

void RecordWriter::agreed(int code, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    record_.agreed = code;
    fill_text(record_.reason, reason);
  }
  static_cast<void>(put(Put::now));
}

void RecordWriter::ended(int code, const std::string& reason, int blames) {
  end(code, reason, blames, false);
}

void RecordWriter::gave_up(int code, const std::string& reason) {
  end(code, reason, -1, true);
}

void RecordWriter::end(int code, const std::string& reason, int blames, bool alone) {
  {
    const std::lock_guard lock(mutex_);
    if (record_.code != -1) return;
    record_.code = code;
    record_.gave_up = alone ? 1 : 0;
    record_.blames = blames;
    fill_text(record_.reason, reason);
  }
  static_cast<void>(put(Put::now));
}

Record RecordWriter::now() {
  const std::lock_guard lock(mutex_);
  return record_;
}

void RecordWriter::waiting(const std::string& what, int from) {
  const std::lock_guard lock(mutex_);
  record_.waiting = 1;
  record_.waits_for = from;
  record_.moved++;
  fill_text(record_.what, what);
}

void RecordWriter::done(std::int64_t bytes_received) {
  const std::lock_guard lock(mutex_);
  record_.waiting = 0;
  record_.exchange++;
  record_.bytes = bytes_received;
}

bool RecordWriter::sees(int from) const {
  if (in_sight_.empty()) return true;
  return from < 0 ? std::find(in_sight_.begin(), in_sight_.end(), false) == in_sight_.end() : at(in_sight_, from);
}

}  // namespace motley
