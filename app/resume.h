// SPDX-License-Identifier: Apache-2.0
// What `train --resume` continues from.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"

namespace motley::app {

struct Resume {
  std::filesystem::path run_directory{};  // empty: a new one
  std::filesystem::path checkpoint{};     // empty: there is none, training begins
  std::string job{};                      // the job's file
  std::vector<std::string> said{};        // what was chosen, and why
  bool begins_again = false;              // training begins in a run directory whose run died before its first checkpoint
};

// For options with `resumes`. The newest checkpoint all of whose chunks are good is chosen; newer ones that are not good are named.
// Reads only. UserError: 64 options that cannot be combined; 66 no such run or checkpoint; 65 no good checkpoint; 78.
Resume choose_resume(const Options& options);
// The newest checkpoint of a run directory all of whose chunks are good; nothing: it has no checkpoint. Checkpoints that are not
// good are named in `said`. UserError (65): it has some, and none is good.
std::optional<std::filesystem::path> last_good(const std::filesystem::path& run, std::vector<std::string>& said);

}  // namespace motley::app
