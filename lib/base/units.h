// SPDX-License-Identifier: Apache-2.0
// Numbers for people, in one form everywhere.
#pragma once
#include <string>

namespace motley {

// "850 us", "12.3 ms", "4.2 s", "3 min 20 s", "5 h 20 min"; "1.2 MB" (1000 kB); "2.3026", a large one "1.2346e+08".
std::string seconds_text(double seconds);
std::string bytes_text(double bytes);
std::string loss_text(double loss);
// By how much a time exceeds another, of which it is `ratio` times: "+4.1 %"; "equal to 0.1 %" where that would be +0.0 %.
std::string price_text(double ratio);

}  // namespace motley
