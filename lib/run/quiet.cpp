// SPDX-License-Identifier: Apache-2.0
#include "run/quiet.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <sstream>
#include <string>

#include "base/clock.h"
#include "base/core_use.h"
#include "base/host.h"
#include "mesh/control.h"
#include "run/start.h"

namespace motley {

bool has_own_cores(Transport& transport) {
  const std::string machine = machine_id();
  std::string mine;
  for (int core : allowed_cores()) mine += fmt::format("{} {}\n", machine, core);
  std::set<std::string> different;
  std::size_t all = 0;
  for (const auto& bytes : transport.gather_all(std::as_bytes(std::span(mine)))) {
    std::istringstream list(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    for (std::string line; std::getline(list, line); all++) different.insert(line);
  }
  return different.size() == all;
}

void wait_for_quiet(Transport& transport, double seconds) {
  const double start = seconds_now();
  const auto goes_on = [&] { return others_use(allowed_cores()) && seconds_now() - start < seconds; };
  for (bool any = true; any;) {
    const std::vector<int> all = control::all_of(transport, goes_on() ? 1 : 0);
    any = std::any_of(all.begin(), all.end(), [](int one) { return one != 0; });
  }
}

}  // namespace motley
