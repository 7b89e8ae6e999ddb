// SPDX-License-Identifier: Apache-2.0
#include "app/resume.h"

#include <motley/error.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "app/run_directory.h"
#include "app/run_end.h"
#include "base/files.h"
#include "config/job.h"
#include "weights/checkpoint.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

bool holds_job(const fs::path& run) {
  std::error_code ignored;
  return fs::exists(run / kResolvedJob, ignored);
}

// The file of the run's job; empty: not known.
std::string job_file_of(const fs::path& run) {
  const OpenDirectory directory(run);
  if (directory.kind(kJobFile) != OpenDirectory::Kind::file) return "";
  const std::string text = InputFile(directory / kJobFile).text();
  return text.substr(0, text.find('\n'));
}

// Runs in runs/ that did not finish, the newest first (of one second: by path, the last first); only those of this job, unless
// `job` (its name) is empty. Runs of another file's job with the same name are named in `said`.
std::vector<fs::path> unfinished(const std::string& job, const std::string& file, std::vector<std::string>& said) {
  struct Run {
    std::string time{};
    int number = 1;  // among those of the same second
    fs::path path{};
  };
  constexpr std::size_t kTime = std::string_view("20261122T120000Z").size();
  std::vector<Run> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("runs", ignored)) {
    // NAME-TIME or NAME-TIME-NUMBER
    const std::string name = entry.path().filename().string();
    const std::size_t z = name.find("Z", name.size() < kTime + 6 ? 0 : name.size() - 6);
    if (z == std::string::npos || z < kTime || !holds_job(entry.path()) || finished(OpenDirectory(entry.path()))) continue;
    const std::size_t begin = z + 1 - kTime;
    if (begin < 1 || name[begin - 1] != '-' || (!job.empty() && name.substr(0, begin - 1) != job)) continue;
    if (const std::string its = job_file_of(entry.path()); !job.empty() && !its.empty() && its != fs::proximate(file).string()) {
      said.push_back(entry.path().string() + " is not resumed: it is a run of another job of this name, " + its);
      continue;
    }
    const std::string number = z + 2 < name.size() ? name.substr(z + 2) : "1";
    found.push_back({name.substr(begin, kTime), std::atoi(number.c_str()), entry.path()});
  }
  std::sort(found.begin(), found.end(),
            [](const Run& a, const Run& b) { return std::tie(a.time, a.number, a.path) > std::tie(b.time, b.number, b.path); });
  std::vector<fs::path> out;
  for (const Run& run : found) out.push_back(run.path);
  return out;
}

}  // namespace

std::optional<fs::path> last_good(const fs::path& run, std::vector<std::string>& said) {
  const std::vector<fs::path> all = checkpoints_of(run);
  std::vector<std::string> wrong;
  for (const fs::path& checkpoint : all) {
    try {
      const Checkpoint its(checkpoint);
      if (const Index step = its.manifest().step; step != motley::step_of(checkpoint))
        throw UserError(
            checkpoint.string() + ": its manifest is of step " + std::to_string(step) + ": a copy of another checkpoint",
            Exit::data);
      its.check_chunks();
      return checkpoint;
    } catch (const UserError& e) {
      wrong.emplace_back(e.what());
      said.push_back(wrong.back() + "; trying the checkpoint before it");
    }
  }
  if (all.empty()) return std::nullopt;
  std::string text = run.string() + ": none of its checkpoints can be read:";
  for (const std::string& why : wrong) text += "\n  " + why;
  throw UserError(text, Exit::data);
}

Resume choose_resume(const Options& options) {
  const std::string job = options.files.empty() ? "" : options.files.front();
  if (options.overwrite) throw UserError("--resume continues a run, --overwrite replaces it; give only one of them", Exit::usage);
  if (!options.weights.empty() && options.resume != "auto")
    throw UserError("--weights begins a run, --resume " + options.resume + " continues one; give only one of them", Exit::usage);
  Resume out;
  out.job = job;
  fs::path of;  // the run whose job is taken where none is given
  if (options.resume == "auto") {
    std::vector<fs::path> runs;
    if (!options.run_directory.empty()) {
      if (holds_job(options.run_directory)) runs.push_back(options.run_directory);
    } else {
      runs = unfinished(job.empty() ? "" : load_job(job, options.sets).name, job, out.said);
    }
    for (const fs::path& run : runs) {
      if (const auto checkpoint = last_good(run, out.said)) {
        of = out.run_directory = run;
        out.checkpoint = *checkpoint;
        break;
      }
      out.said.push_back(run.string() + " did not finish and has no checkpoint");
    }
    if (out.checkpoint.empty()) {
      if (!runs.empty() && !options.run_directory.empty()) {
        if (finished(OpenDirectory(runs.front())))
          throw UserError(
              runs.front().string() + " is complete and has no checkpoint to resume from; give --overwrite to start again",
              Exit::missing);
        out.begins_again = true;
      }
      if (job.empty()) throw UserError("no unfinished run in runs/ has a checkpoint; give JOB to start a run", Exit::missing);
      out.run_directory = options.run_directory;
      out.said.push_back("no run to resume: starting a new one");
      return out;
    }
  } else {
    const fs::path whole = plain_path(options.resume), path = fs::proximate(whole);
    std::error_code ignored;
    if (!fs::exists(path, ignored)) throw UserError(path.string() + ": no such run directory or checkpoint", Exit::missing);
    if (!fs::is_directory(path, ignored))
      throw UserError(
          path.string() + " is a file; --resume takes a run directory, a checkpoint, or auto (give JOB before --resume)",
          Exit::usage);
    if (fs::exists(path / kManifest, ignored)) {
      Checkpoint(path).check_chunks();
      out.checkpoint = path;
      const fs::path run = whole.parent_path().parent_path();
      if (motley::step_of(whole) && whole.parent_path().filename() == kCheckpoints && holds_job(run)) of = fs::proximate(run);
      out.run_directory = of;
      if (!options.run_directory.empty()) out.run_directory = options.run_directory;  // another course of that run
    } else {
      if (!holds_job(path))
        throw UserError(path.string() + ": neither a run directory (" + kResolvedJob + ") nor a checkpoint (" + kManifest + ")",
                        Exit::data);
      if (!options.run_directory.empty() && !fs::equivalent(options.run_directory, path, ignored))
        throw UserError("--resume " + options.resume +
                            " continues in that run's directory; leave --run-dir out, or resume from one of its checkpoints",
                        Exit::usage);
      const auto checkpoint = last_good(path, out.said);
      if (!checkpoint)
        throw UserError(path.string() + " has no checkpoint; one is saved when a run is stopped, or as train.checkpoint says",
                        Exit::missing);
      of = out.run_directory = path;
      out.checkpoint = *checkpoint;
    }
  }
  if (job.empty()) {
    if (of.empty())
      throw UserError("the job is not known: only a checkpoint inside its run directory names it; give JOB before --resume",
                      Exit::usage);
    out.job = (of / kResolvedJob).string();
  }
  out.said.push_back("resuming from " + out.checkpoint.string());
  return out;
}

}  // namespace motley::app
