// SPDX-License-Identifier: Apache-2.0
#include "run/progress_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

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

}  // namespace

ProgressLine::ProgressLine(std::function<void(const std::string& text)> print, Mode mode)
    : print_(std::move(print)), rewrites_(mode == Mode::automatic && on_terminal()), columns_(columns()) {}

void ProgressLine::show(const std::string& line) {
  unsaid_ = line;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + (rewrites_ ? Clock::duration(kRewriteEvery) : Clock::duration(kLineEvery));
  unsaid_.clear();
  if (!rewrites_) return print_(line + "\n");
  const std::string cut = line.substr(0, columns_ - 1);
  print_("\r" + cut + std::string(shown_ > cut.size() ? shown_ - cut.size() : 0, ' '));
  shown_ = cut.size();
}

void ProgressLine::other_work() {
  if (!rewrites_) done();
  next_ = {};
}

void ProgressLine::done() {
  if (!unsaid_.empty()) {
    next_ = {};
    show(std::string(unsaid_));
  }
  if (rewrites_ && shown_ > 0) print_("\n");
  shown_ = 0;
  next_ = {};
}

}  // namespace motley
