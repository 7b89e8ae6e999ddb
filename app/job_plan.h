// SPDX-License-Identifier: Apache-2.0
// From a job to its plan: which profile it requires, and whether ranks have to measure first.
#pragma once
#include <motley/measure.h>
#include <motley/measure_steps.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "config/job.h"

namespace motley::app {

Step step_of(const Job& job);             // of its training, with its batch
Step evaluation_step_of(const Job& job);  // the forward passes up to the logits, in micro-batches of the job's training

// Location of the job's profile; if the job has no path: in the user's cache, one file per devices of a mesh. Empty: there is no
// cache.
std::filesystem::path profile_path(const Job& job);
// The profile for a plan if nothing has to be measured. UserError: missing (66).
Profile profile_at_hand(const Job& job);
// Checks that the profile's CPUs are the same as this machine's (with ISA caps). Not for a rank: it opens a CPU. UserError.
void check_made_here(const Profile& profile, const Job& job);
// The plan and its profile; no plan where ranks have to measure first (never on a mesh with modelled devices). Not for a rank: it
// opens a CPU. UserError: as the two above.
struct PlanAtHand {
  Profile profile{};
  std::optional<Plan> plan{};
  std::string why_not{};  // what the stored profile lacks
};
// with_steps: real steps too.
PlanAtHand plan_at_hand(const Job& job, const Step& step, bool with_steps = false);
// As far as it is known without measuring: whether the memory that the mesh gives suffices. Not for a rank. UserError (69).
void check_memory(const Job& job);
// Collective. Measures what the file lacks of the job's kernels and real steps.
Profile measured_profile(Runtime& rt, const Job& job, const Step& step, const std::filesystem::path& file,
                         const MeasureOptions& options, const MeasureStepsOptions& steps);
// Collective. The same as profile_at_hand(), but measures what is missing, and runs real steps; `progress` on rank 0.
Profile profile_of(Runtime& rt, const Job& job, const Step& step, const MeasureOptions& options,
                   const MeasureStepsOptions& steps = {.seconds = 0});

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
// The same plan of training, and that of the evaluation beside it; none without test samples.
struct JobPlans {
  Plan training;
  std::optional<Plan> evaluation{};
};
JobPlans plans_of(const Job& job, const Step& step, const Profile& profile);
// Of these what a command gives: the evaluation's plan too where they are written as JSON.
JobPlans plans_to_give(const Job& job, const Step& step, const Profile& profile, const Options& options);
// What a plan file says (explain.h: plan_file_text).
std::string plan_file_of(const Job& job, const JobPlans& plans, const Profile& profile, PlanDetail detail);

// A plan file: of --plan, or of the run that is resumed.
struct GivenPlan {
  std::string name{}, text{};
};
// UserError (66, 78): no such file, a plan of another network, batch or mesh.
GivenPlan read_plan_for(const Job& job, const Step& step, const std::filesystem::path& file);
// The plan of the run with this directory, if it is one of this step, mesh and layout.
std::optional<GivenPlan> plan_of_run(const Job& job, const Step& step, const std::filesystem::path& run);
// Without an evaluation in the file: its homes and rules decide, and `said` says so.
Plan evaluation_from(const GivenPlan& given, const Job& job, const Step& step, const std::function<void(const std::string&)>& said);
JobPlans plans_from(const GivenPlan& given, const Job& job, const Step& step, const std::function<void(const std::string&)>& said);
LayoutRules rules_of(const GivenPlan& given, const Job& job, const Step& step);  // of its training
// The profile beside such plans: for the simulated side of traces; empty, if there is none of these devices. Collective.
Profile profile_beside(Runtime& rt, const Job& job);

// Collective: rank 0's plans, on all ranks.
Plan same_plan(Runtime& rt, const Job& job, const Step& step, const std::function<Plan()>& make);
JobPlans same_plans(Runtime& rt, const Job& job, const Step& step, const std::function<JobPlans()>& make);
// The plan of an evaluation alone, on the parameters as training stores them; where the devices have no memory to train, as the
// evaluation's own rules say.
Plan evaluation_plan_of(const Job& job, const Step& training, const Profile& profile);
// The job's rules with every part resolved as in that plan.
LayoutRules resolved_rules(const Job& job, const Step& step, const Profile& profile);
// The same for the job's evaluation.
LayoutRules resolved_evaluation_rules(const Job& job, const Profile& profile);

}  // namespace motley::app
