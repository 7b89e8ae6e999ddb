// SPDX-License-Identifier: Apache-2.0
// Figures for people: one form everywhere.
#pragma once
#include <string>

namespace motley {

// "850 us", "12.3 ms", "4.2 s", "3 min 20 s"; "1.2 MB" (1000 kB).
std::string seconds_text(double seconds);
std::string bytes_text(double bytes);

}  // namespace motley
