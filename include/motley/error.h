// SPDX-License-Identifier: Apache-2.0
/// @file
/// What can go wrong, and the exit code with which each failure ends the program.
#pragma once
#include <stdexcept>
#include <string>

namespace motley {
/// @addtogroup errors
/// @{

/// Exit codes, the same on every rank. usage: the command line; data: damaged data; missing: an input that is not there; device:
/// one that is unavailable or out of memory; internal: a bug, a loss that is not finite, copies that differ; io: a file cannot be
/// written; stopped: on request; config: a configuration is wrong; hung: a rank hung or died.
enum class Exit : int {
  ok = 0,
  usage = 64,
  data = 65,
  missing = 66,
  device = 69,
  internal = 70,
  io = 74,
  stopped = 75,
  config = 78,
  hung = 86
};

/// The base of all errors that motley throws. what() is one or more sentences for the user.
class Error : public std::runtime_error {
 public:
  Error(Exit code, const std::string& text)
      : std::runtime_error(text), code_(code) {}  ///< an error that ends the program with `code`
  Exit code() const { return code_; }             ///< exit code of the program

 private:
  Exit code_;
};

/// Config, model or data is wrong: what was found, what was expected, what to change.
class UserError : public Error {
 public:
  explicit UserError(const std::string& text, Exit code = Exit::config) : Error(code, text) {}  ///< 78 unless another code is given
};

/// A bug in motley. The text ends with file and line.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& text, const char* file = __builtin_FILE(),
                         int line = __builtin_LINE());  ///< exit code 70
};

/// A device is unavailable, out of memory, or a vendor's call failed: the call, its text, the device.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& text) : Error(Exit::device, text) {}  ///< exit code 69
};

/// Stopped on request (SIGINT, SIGTERM).
class Stopped : public Error {
 public:
  explicit Stopped(const std::string& text = "stopped on request") : Error(Exit::stopped, text) {}  ///< exit code 75
};

/// Throws InternalError unless `holds`; `what` says what should hold.
void check(bool holds, const char* what, const char* file = __builtin_FILE(), int line = __builtin_LINE());

/// @}
}  // namespace motley
