// SPDX-License-Identifier: Apache-2.0
// Profiles: what is read is written so that it is read as the same.
#include <motley/profile.h>

#include "tests/fuzz/fuzz.h"

namespace motley::fuzz {

void take(std::string_view input) {
  const std::string name = "input.json", text(input);
  Profile profile;
  if (!is_taken(name, [&] { profile = Profile::parse(name, text); })) return;
  const std::string written = profile.json();
  require(Profile::parse("written", written).json() == written, "what was written and read is the same: " + written);
}

}  // namespace motley::fuzz
