// SPDX-License-Identifier: Apache-2.0
#include "app/outlet.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <optional>
#include <utility>

#include "run/start.h"

namespace motley {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kReaderPatience{1};  // for the reader, after a stop was requested
constexpr int kLookEvery = 50;                      // milliseconds

bool takes_more(int stream, int milliseconds) {
  pollfd file{stream, POLLOUT, 0};
  return ::poll(&file, 1, milliseconds) > 0;
}

}  // namespace

void Outlet::flush() {
  // A pipe that is ready has space for PIPE_BUF bytes: a write of no more does not block.
  while (waiting() > 0 && takes_more(stream_, 0)) {
    const ssize_t n = ::write(stream_, waiting_.data() + written_, std::min<std::size_t>(waiting(), PIPE_BUF));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n < 0) {
      error_ = errno == EPIPE ? 0 : errno;
      written_ = waiting_.size();
    } else {
      written_ += static_cast<std::size_t>(n);
    }
  }
  if (2 * written_ < waiting_.size()) return;
  waiting_.erase(0, written_);
  written_ = 0;
}

void Outlet::finish(const std::function<bool()>& stopped) {
  std::optional<Clock::time_point> until;
  for (flush(); waiting() > 0; flush()) {
    if (!until && stopped()) until = Clock::now() + kReaderPatience;
    if (until && Clock::now() > *until) {
      dropped_ = true;
      waiting_.clear();
      written_ = 0;
      return;
    }
    takes_more(stream_, kLookEvery);
  }
}

std::string ResultOrder::errors(std::string_view text) {
  std::string out(text);
  ahead_ += std::erase(out, kResultMark);
  return out;
}

std::string ResultOrder::output(std::string_view text) {
  held_ += text;
  std::string out;
  for (;;) {
    const std::size_t mark = std::min(held_.find(kResultMark), held_.size());
    out += held_.substr(0, mark);
    held_.erase(0, mark);
    if (held_.size() > kMostHeld) return out + rest();  // the byte is not a mark
    if (held_.empty() || ahead_ == 0) return out;
    held_.erase(0, 1);
    ahead_--;
  }
}

std::string ResultOrder::rest() {
  std::erase(held_, kResultMark);
  return std::exchange(held_, "");
}

}  // namespace motley
