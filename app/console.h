// SPDX-License-Identifier: Apache-2.0
// Messages besides the result, on stderr; and the result, on stdout.
#pragma once
#include <filesystem>
#include <string>

#include "app/options.h"
#include "base/units.h"
#include "run/progress_line.h"

namespace motley {

// With --progress plain no line of progress is rewritten.
class Console {
 public:
  enum class Voice : std::uint8_t { silent, speaks };  // silent: all ranks but the first
  Console(const Options& options, Voice voice);
  void say(LogLevel level, const std::string& text);
  enum class Of : std::uint8_t { work, evaluation };
  void progress(const std::string& line, Of of = Of::work);  // the first line of another kind of work is shown at once
  void progress_done();                                      // the last line is kept

 private:
  bool speaks_, progress_;
  LogLevel level_;
  ProgressLine line_;
  Of of_ = Of::work;
};

// To stderr, control characters other than \n, \r and \t as blanks. If the reader has stopped reading it waits, as print_result()
// does, until a stop is requested.
void print_error(const std::string& text);
// Prints the whole result, or what the reader of a pipe wants of it. Error(io).
void print_result(const std::string& text);
// Writes into `file` if given (with a message about it on stderr), else to stdout. Error(io).
void give_result(const std::string& text, const std::filesystem::path& file, Console& console);

}  // namespace motley
