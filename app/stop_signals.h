// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <signal.h>

#include <array>

namespace motley {

// Signals that request a program to stop: Ctrl-C, kill, a closed terminal, Slurm's notice that time is nearly over.
inline constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

}  // namespace motley
