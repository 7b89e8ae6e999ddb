// SPDX-License-Identifier: Apache-2.0
// A job file: mesh, model, layout, profile, data and training, joined and checked against each other.
#pragma once
#include <motley/mesh.h>
#include <motley/rules.h>

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/data_checks.h"
#include "config/model.h"
#include "config/train_options.h"
#include "plan/plan_data.h"

namespace motley {

enum class MeasureWhen : std::uint8_t { if_missing, always, never };
struct ProfileOptions {
  std::string path{};  // absolute; empty: the user's cache
  MeasureWhen measure = MeasureWhen::if_missing;
  bool given = false;  // the job has a "profile" key
};

struct Job {
  std::string name{};  // its "name", else the file's name without folder and ending
  Mesh mesh;
  bool open_axes = false;  // the mesh's axes are "auto": the planner arranges its devices, which are here along one axis
  AxesChoice axes{};       // what it chose, where it did
  ModelSpec model{};
  LayoutRules rules{};
  ProfileOptions profile{};
  DataOptions data{};
  TrainOptions train{};
  Json joined{};        // the whole tree: parts read in, --set applied, paths absolute; parse_job reads its text
  DataReport report{};  // on its data's files, if they were looked at
};

// Each reads what the one before it reads. needed: the data's files must be there, and their headers are read; with_weights: the
// files of train.initial must fit the network; decoded: everything in the data's files.
enum class Data : std::uint8_t { unread, needed, with_weights, decoded };
// sets: "train.batch=64", applied to the joined tree in turn. UserError with all complaints about the job, its parts and how they
// fit together, each at its place in its file: 78; if the only fault is missing files: 66.
Job load_job(const std::string& path, const std::vector<std::string>& sets = {}, Data data = Data::unread);
// Parses the joined tree that another process made. `name` is shown in complaints.
Job parse_job(const std::string& name, const std::string& text);

// The job on this mesh, in `joined` too.
Job with_mesh(const Job& job, const Mesh& mesh);

// What the network expects of samples: its inputs' dims after the batch, and the classes of its loss.
SampleKind samples_of(const ModelSpec& spec, const Model& model);

Json job_schema();

}  // namespace motley
