// SPDX-License-Identifier: Apache-2.0
// What all ranks of a command do together.
#pragma once
#include <motley/plan.h>
#include <motley/runtime.h>

#include <filesystem>
#include <string>

#include "app/console.h"
#include "app/job_plan.h"
#include "base/open_directory.h"
#include "config/job.h"

namespace motley::app {

struct Task {
  const Options& options;
  const Job& job;
  const OpenDirectory& directory;  // of the run
  Console& console;
};

// Collective. plan and profile measure; rank 0 prints.
void plan_ranks(Runtime& rt, const Task& task);
void profile_ranks(Runtime& rt, const Task& task);
void train_ranks(Runtime& rt, const Task& task);
void verify_ranks(Runtime& rt, const Task& task);
// With the weights from a file.
void eval_ranks(Runtime& rt, const Task& task);
void predict_ranks(Runtime& rt, const Task& task);

// Without a job: a grid of convolution shapes on a mesh.
void profile_grid(Runtime& rt, const Mesh& mesh, const Options& options, Console& console);

// -o gets the model, or the predicted labels.
void svm_train_ranks(Runtime& rt, const Mesh& mesh, const Options& options, Console& console);
void svm_predict_ranks(Runtime& rt, const Mesh& mesh, const Options& options);

// Prints the plan of training as text or JSON, and writes both into the file of -o; notes go with the text, or to stderr.
void give_plan(const Job& job, const JobPlans& plans, const Profile& profile, const Options& options, Console& console,
               const std::vector<std::string>& notes = {});

}  // namespace motley::app
