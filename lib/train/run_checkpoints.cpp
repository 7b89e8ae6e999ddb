// SPDX-License-Identifier: Apache-2.0
#include "train/run_checkpoints.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "run/agreed.h"
#include "weights/checkpoint.h"

namespace motley {

RunCheckpoints::RunCheckpoints(Runtime& rt, Trainer& trainer, const OpenDirectory& run, const CheckpointOptions& options,
                               std::function<DataPosition(Index step)> position, std::function<void(const std::string& line)> warn)
    : rt_(rt), trainer_(trainer), run_(run), options_(options), position_(std::move(position)), warn_(std::move(warn)) {}

void RunCheckpoints::begin_at(Index step, bool saved) {
  if (saved) saved_ = step;
  saved_at_ = seconds_now();
}

bool RunCheckpoints::is_time_over() const {
  return options_.every_seconds > 0 && seconds_now() - saved_at_ >= options_.every_seconds;
}

std::vector<std::string> RunCheckpoints::newer(Index step) const {
  std::vector<std::string> out = checkpoints_in(run_);
  std::erase_if(out, [&](const std::string& one) { return *step_of(one) <= step; });
  return out;
}

// Also removes the remains of unfinished ones.
void RunCheckpoints::keep_newest(Index step, Index also) const {
  const auto checkpoints = run_.find(kCheckpoints);
  if (!checkpoints) return;
  for (const std::string& name : checkpoints->names())
    if (const std::filesystem::path path = name; path.extension() == ".new" && step_of(path.stem()))
      if (is_own_checkpoint(*checkpoints / name, Whole::any)) checkpoints->remove_all(name);
  Index keep = options_.keep;
  for (const std::string& name : checkpoints_in(run_)) {
    if (!is_own_checkpoint(*checkpoints / name)) continue;
    const Index its = *step_of(name);
    if (its <= step && (its == memory().kept || (its != also && keep-- > 0))) continue;
    // No longer a checkpoint, so that half of one is never taken for one. What cannot be removed stays.
    const FileIn unfinished = *checkpoints / (name + ".new");
    if (checkpoints->try_rename(name, unfinished)) checkpoints->remove_all(unfinished.name);
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

void RunCheckpoints::keep_best(Index step) {
  finish();
  if (is_saved(step)) return set_best(step, false);
  if (trainer_.steps() != step || std::exchange(tried_, step) == step) return;
  // The checkpoint itself says that it is the best; this run does so once it is complete.
  const RunMemory before = memory();
  memory().kept = step;
  memory().kept_as_best = true;
  warned(step, [&] { start(step); });
  begun_as_best_ = begun_ == step;
  memory() = before;
}

void RunCheckpoints::set_best(Index step, bool only_as_best) {
  const Index before = std::exchange(memory().kept, step);
  const bool goes = std::exchange(memory().kept_as_best, only_as_best) && before != step;
  on_rank_0(rt_.transport(), [&] { keep_newest(step, goes ? before : -1); });
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
  std::optional<OpenDirectory> checkpoints;
  on_rank_0(rt_.transport(), [&] { static_cast<void>(run_.made(kCheckpoints)); });
  agreed(rt_.transport(), [&] {
    checkpoints = run_.find(kCheckpoints);
    if (!checkpoints)
      throw UserError(fmt::format("rank {} cannot find {}, which rank 0 created; use a directory that all hosts share", rt_.rank(),
                                  (run_ / kCheckpoints).path().string()),
                      Exit::io);
  });
  trainer_.begin_save(*checkpoints / step_directory(step), position_(step));
  begun_ = step;
}

void RunCheckpoints::complete() {
  const Index step = std::exchange(begun_, -1);
  const bool as_best = std::exchange(begun_as_best_, false);
  trainer_.finish_save();
  saved_ = step;
  if (as_best) return set_best(step, true);
  on_rank_0(rt_.transport(), [&] { keep_newest(step); });
}

}  // namespace motley
