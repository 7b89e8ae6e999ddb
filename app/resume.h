// SPDX-License-Identifier: Apache-2.0
// What `train --resume` goes on from.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"

namespace motley::app {

struct Resume {
  std::filesystem::path run_directory{};  // empty: a new one
  std::filesystem::path checkpoint{};     // empty: nothing to go on from, training begins
  std::string job{};                      // its file
  std::vector<std::string> said{};        // what was taken, and why
  bool begins_again = false;              // in a run directory whose run died before its first checkpoint
};

// Options with `resumes`. The newest checkpoint all of whose chunks are good is taken; those that are not are named. Reads only.
// UserError: 64 options that do not go together; 66 no such run or checkpoint; 65 no good checkpoint; 78.
Resume choose_resume(const Options& options);
// Of a run directory the newest checkpoint all of whose chunks are good; nothing: it has none. Those that are not good are named in
// `said`. UserError (65): it has some, and none is good.
std::optional<std::filesystem::path> last_good(const std::filesystem::path& run, std::vector<std::string>& said);

}  // namespace motley::app
