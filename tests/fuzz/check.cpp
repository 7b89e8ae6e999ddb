// SPDX-License-Identifier: Apache-2.0
// Files that people write, and all others that `motley check` takes: meshes, models, layouts, jobs with their parts.
#include "config/check.h"

#include "tests/fuzz/fuzz.h"

namespace motley::fuzz {

void take(std::string_view input) {
  const std::string file = file_of("input.json", input);
  const CheckResult result = check_files({file});
  const bool taken = result.code == Exit::ok;
  require(taken || is_refusal(result.code), "exit code " + std::to_string(static_cast<int>(result.code)));
  require((taken ? result.report : result.complaints).find(file) != std::string::npos,
          "does not name its file: " + result.complaints);
}

}  // namespace motley::fuzz
