// SPDX-License-Identifier: Apache-2.0
// stdout or stderr, whose reader may be slow or have stopped: what it does not accept now waits here, and nothing blocks.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace motley {

class Outlet {
 public:
  explicit Outlet(int stream) : stream_(stream) {}
  void add(std::string_view text) { waiting_ += text; }
  // Writes what the reader accepts now.
  void flush();
  // Writes everything, however long the reader takes; after `stopped()` is true, one second more. What is left then is dropped.
  void finish(const std::function<bool()>& stopped);
  std::size_t waiting() const { return waiting_.size() - written_; }  // bytes
  int stream() const { return stream_; }
  bool dropped() const { return dropped_; }  // whether finish() dropped anything
  // errno of a failed write; 0: none failed. A pipe whose reader has closed it (`| head`) is no failure: what is left is dropped.
  int error() const { return error_; }

 private:
  int stream_;
  std::string waiting_{};
  std::size_t written_ = 0;  // of `waiting_`
  int error_ = 0;
  bool dropped_ = false;
};

// The ranks' stdout and stderr arrive through two pipes: what follows a mark in stdout (mark_result()) waits until stderr has that
// mark too. The marks are removed.
class ResultOrder {
 public:
  std::string errors(std::string_view text);  // returns what is to be shown now
  std::string output(std::string_view text);
  std::string rest();  // of stdout, once nothing more can arrive on stderr

 private:
  static constexpr std::size_t kMostHeld = std::size_t{1} << 24;  // bytes; no result is so long
  std::string held_{};                                            // of stdout: empty, or it begins with a mark
  std::size_t ahead_ = 0;                                         // marks that stderr had and stdout did not
};

}  // namespace motley
