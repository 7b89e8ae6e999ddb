// SPDX-License-Identifier: Apache-2.0
// What can go wrong, and the exit code each failure ends the program with (INTERFACE: 64 usage, 65 bad data, 66 missing
// input, 69 device, 70 internal, 74 I/O, 75 stopped on request, 78 bad config, 86 a rank hung or died).
#pragma once
#include <source_location>
#include <stdexcept>
#include <string>

namespace motley {

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

class Error : public std::runtime_error {
 public:
  Error(Exit code, const std::string& text) : std::runtime_error(text), code_(code) {}
  Exit code() const { return code_; }

 private:
  Exit code_;
};

// Config, model or data is wrong: what was found, what was expected, what to change.
class UserError : public Error {
 public:
  explicit UserError(const std::string& text, Exit code = Exit::config) : Error(code, text) {}
};

// We are wrong. The text ends with file and line.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& text, std::source_location at = std::source_location::current());
};

// A vendor call failed: the call, its text, the device.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& text) : Error(Exit::device, text) {}
};

// Asked to stop (SIGINT, SIGTERM).
class Stopped : public Error {
 public:
  explicit Stopped(const std::string& text = "stopped on request") : Error(Exit::stopped, text) {}
};

void check(bool holds, const char* what, std::source_location at = std::source_location::current());  // InternalError

}  // namespace motley
