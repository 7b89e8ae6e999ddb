// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/runtime.h>

#include <functional>
#include <string>

namespace motley {

// Tells the other ranks, a few times a second at most, that this rank still works, and records on what. Throws if another rank has
// failed.
using Alive = std::function<void(const char* what)>;

// Each rank does its own work, or none, without messages, and calls alive() often. Meanwhile all ranks meet a few times a
// second, so that no wait is long and a rank that dies is noticed. If a rank's work throws, the others' end at their next alive(),
// and the error is all ranks'. `doing` is the phase of a rank that works. Collective.
void each_alone(Runtime& rt, const std::string& doing, const std::function<void(const Alive& alive)>& work);

}  // namespace motley
