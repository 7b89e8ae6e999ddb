// SPDX-License-Identifier: Apache-2.0
#include "app/console.h"

#include <motley/error.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "app/launch.h"
#include "app/outlet.h"
#include "app/run_directory.h"
#include "base/json.h"
#include "base/utf8.h"
#include "run/start.h"

namespace motley {

namespace {

// If the reader does not read, output waits for it until a stop is requested.
bool stopped() {
  return signals_so_far() > 0 || HeldSignals::stop_is_waiting();
}

}  // namespace

Console::Console(const Options& options, Voice voice)
    : speaks_(voice == Voice::speaks),
      progress_(speaks_ && options.progress != ProgressMode::never),
      level_(options.log_level),
      line_(print_error, options.progress == ProgressMode::automatic ? ProgressLine::Mode::automatic : ProgressLine::Mode::plain) {}

void Console::say(LogLevel level, const std::string& text) {
  if (!speaks_ || level > level_) return;
  progress_done();
  print_error(text + "\n");
}

void Console::progress(const std::string& line, Of of) {
  if (!progress_) return;
  if (std::exchange(of_, of) != of) line_.other_work();
  line_.show(line);
}

void Console::progress_done() {
  line_.done();
}

void print_error(const std::string& text) {
  Outlet to(STDERR_FILENO);
  to.add(lines_of(text));
  to.finish(stopped);
}

void print_result(const std::string& text) {
  Outlet to(STDOUT_FILENO);
  to.add(mark_result() + text);
  to.finish(stopped);
  if (to.error() != 0) throw Error(Exit::io, std::string("stdout: ") + std::strerror(to.error()));
}

void give_result(const std::string& text, const std::filesystem::path& file, Console& console) {
  if (file.empty()) return print_result(text);
  write_file(file.string(), text);
  console.say(LogLevel::info, "written: " + file.string());
}

}  // namespace motley
