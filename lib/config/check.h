// SPDX-License-Identifier: Apache-2.0
// `motley check FILE...`: what kind each file is, and everything that is wrong with it.
#pragma once
#include <motley/error.h>

#include <functional>
#include <string>
#include <vector>

#include "config/job.h"

namespace motley {

struct CheckResult {
  std::string report{};      // a line per valid file, and its notes
  std::string complaints{};  // about the other files
  Exit code = Exit::ok;      // 78 when a file is wrong, else 69 when memory does not suffice, else 66 when one is missing, else 0
};
using JobCheck = std::function<void(const Job&)>;

// Checks meshes, models, layouts, jobs (with all their parts, compared with each other, and the files of their data), profiles,
// plans and runs. check_job: another check of each valid job. data: how much of the jobs' data is read. UserError.
CheckResult check_files(const std::vector<std::string>& files, const JobCheck& check_job = {}, Data data = Data::needed);

// What its data holds, and things that are valid but perhaps not meant.
std::vector<std::string> job_lines(const Job& job);

// Raises an error that names the kind if the file is of another kind.
void require_job(const Json& json, Complaints& complaints);

}  // namespace motley
