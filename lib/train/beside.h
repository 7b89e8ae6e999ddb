// SPDX-License-Identifier: Apache-2.0
// Threads that work beside a rank's own thread.
#pragma once
#include <functional>
#include <thread>
#include <vector>

namespace motley {

// Starts a thread on these cores, or, if there are none, on the rank's own at low priority. It gets no signals, and its time is not
// counted for any rank (ThreadBeside). `work` throws nothing.
std::thread start_beside(const std::vector<int>& cores, std::function<void()> work);

}  // namespace motley
