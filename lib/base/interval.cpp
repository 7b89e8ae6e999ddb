// SPDX-License-Identifier: Apache-2.0
#include "base/interval.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <cmath>

namespace motley {

namespace {

constexpr double kAnyNumber = 1e15;              // a larger bound is mentioned only if the value exceeds it
constexpr std::int64_t kAnyInteger = INT32_MAX;  // the same for integers

std::string said(const std::string& expected, const std::string& found, const char* otherwise) {
  const std::string without = *otherwise == '\0' ? "" : "; without it " + std::string(otherwise);
  return "expected " + expected + ", found " + found + without;
}

template <class T>
std::string range(const Interval<T>& in, bool low, bool high) {
  const std::string from = fmt::format("{}", in.least), to = fmt::format("{}", in.most);
  if (!low && !high) return "";
  if (!high) return (in.above ? " above " : " of at least ") + from;
  if (!low) return (in.below ? " below " : " of at most ") + to;
  if (in.above) return " above " + from + (in.below ? " and below " : " and at most ") + to;
  return " from " + from + (in.below ? " to below " : " to ") + to;
}

template <class T>
void require(const std::string& name, T value, const Interval<T>& expected) {
  if (!expected.contains(value)) throw UserError(name + ": " + mismatch(expected, fmt::format("{}", value), value > expected.most));
}

}  // namespace

std::string mismatch(const Interval<std::int64_t>& expected, const std::string& found, bool exceeds) {
  if (expected.least == expected.most) return said(std::to_string(expected.least), found, expected.otherwise);
  const bool high = expected.most <= kAnyInteger || exceeds;
  return said("an integer" + range(expected, true, high), found, expected.otherwise);
}

std::string mismatch(const Interval<double>& expected, const std::string& found, bool exceeds) {
  const bool low = expected.least > -kAnyNumber, high = expected.most < kAnyNumber || exceeds;
  return said("a number" + range(expected, low, high), found, expected.otherwise);
}

void require_within(const std::string& name, std::int64_t value, const Interval<std::int64_t>& expected) {
  require(name, value, expected);
}

void require_within(const std::string& name, double value, const Interval<double>& expected) {
  require(name, value, expected);
}

}  // namespace motley
