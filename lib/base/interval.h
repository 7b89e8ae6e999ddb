// SPDX-License-Identifier: Apache-2.0
// The range of numbers that a value may have, and its description in words: for a key in JSON and for a field in C++.
#pragma once
#include <cstdint>
#include <limits>
#include <string>

namespace motley {

template <class T>
struct Interval {
  T least{}, most = std::numeric_limits<T>::max();
  bool above = false, below = false;  // excluding `least`; excluding `most`
  const char* otherwise = "";         // what holds without the value; "": not mentioned
  bool contains(T value) const { return (above ? value > least : value >= least) && (below ? value < most : value <= most); }
};

// Such as "expected a number above 0, found -1; without it gradients are not clipped". exceeds: the found value is too large.
std::string mismatch(const Interval<std::int64_t>& expected, const std::string& found, bool exceeds);
std::string mismatch(const Interval<double>& expected, const std::string& found, bool exceeds);

// UserError "NAME: expected ..., found ...".
void require_within(const std::string& name, std::int64_t value, const Interval<std::int64_t>& expected);
void require_within(const std::string& name, double value, const Interval<double>& expected);

}  // namespace motley
