// SPDX-License-Identifier: Apache-2.0
// From a job to its plan: which profile it requires, and whether ranks have to measure first.
#pragma once
#include <motley/measure.h>

#include <filesystem>
#include <optional>

#include "config/job.h"

namespace motley::app {

Step step_of(const Job& job);             // of its training, with its batch
Step evaluation_step_of(const Job& job);  // the forward passes up to the logits, in micro-batches of the job's training

// Location of the job's profile; if the job has no path: in the user's cache, one file per mesh. Empty: there is no cache.
std::filesystem::path profile_path(const Job& job);
// The profile for a plan if nothing has to be measured. UserError: missing (66).
Profile profile_at_hand(const Job& job);
// Checks that the profile's CPUs are the same as this machine's (with ISA caps). Not for a rank: it opens a CPU. UserError.
void check_made_here(const Profile& profile, const Job& job);
// The plan and its profile; no plan where ranks have to measure first. Not for a rank: it opens a CPU. UserError: as the two above.
struct PlanAtHand {
  Profile profile{};
  std::optional<Plan> plan{};
  std::string why_not{};  // what the stored profile lacks
};
PlanAtHand plan_at_hand(const Job& job, const Step& step);
// As far as it is known without measuring: whether the memory that the mesh gives suffices. Not for a rank. UserError (69).
void check_memory(const Job& job);
// Collective. The same as profile_at_hand(), but measures what is missing; `progress` on rank 0.
Profile profile_of(Runtime& rt, const Job& job, const Step& step, const MeasureOptions& options);

// What a plan's figures do not include on this machine: devices that cannot run here (GPUs are opened: not for a rank, which drives
// its own GPU), ranks that share a core (of those that this process may use: not for a rank, which has its own cores).
std::vector<std::string> device_notes(const Mesh& mesh);
std::vector<std::string> core_notes(const Mesh& mesh);
// "CPU kernels by onednn (rank 0), eigen (ranks 1, 2)"; empty: no CPU computes. In f64 all ranks compute on their CPU.
std::string kernels_line(const Mesh& mesh, DType dtype);
// Ranks that look different in the mesh but are equal: by their ISA on this machine, or by measurement.
std::vector<std::string> equal_notes(const Mesh& mesh, const Profile& profile);
// Reasons to doubt the plan's predicted times, and that it is the best one: times measured on a disturbed machine, or not at all.
std::vector<std::string> doubts(const Job& job, const Step& step, const Plan& plan, const Profile& profile);

// The evaluation for which training must leave memory: the forward passes, if there are test samples and the mesh limits memory.
std::optional<Step> evaluation_beside(const Job& job);
// Of training, in the memory that its evaluation leaves. UserError (69): too little for both.
Plan plan_of(const Job& job, const Step& step, const Profile& profile);
// Collective: rank 0's plan, on all ranks.
Plan plan_of(Runtime& rt, const Job& job, const Step& step, const Profile& profile);
// Collective. The same plan of training, and that of the evaluation beside it; none without test samples.
struct JobPlans {
  Plan training;
  std::optional<Plan> evaluation{};
};
JobPlans plans_of(Runtime& rt, const Job& job, const Step& step, const Profile& profile);
// Collective. The plan of an evaluation alone, on the parameters as training stores them; where the devices have no memory to
// train, as the evaluation's own rules say.
Plan evaluation_plan_of(Runtime& rt, const Job& job, const Step& training, const Profile& profile);
// The job's rules with every part resolved as in that plan.
LayoutRules resolved_rules(const Job& job, const Step& step, const Profile& profile);
// The same for the job's evaluation.
LayoutRules resolved_evaluation_rules(const Job& job, const Profile& profile);

}  // namespace motley::app
