// SPDX-License-Identifier: Apache-2.0
// Values of samples, and what is refused of their files.
#pragma once
#include <motley/data.h>
#include <motley/error.h>
#include <catch2/catch.hpp>

#include <string>
#include <vector>

namespace motley {

// What f complains about, with this exit code; "fine" when it does not.
template <class F>
std::string refused(Exit code, F&& f) {
  try {
    f();
  } catch (const UserError& e) {
    INFO(e.what());
    CHECK(e.code() == code);
    return e.what();
  }
  return "fine";
}

inline std::vector<double> all_of(const Dataset& data, Index sample) {
  Box box;
  for (const Index n : data.sample_extents()) box.push_back({0, n});
  std::vector<double> out(static_cast<std::size_t>(volume(box)));
  data.read(sample, box, out);
  return out;
}

}  // namespace motley
