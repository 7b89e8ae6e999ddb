// SPDX-License-Identifier: Apache-2.0
#include "train/run_checkpoints.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "run/agreed.h"
#include "weights/checkpoint.h"

namespace motley {

RunCheckpoints::RunCheckpoints(Runtime& rt, Trainer& trainer, const std::filesystem::path& run_directory,
                               const CheckpointOptions& options, std::function<DataPosition(Index step)> position,
                               std::function<void(const std::string& line)> warn)
    : rt_(rt),
      trainer_(trainer),
      run_directory_(run_directory),
      options_(options),
      position_(std::move(position)),
      warn_(std::move(warn)) {}

void RunCheckpoints::begin_at(Index step, bool saved) {
  if (saved) saved_ = step;
  saved_at_ = seconds_now();
}

bool RunCheckpoints::is_time_over() const {
  return options_.every_seconds > 0 && seconds_now() - saved_at_ >= options_.every_seconds;
}

std::vector<std::filesystem::path> RunCheckpoints::newer(Index step) const {
  std::vector<std::filesystem::path> out = checkpoints_of(run_directory_);
  std::erase_if(out, [&](const std::filesystem::path& one) { return *step_of(one) <= step; });
  return out;
}

// Also removes the remains of unfinished ones.
void RunCheckpoints::keep_newest(Index step) const {
  namespace fs = std::filesystem;
  Index keep = options_.keep;
  std::error_code ignored;
  std::vector<fs::path> left;
  for (fs::directory_iterator it(run_directory_ / kCheckpoints, ignored), end; !ignored && it != end; it.increment(ignored))
    if (const fs::path& path = it->path(); path.extension() == ".new" && step_of(path.stem())) left.push_back(path);
  for (const fs::path& checkpoint : checkpoints_of(run_directory_))
    if (*step_of(checkpoint) > step || keep-- <= 0) left.push_back(checkpoint);
  for (const fs::path& path : left) {
    fs::path unfinished = path;  // no longer a checkpoint, so that half of one is never taken for one
    if (step_of(path)) fs::rename(path, unfinished += ".new", ignored);
    fs::remove_all(ignored ? path : unfinished, ignored);
  }
}

void RunCheckpoints::begin(Index step) {
  if (std::exchange(tried_, step) == step) return;
  finish();
  if (!is_saved(step)) warned(step, [&] { start(step); });
  saved_at_ = seconds_now();
}

void RunCheckpoints::finish() {
  if (begun_ >= 0) warned(begun_, [&] { complete(); });
}

void RunCheckpoints::write(Index step) {
  if (is_saved(step) || std::exchange(tried_, step) == step) return;
  warned(step, [&] { save(step); });
}

void RunCheckpoints::save(Index step) {
  start(step);
  complete();
}

template <class Work>
void RunCheckpoints::warned(Index step, Work&& work) {
  try {
    work();
  } catch (const Error& e) {
    if (e.code() != Exit::io) throw;
    failed_++;
    lost_ = step;
    if (rt_.rank() == 0 && warn_)
      warn_(fmt::format("warning: no checkpoint at step {}{}: {}", step, ends_ ? "" : ", training goes on", e.what()));
  }
}

void RunCheckpoints::start(Index step) {
  trainer_.begin_save(run_directory_ / kCheckpoints / ("step-" + std::to_string(step)), position_(step));
  begun_ = step;
}

void RunCheckpoints::complete() {
  const Index step = std::exchange(begun_, -1);
  trainer_.finish_save();
  on_rank_0(rt_.transport(), [&] { keep_newest(step); });
  saved_ = step;
}

}  // namespace motley
