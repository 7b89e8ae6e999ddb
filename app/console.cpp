// SPDX-License-Identifier: Apache-2.0
#include "app/console.h"

#include <fmt/format.h>
#include <motley/error.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
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

constexpr auto kRewriteEvery = std::chrono::milliseconds(100);
constexpr auto kLineEvery = std::chrono::seconds(5);

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

bool on_terminal() {
  if (variable("NO_COLOR") != "" || variable("TERM") == "dumb") return false;
  const std::string given = variable("MOTLEY_TTY");
  return given.empty() ? isatty(STDERR_FILENO) == 1 : given == "1";
}

std::size_t columns() {
  if (winsize size{}; ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const int given = std::atoi(variable("COLUMNS").c_str());
  return given > 10 ? static_cast<std::size_t>(given) : 80;
}

// If the reader does not read, output waits for it until a stop is requested.
bool stopped() {
  return signals_so_far() > 0 || HeldSignals::stop_is_waiting();
}

}  // namespace

Console::Console(const Options& options, Voice voice)
    : speaks_(voice == Voice::speaks),
      progress_(speaks_ && options.progress != ProgressMode::never),
      rewrites_(progress_ && options.progress == ProgressMode::automatic && on_terminal()),
      level_(options.log_level),
      columns_(columns()) {}

Console::~Console() {
  progress_done();
}

void Console::say(LogLevel level, const std::string& text) {
  if (!speaks_ || level > level_) return;
  progress_done();
  print_error(text + "\n");
}

void Console::progress(const std::string& line, Of of) {
  if (!progress_) return;
  if (std::exchange(of_, of) != of) {
    if (!rewrites_) progress_done();
    next_ = {};
  }
  unsaid_ = line;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + (rewrites_ ? Clock::duration(kRewriteEvery) : Clock::duration(kLineEvery));
  unsaid_.clear();
  if (!rewrites_) return print_error(line + "\n");
  const std::string cut = line.substr(0, columns_ - 1);
  print_error("\r" + cut + std::string(shown_ > cut.size() ? shown_ - cut.size() : 0, ' '));
  shown_ = cut.size();
}

void Console::progress_done() {
  if (!unsaid_.empty()) {
    next_ = {};
    progress(std::string(unsaid_), of_);
  }
  if (rewrites_ && shown_ > 0) print_error("\n");
  shown_ = 0;
  next_ = {};
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
