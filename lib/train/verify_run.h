// SPDX-License-Identifier: Apache-2.0
// The runs that verify() compares.
#pragma once
#include <motley/backend.h>
#include <motley/program.h>

#include <cstdint>
#include <functional>

#include "train/verify_parts.h"

namespace motley {

enum class Recorded : std::uint8_t { results, decisions };  // decisions: and RunRecord::decided

// The Program of run_steps().
Program compiled(const Plan& plan, const Transport& transport, Recorded record, Kernels kernels);

// `before` is called before each kernel. `nudge`: parameters are changed by so much of their values, up or down. `like`: takes its
// decisions from that run (one rank only).
RunRecord run_steps(const Plan& plan, Backend& backend, Transport& transport, const VerifyInput& in,
                    const std::function<void(const char*)>& before, Recorded record = Recorded::results,
                    const RunRecord* like = nullptr, double nudge = 0, Kernels kernels = Kernels::fused);

}  // namespace motley
