// SPDX-License-Identifier: Apache-2.0
// Messages besides the result, on stderr; and the result, on stdout.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>

#include "app/options.h"
#include "base/units.h"

namespace motley {

// On a terminal progress is one line, rewritten; elsewhere (NO_COLOR, TERM=dumb, --progress plain) a line every few seconds. A rank
// has no terminal itself: the launcher passes on what it needs (MOTLEY_TTY, COLUMNS).
class Console {
 public:
  enum class Voice : std::uint8_t { silent, speaks };  // silent: all ranks but the first
  Console(const Options& options, Voice voice);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;
  void say(LogLevel level, const std::string& text);
  enum class Of : std::uint8_t { work, evaluation };
  void progress(const std::string& line, Of of = Of::work);  // the first line of another kind of work is shown at once
  void progress_done();                                      // the last line is kept

 private:
  using Clock = std::chrono::steady_clock;
  bool speaks_, progress_, rewrites_;
  LogLevel level_;
  std::size_t columns_ = 80, shown_ = 0;  // characters of the shown line
  std::string unsaid_{};
  Of of_ = Of::work;
  Clock::time_point next_{};
};

// To stderr, control characters other than \n, \r and \t as blanks. If the reader has stopped reading it waits, as print_result()
// does, until a stop is requested.
void print_error(const std::string& text);
// Prints the whole result, or what the reader of a pipe wants of it. Error(io).
void print_result(const std::string& text);
// Writes into `file` if given (with a message about it on stderr), else to stdout. Error(io).
void give_result(const std::string& text, const std::filesystem::path& file, Console& console);

}  // namespace motley
