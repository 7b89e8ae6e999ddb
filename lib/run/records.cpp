// SPDX-License-Identifier: Apache-2.0
#include "run/records.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

namespace motley {

static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) <= 4096, "a record is one small write");

namespace {

// Cuts at a character's first byte: no half characters.
template <std::size_t N>
void put_text(char (&to)[N], const std::string& text) {
  std::size_t length = std::min(text.size(), N - 1);
  while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0U) == 0x80U) length--;
  std::memset(to, 0, N);
  std::memcpy(to, text.data(), length);
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

RecordReader::RecordReader(RecordReader&& other) noexcept : file_(std::move(other.file_)), fd_(std::exchange(other.fd_, -1)) {}

RecordReader::~RecordReader() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<Record> RecordReader::read() {
  if (fd_ < 0) fd_ = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) return std::nullopt;
  Record record;
  for (int attempt = 0; attempt < 100; attempt++) {
    if (pread(fd_, &record, sizeof record, 0) != static_cast<ssize_t>(sizeof record)) return std::nullopt;
    if (record.serial == record.serial_end) return record;
  }
  return std::nullopt;
}

RecordWriter::RecordWriter(const std::filesystem::path& directory, int rank, const std::string& device) {
  const std::filesystem::path file = record_path(directory, rank);
  fd_ = ::open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
  record_.rank = rank;
  record_.pid = static_cast<std::int32_t>(getpid());
  if (gethostname(record_.host, sizeof record_.host - 1) != 0) put_text(record_.host, "?");
  put_text(record_.device, device);
  put_text(record_.phase, "start");
  if (fd_ >= 0 && put()) return;
  const std::string why = std::strerror(errno);
  if (fd_ >= 0) ::close(fd_);
  throw Error(Exit::io, file.string() + ": " + why);
}

RecordWriter::~RecordWriter() {
  ::close(fd_);
}

bool RecordWriter::put() {
  record_.serial++;
  record_.serial_end = record_.serial;
  return pwrite(fd_, &record_, sizeof record_, 0) == static_cast<ssize_t>(sizeof record_);
}

void RecordWriter::ready() {
  const std::lock_guard lock(mutex_);
  record_.ready = 1;
  put_text(record_.phase, "ready");
  static_cast<void>(put());
}

void RecordWriter::phase(const std::string& text) {
  const std::lock_guard lock(mutex_);
  put_text(record_.phase, text);
  record_.moved++;
  static_cast<void>(put());
}

void RecordWriter::beat() {
  const std::lock_guard lock(mutex_);
  record_.beat++;
  static_cast<void>(put());
}

void RecordWriter::ended(int code, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  end(code, reason);
}

void RecordWriter::gave_up(int code, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (record_.code == -1) record_.gave_up = 1;
  end(code, reason);
}

void RecordWriter::end(int code, const std::string& reason) {
  if (record_.code != -1) return;
  record_.code = code;
  put_text(record_.reason, reason);
  static_cast<void>(put());
}

void RecordWriter::waiting(const std::string& what, int from) {
  const std::lock_guard lock(mutex_);
  record_.waiting = 1;
  record_.waits_for = from;
  record_.moved++;
  put_text(record_.what, what);
}

void RecordWriter::done(std::int64_t bytes_received) {
  const std::lock_guard lock(mutex_);
  record_.waiting = 0;
  record_.exchange++;
  record_.bytes = bytes_received;
}

}  // namespace motley
