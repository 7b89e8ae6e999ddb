// SPDX-License-Identifier: Apache-2.0
// The runs that verify() compares.
#pragma once
#include <motley/backend.h>
#include <motley/executor.h>
#include <motley/program.h>

#include <cstdint>
#include <functional>

#include "train/verify_parts.h"

namespace motley {

enum class Recorded : std::uint8_t { results, decisions };  // decisions: and RunRecord::decided

// The Program of run_steps().
Program compiled(const Plan& plan, const Transport& transport, Recorded record, Kernels kernels);

// `before` is called before each kernel. `nudge`: parameters are changed by so much of their values, up or down; what kernels store
// too (one rank only). `like`: takes its decisions from that run (one rank only).
RunRecord run_steps(const Plan& plan, Backend& backend, Transport& transport, const VerifyInput& in,
                    const std::function<void(const char*)>& before, Recorded record = Recorded::results,
                    const RunRecord* like = nullptr, const Nudge& nudge = {}, Kernels kernels = Kernels::fused);

// RunRecord::summed of the plan's first step, which is unsharded and in f64.
std::map<std::string, RunRecord::Summed> summed_magnitudes(const Plan& plan, Backend& backend, const VerifyInput& in,
                                                           const std::function<void(const char*)>& before);
// Changes by so much what this step of a Program has stored in 32 bits or fewer.
void nudge_stored(Executor& executor, const Program& program, int step, double by);

}  // namespace motley
