// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

namespace motley::app {

// Checks that this is a directory that a run has written. UserError: 66 there is none of that name, 65 it is something else.
void require_run(const std::filesystem::path& run);

}  // namespace motley::app
