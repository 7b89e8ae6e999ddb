// SPDX-License-Identifier: Apache-2.0
// Where this process runs.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>

namespace motley {

// Seconds above 0 that a variable of the environment has; `usual` if it is not set. UserError: it is something else.
double seconds_of_environment(const char* variable, double usual);
constexpr std::size_t kHostNameSize = 72;  // of an array that holds any host name, with its end
std::string host_name();                   // for people; at most 64 bytes; "?": unknown
// The same for all processes of one machine, in containers too: its boot id (36 bytes), or the host's name if /proc has none.
// `root`: root of the file tree that is read (tests have their own).
std::string machine_id(const std::filesystem::path& root = "/");

}  // namespace motley
