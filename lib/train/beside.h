// SPDX-License-Identifier: Apache-2.0
// Threads that work beside a rank's own.
#pragma once
#include <functional>
#include <thread>
#include <vector>

namespace motley {

// On these cores, or, where there are none, on the rank's own at low priority. It gets no signals, and its time counts as no rank's
// (ThreadBeside). `work` throws nothing.
std::thread start_beside(const std::vector<int>& cores, std::function<void()> work);

}  // namespace motley
