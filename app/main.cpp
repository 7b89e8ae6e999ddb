// SPDX-License-Identifier: Apache-2.0
// The program `motley`: parses the command line, calls the command's function, reports errors.
#include <fcntl.h>
#include <fmt/format.h>
#include <motley/error.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

#include "app/console.h"
#include "app/stop_signals.h"
#include "app/verbs.h"
#include "base/files.h"
#include "run/start.h"

namespace motley {
namespace {

// Until there is something to clean up.
void stop_at_once(int) {
  _exit(static_cast<int>(Exit::stopped));
}

void handle_signals() {
  for (const int signal : kStopSignals) {
    struct sigaction before {
    }, stop{};
    stop.sa_handler = stop_at_once;
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &stop, nullptr);
  }
  // write() returns errors instead of killing the process.
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);
}

// With less, the first call that needs more ends the process by a signal.
void check_stack() {
  constexpr rlim_t kNeeded = rlim_t{1} << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kNeeded)
    throw DeviceError("the stack's limit of this shell is " + std::to_string(limit.rlim_cur >> 10U) +
                      " KiB (ulimit -s); motley needs " + std::to_string(kNeeded >> 10U) + " KiB");
}

// A file that is opened later must not get the number of a standard stream that the caller has closed. Using these still fails.
void hold_closed_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
      _exit(static_cast<int>(Exit::io));
}

// For commands without ranks under mpiexec: all processes do the same, only the first one prints.
void silence() {
  const int nothing = open("/dev/null", O_WRONLY);
  if (nothing < 0 || dup2(nothing, STDOUT_FILENO) < 0 || dup2(nothing, STDERR_FILENO) < 0) _exit(static_cast<int>(Exit::io));
}

int work(const Parsed& parsed, const app::CommandLine& line) {
  const bool alone = parsed.options && (parsed.options->verb == Verb::doctor || parsed.options->verb == Verb::check ||
                                        parsed.options->verb == Verb::trace || parsed.options->verb == Verb::report ||
                                        parsed.options->verb == Verb::schema || parsed.options->verb == Verb::model ||
                                        parsed.options->verb == Verb::convert);
  if ((alone || !parsed.options) && how_started().rank > 0) silence();
  if (!parsed.options) {
    if (parsed.code == 0)
      print_result(parsed.text);
    else
      print_error(parsed.text);
    return parsed.code;
  }
  switch (parsed.options->verb) {
    case Verb::doctor: return app::doctor(*parsed.options);
    case Verb::check: return app::check(*parsed.options);
    case Verb::trace: return app::trace(*parsed.options);
    case Verb::report: return app::report(*parsed.options);
    case Verb::schema: return app::schema(*parsed.options);
    case Verb::model: return app::model(*parsed.options);
    case Verb::convert: return app::convert(*parsed.options);
    case Verb::rank: return app::rank_main(*parsed.options, line);
    case Verb::profile:
    case Verb::plan:
    case Verb::explain:
    case Verb::train:
    case Verb::eval:
    case Verb::predict:
    case Verb::svm_train:
    case Verb::svm_predict:
    case Verb::verify: return app::with_ranks(*parsed.options, line);
  }
  throw InternalError("an unknown command");
}

// Complaints about files begin with the file, so that editors can jump there.
int say(Exit code, const std::string& text) {
  print_error((text.find(": error: ") == std::string::npos ? "motley: " : "") + text + (text.ends_with('\n') ? "" : "\n"));
  return static_cast<int>(code);
}

}  // namespace
}  // namespace motley

int main(int argc, char** argv) {
  using namespace motley;
  try {
    hold_closed_streams();
    check_stack();
    handle_signals();
    return work(parse_options({argv + 1, argv + argc}), {argc, argv});
  } catch (const Error& e) {
    return say(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return say(Exit::device, "out of memory");
  } catch (const std::filesystem::filesystem_error& e) {
    return say(Exit::io, text_of(e));
  } catch (const std::exception& e) {
    return say(Exit::internal, std::string("unexpected: ") + e.what());
  }
}
