// SPDX-License-Identifier: Apache-2.0
#include "config/check.h"

#include <motley/dims.h>
#include <motley/profile.h>

#include <algorithm>

#include "config/job.h"
#include "mesh/mesh_json.h"
#include "plan/plan_file.h"
#include "profiler/scaled.h"
#include "run/trace_summary.h"
#include "train/run_files.h"

namespace motley {

namespace {

struct FileKind {
  std::string name;
  std::vector<std::string> keys;  // that distinguish it from the other kinds
  // Of a valid file: further lines of the report.
  std::vector<std::string> (*load)(const std::string& path, const JobCheck& check_job, Data data);
};

std::vector<std::string> notes(std::vector<std::string> texts) {
  for (std::string& text : texts) text.insert(0, "note: ");
  return texts;
}

std::vector<std::string> profile_lines(const Profile& profile) {
  std::vector<std::string> lines;
  const std::size_t devices = profile.devices.size(), pairs = devices * (devices - std::min<std::size_t>(devices, 1));
  if (profile.kernels().empty())
    lines.emplace_back(
        "note: it has no kernels: a job that may measure does so first, for another one seconds are unknown and parts even");
  else
    for (std::size_t d = 0; d < devices; d++)
      if (std::none_of(profile.kernels().begin(), profile.kernels().end(),
                       [&](const KernelPoint& p) { return p.device == static_cast<int>(d); }))
        lines.push_back("note: it has no kernels of device " + std::to_string(d) + " (" + profile.devices[d].name +
                        "): measure with motley profile JOB");
  if (profile.links.size() < pairs)
    lines.push_back("note: it has " + std::to_string(profile.links.size()) + " of " + std::to_string(pairs) +
                    " links between its devices: for the others 5 us and 2e9 bytes per second are assumed");
  for (int d = 0; d < static_cast<int>(profile.devices.size()); d++)
    if (std::string line = error_line(profile, d); !line.empty()) lines.push_back(std::move(line));
  return lines;
}

const std::vector<FileKind>& file_kinds() {
  static const std::vector<std::string> no_lines;
  static const std::vector<FileKind> kinds{
      {"mesh", {"axes", "devices"}, [](const std::string& p, const JobCheck&, Data) { return notes(mesh_notes(Mesh::load(p))); }},
      {"model",
       {"inputs", "layers", "loss", "zoo"},
       [](const std::string& p, const JobCheck&, Data) { return notes(model_notes(ModelSpec::load(p))); }},
      {"layout",
       {"split", "tensors", "place"},
       [](const std::string& p, const JobCheck&, Data) { return LayoutRules::load(p), no_lines; }},
      {"job",
       {"mesh", "model", "layout", "profile", "data", "train"},
       [](const std::string& p, const JobCheck& check_job, Data data) {
         const Job job = load_job(p, {}, data);
         if (check_job) try {
             check_job(job);
           } catch (const UserError& e) {
             throw UserError(p + ": " + e.what(), e.code());
           }
         return job_lines(job);
       }},
      {"profile",
       {"devices", "kernels", "links"},
       [](const std::string& p, const JobCheck&, Data) { return profile_lines(Profile::load(p)); }},
      {"plan",
       {"decisions", "predicted", "cuts", "baselines"},
       [](const std::string& p, const JobCheck&, Data) { return check_plan_file(p), no_lines; }},
      {"run",
       {"status", "steps", "train_loss", "measured_step_seconds"},
       [](const std::string& p, const JobCheck&, Data) { return load_run_json(p), no_lines; }},
      {"trace",
       {"first_step", "last_step", "difference_seconds", "measured_step_seconds"},
       [](const std::string& p, const JobCheck&, Data) { return load_trace_summary(p), no_lines; }}};
  return kinds;
}

// The kind most of whose keys are in the file; a nearly matching key counts half, if it is one of the first.
const FileKind* kind_of(const std::vector<std::string>& keys) {
  constexpr std::size_t kNearlyMatching = 100;
  const FileKind* best = nullptr;
  int most = 0;
  for (const FileKind& kind : file_kinds()) {
    int score = 0;
    for (std::size_t i = 0; i < keys.size(); i++)
      score += Reader::is_one_of(keys[i], kind.keys)                                ? 2
               : i < kNearlyMatching && !probably_meant(keys[i], kind.keys).empty() ? 1
                                                                                    : 0;
    if (score > most) {
      most = score;
      best = &kind;
    }
  }
  return best;
}

// The file's lines in the report.
std::string check_file(const std::string& path, const JobCheck& check_job, Data data) {
  const std::string text = read_file(path);
  const auto keys = json_keys(text);  // the kind says what such a file may hold
  const FileKind* kind = keys ? kind_of(*keys) : nullptr;
  if (kind == nullptr) {
    Complaints complaints;
    const auto json = read_json(path, text, complaints, keys ? kByPeople : kByMotley);
    if (!json) complaints.raise();
    std::string known;
    for (const FileKind& k : file_kinds()) {
      known += (known.empty() ? "a " : ", a ") + k.name + " (";
      for (std::size_t i = 0; i < k.keys.size(); i++) known += (i == 0 ? "" : ", ") + k.keys[i];
      known += ")";
    }
    complaints.add(json->where, "", "the kind of this file is not known; expected " + known);
    complaints.raise();
  }
  std::string report = path + ": " + kind->name + ", nothing wrong\n";
  for (const std::string& line : kind->load(path, check_job, data)) report += line + "\n";
  return report;
}

}  // namespace

void require_job(const Json& json, Complaints& complaints) {
  std::vector<std::string> keys;
  if (const auto* members = std::get_if<Json::Object>(&json.value))
    for (const Json::Member& m : *members) keys.push_back(m.key);
  const FileKind* kind = kind_of(keys);
  if (kind == nullptr || kind->name == "job") return;
  const FileKind& job = *std::find_if(file_kinds().begin(), file_kinds().end(), [](const FileKind& k) { return k.name == "job"; });
  const std::string part = Reader::is_one_of(kind->name, job.keys) ? ", whose \"" + kind->name + "\" may name this file" : "";
  complaints.add(json.where, "",
                 "this is a " + kind->name + "; expected a job" + part + " (`motley check FILE`, without --set, takes any kind)");
  complaints.raise();
}

std::vector<std::string> job_lines(const Job& job) {
  std::vector<std::string> found = model_notes(job.model);
  for (std::string& note : mesh_notes(job.mesh)) found.push_back(std::move(note));
  if (job.train.evaluate_every_epochs > 0 && !is_evaluated(job.data))
    found.push_back("the data has no test samples: nothing is evaluated (train.evaluate_every_epochs)");
  if (job.report.samples)
    for (std::string& note : watch_notes(job.train, *job.report.samples)) found.push_back(std::move(note));
  std::vector<std::string> lines = job.report.lines;
  lines.insert(lines.end(), job.report.classes.begin(), job.report.classes.end());
  for (std::string& note : notes(std::move(found))) lines.push_back(std::move(note));
  return lines;
}

CheckResult check_files(const std::vector<std::string>& files, const JobCheck& check_job, Data data) {
  CheckResult result;
  for (const std::string& path : files) {
    try {
      result.report += check_file(path, check_job, data);
    } catch (const UserError& e) {
      result.complaints += std::string(e.what()) + "\n";
      result.code = std::max(result.code, e.code());
    }
  }
  return result;
}

}  // namespace motley
