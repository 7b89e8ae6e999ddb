// SPDX-License-Identifier: Apache-2.0
// A plan becomes one rank's Program by passes. The first four make a draft, the others change a Program; each has a separate file.
#pragma once
#include <motley/program.h>

#include "plan/plan_data.h"
#include "program/draft.h"

namespace motley {

// ---- drafts
Draft lower(const LocalPlan& plan, Fusions* fusions = nullptr);  // kernels; a Move where values move
void exchange(Draft& draft);  // a Move becomes messages and the kernels that pack, add and unpack them
void share(Draft& draft);  // messages between ranks that share memory become reads in place; what all of them read is stored once
void coalesce(Draft& draft);  // small messages from one rank to another in one exchange become one
Program finished(Draft draft);
// Tensors whose values, or partial sums, are sent as one: `lower` emits one Move for them.
std::vector<MovedTogether> moved_together(const CommonPlan& plan);

// ---- Programs
// Whether the plan says that these kernels stay separate, or what decides while it is made.
bool is_apart(const PlanData& plan, int rank, const KernelSpec& fused, const Fusions* fusions);
void tile(Program& program, const PlanData& plan);  // messages from and to a device with separate memory are sent in pieces
// Fuses maps into the maps that read them.
void fuse(Program& program, const PlanData& plan, const CompileOptions& options, Fusions* fusions = nullptr);
// Posts early and waits late. tiled: exchanges whose tiles are used one by one.
void overlap(Program& program, const PlanData& plan, const std::set<int>& tiled);
void name_implementations(Program& program, const PlanData& plan);
void chain(Program& program, Chained which);        // consecutive maps run block by block
std::vector<bool> lasting(const Program& program);  // per buffer: whether one micro-batch leaves it to the next (`once`)
void place(Program& program, const Passes& passes, const CompileOptions& options);  // lifetimes, offsets in the arena
void settle(Program& program);  // acknowledgements are awaited where the memory is reused

// Runs all passes; for several ranks of a plan the caller makes the CommonPlan once. fusions: decide on, and get, contractions with
// an epilogue, and joined maps.
Program compile(const CommonPlan& plan, int rank, Fusions* fusions = nullptr);
std::vector<Program> compile_all(const CommonPlan& plan);  // by rank

}  // namespace motley
