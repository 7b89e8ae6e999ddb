// SPDX-License-Identifier: Apache-2.0
// Progress on stderr: on a terminal one line that is rewritten, elsewhere (NO_COLOR, TERM=dumb) a line every few seconds. A rank
// that motley started has no terminal itself: the launcher passes on what it needs (MOTLEY_TTY, COLUMNS).
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace motley {

class ProgressLine {
 public:
  enum class Mode : std::uint8_t { automatic, plain };  // plain: no line is rewritten, on a terminal neither
  // print: to stderr.
  explicit ProgressLine(std::function<void(const std::string& text)> print, Mode mode = Mode::automatic);
  ~ProgressLine() { done(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const std::string& line);
  void other_work();  // the next line, of another kind of work, is shown at once
  void done();        // the last line is kept

 private:
  using Clock = std::chrono::steady_clock;
  std::function<void(const std::string& text)> print_;
  bool rewrites_;
  std::size_t columns_, shown_ = 0;  // characters of the shown line
  std::string unsaid_{};
  Clock::time_point next_{};
};

}  // namespace motley
