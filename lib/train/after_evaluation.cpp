// SPDX-License-Identifier: Apache-2.0
#include "train/after_evaluation.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/at.h"
#include "mesh/control.h"
#include "train/gains.h"
#include "weights/checkpoint.h"

namespace motley {

AfterEvaluation::AfterEvaluation(Runtime& rt, Trainer& trainer, RunCheckpoints& checkpoints, const UpdateScalars& scalars,
                                 const WatchOptions& options, std::function<void(const std::string& line)> say)
    : rt_(rt),
      trainer_(trainer),
      checkpoints_(checkpoints),
      scalars_(scalars),
      options_(options),
      watch_(options.watched(scalars.schedule)),
      falls_(scalars.schedule.kind == RateSchedule::Kind::plateau),
      say_(std::move(say)) {
  checkpoints_.memory().gains.watch = watch_;
}

void AfterEvaluation::say(const std::string& line) const {
  if (rt_.rank() == 0 && say_) say_(line);
}

void AfterEvaluation::resumed(const OpenDirectory& run) {
  RunMemory& memory = checkpoints_.memory();
  if (options_.any() && memory.gains.evaluated >= 0 && memory.gains.watch != watch_)
    say(fmt::format("note: the checkpoint's run watched {}, this job watches {}: its best is not compared",
                    at(kWatchedNames, memory.gains.watch), at(kWatchedNames, watch_)));
  if (!options_.any() || memory.gains.watch != watch_) memory.gains = {.watch = watch_};
  if (!options_.keep_best || memory.gains.evaluated < 0) memory.kept = -1;
  const auto in = rt_.rank() == 0 ? run.find(kCheckpoints) : std::nullopt;
  const bool is_here = in && in->has(step_directory(memory.kept));
  if (control::all_of(rt_.transport(), is_here ? 1 : 0).front() == 0) memory.kept = -1;
  if (memory.kept >= 0) return;
  memory.kept_as_best = false;
  if (options_.keep_best && memory.gains.best)
    say(fmt::format(
        "note: the best {} so far, {:.4g} after step {}, has no checkpoint in this run's directory; a better one will be "
        "kept",
        at(kWatchedNames, watch_), *memory.gains.best, memory.gains.step));
}

bool AfterEvaluation::lacks(Index step) const {
  const RunMemory& memory = checkpoints_.memory();
  return (options_.any() && memory.gains.evaluated != step) || (falls_ && memory.plateau.evaluated != step);
}

void AfterEvaluation::add(Index step, const StepFacts& test, When when) {
  if (!any()) return;
  const auto value = [&](Watched which) {
    return (which == Watched::test_loss ? test.test_loss : test.test_accuracy).value_or(std::nan(""));
  };
  if (options_.any()) {
    const double watched = control::all_of(rt_.transport(), value(watch_)).front();
    if (motley::add(checkpoints_.memory().gains, step, watched) && options_.keep_best) best_due_ = step;
  }
  if (!falls_ || when == When::at_end) return;
  const auto next_rate = [&] { return scalars_.schedule.at(scalars_.learning_rate, step + 1, checkpoints_.memory().scale); };
  const double before = next_rate();
  if (!trainer_.evaluated(value(scalars_.schedule.watch)) || next_rate() == before) return;
  const auto without = scalars_.schedule.patience + 1;
  say(fmt::format("the learning rate falls from {:.3g} to {:.3g} after step {}: {} evaluation{} without a gain of {}", before,
                  next_rate(), step, without, without == 1 ? "" : "s", at(kWatchedNames, scalars_.schedule.watch)));
}

void AfterEvaluation::keep_best() {
  if (const std::optional<Index> step = std::exchange(best_due_, std::nullopt)) checkpoints_.keep_best(*step);
}

bool AfterEvaluation::ends() const {
  return options_.stop_after > 0 && gains().without_gain >= options_.stop_after;
}

std::string AfterEvaluation::why_it_ends() const {
  const Gains& its = gains();
  return fmt::format("{} has not gained in {} evaluations{}", at(kWatchedNames, watch_), its.without_gain,
                     its.best ? fmt::format(" since step {} ({:.4g})", its.step, *its.best) : "");
}

std::optional<BestFigures> AfterEvaluation::best() const {
  const Gains& its = gains();
  if (!options_.any() || !its.best) return std::nullopt;
  BestFigures out{.watch = watch_, .value = *its.best, .step = its.step, .without_gain = its.without_gain};
  if (checkpoints_.memory().kept >= 0) out.kept = checkpoints_.memory().kept;
  return out;
}

}  // namespace motley
