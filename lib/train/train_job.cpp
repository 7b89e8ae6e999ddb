// SPDX-License-Identifier: Apache-2.0
#include "train/train_job.h"

#include <fmt/format.h>
#include <motley/error.h>
#include <motley/predictor.h>
#include <motley/trainer.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "balance/balance_within.h"
#include "base/at.h"
#include "base/clock.h"
#include "base/core_use.h"
#include "base/files.h"
#include "base/units.h"
#include "graph/training_ranges.h"
#include "mesh/control.h"
#include "plan/plan_data.h"
#include "run/agreed.h"
#include "run/chrome_trace.h"
#include "run/start.h"
#include "run/timeline_file.h"
#include "run/trace_summary.h"
#include "train/after_evaluation.h"
#include "train/batch_reader.h"
#include "train/course.h"
#include "train/dump.h"
#include "train/evaluation_line.h"
#include "train/gains.h"
#include "train/keep.h"
#include "train/read_ahead.h"
#include "train/run_checkpoints.h"
#include "train/same_network.h"
#include "weights/checkpoint.h"

namespace motley {

namespace {

std::string accuracy_text(double accuracy) {
  return fmt::format("accuracy {:.2f} %", 100 * accuracy);
}

std::optional<double> median_if_any(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  return quartiles(std::move(values)).median;
}

constexpr int kMostTimed = 20000;  // steps whose seconds are kept: 40 bytes each

// Number of steps that are not timed: caches, clocks and connections settle in the first fifth, at most ten steps.
std::size_t warm_up(std::size_t steps) {
  return steps < 2 ? 0 : std::clamp<std::size_t>(steps / 5, 1, 10);
}

// Whether the plan counts on memory that the ranks cannot map.
bool needs_messages(const std::vector<int>& planned, const std::vector<int>& found) {
  for (std::size_t r = 0; r < planned.size(); r++)
    for (std::size_t q = 0; q < r; q++)
      if (planned[r] == planned[q] && found[r] != found[q]) return true;
  return false;
}

}  // namespace

std::string renamed_classes(const std::vector<std::string>& of_weights, const std::vector<std::string>& of_data) {
  if (of_weights.empty() || of_data.empty() || of_weights == of_data) return "";
  const auto name = [](const std::vector<std::string>& names, std::size_t k) {
    return k < names.size() ? "\"" + names[k] + "\"" : "no class";
  };
  std::size_t k = 0;
  while (name(of_weights, k) == name(of_data, k)) k++;
  return fmt::format("the weights were trained with other classes: number {} is {} there and {} in the data", k,
                     name(of_weights, k), name(of_data, k));
}

namespace {

class TrainingRun {
 public:
  TrainingRun(Runtime& rt, const TrainPlanInput& input)
      : rt_(rt),
        in_(input),
        plan_(*input.plan),
        dump_(input.dump),
        trainer_(rt, plan_, {.seed = input.seed}),
        checkpoints_(
            rt, trainer_, in_.run_directory, in_.checkpoint, [this](Index step) { return position_after(step); }, in_.warn),
        after_(rt, trainer_, checkpoints_, plan_.step().scalars(), in_.watch, in_.say) {
    const Passes& passes = plan_.data().passes;
    const int image = passes.find(in_.names.image);
    if (image < 0) throw UserError("the step has no input \"" + in_.names.image + "\" for the images");
    batch_ = at(passes.tensors, image).shape[0].size * passes.accumulate;
    order_.emplace(in_.data.train->samples(), batch_, in_.seed);
    if (in_.epochs < 1 && in_.max_steps < 1) throw UserError("nothing to train: set epochs or max_steps to at least 1");
    if (after_.any() && !evaluates()) throw UserError("nothing is evaluated that could be watched: the data has no test part");
    total_ = whole_course(extent()).end;
    out_.classes = in_.data.train->class_names();
    trainer_.state().set_classes(out_.classes);
    out_.predicted_step_seconds = plan_.data().step_seconds;
    const auto memory = control::all_of(rt.transport(), trainer_.executor().memory_bytes());
    for (int r = 0; r < rt.ranks(); r++) {
      const PredictedRank& predicted = at(plan_.data().predicted, r);
      RankFigures& figures = out_.ranks.emplace_back();
      if (out_.predicted_step_seconds) figures.predicted_step_seconds = predicted.seconds;
      figures.bytes_predicted = predicted.bytes;
      out_.bytes_predicted = out_.bytes_predicted.value_or(0) + predicted.bytes;
      figures.memory_bytes = at(memory, r);
      if (!in_.facts.empty()) figures.machine = at(in_.facts, r);
    }
    timed_.resize(static_cast<std::size_t>(rt.ranks()));
  }

  TrainSummary run() {
    try {
      if (!in_.resume.empty())
        resume();
      else if (!in_.initial.empty())
        load_weights(rt_, trainer_.state(), in_.initial, in_.fresh);
      if (over_) return out_;
      prepare();
      loop();
      finish();
    } catch (const Error& e) {
      const bool by_all = dynamic_cast<const AgreedError*>(&e) != nullptr;
      if (trainer_.refused() || unwritten_ || by_all) keep_trained(dynamic_cast<const LossNotFinite*>(&e) == nullptr);
      report_failure(e);
      throw;
    }
    if (out_.status == "stopped") throw Stopped("stopped on request after step " + std::to_string(out_.steps));
    return out_;
  }

 private:
  // Whether step s is the last one of an epoch, and the epoch's number is a multiple of `every`; 0: never.
  bool ends_epoch(Index s, Index every) const {
    const Index per_epoch = order_->steps_per_epoch();
    return every > 0 && (s + 1) % per_epoch == 0 && (s + 1) / per_epoch % every == 0;
  }
  Extent extent() const { return {in_.data.train->samples(), batch_, in_.epochs, in_.max_steps}; }
  bool evaluates() const { return in_.data.test && in_.evaluation != nullptr; }

  void resume() {
    rt_.phase("resuming");
    const DataPosition from = trainer_.load(in_.resume);
    trainer_.set_learning_rate({});  // the job says how it is trained
    after_.resumed(in_.run_directory);
    out_.steps = trainer_.steps();
    const Course course = course_from(in_.resume.string(), from, out_.steps, extent());
    first_ = course.first;
    total_ = course.end;
    if (in_.done_before && (total_ == first_ || ended_early(*in_.done_before))) {
      out_ = *in_.done_before;
      const std::string early = "it ended early; a larger train.stop_after_evaluations_without_gain lets it go on";
      if (rt_.rank() == 0 && in_.say)
        in_.say(
            fmt::format("the run is complete: {}, and nothing was changed", total_ == first_ ? "nothing is left to train" : early));
      over_ = true;
      return;
    }
    if (rt_.rank() != 0 || !in_.say) return;
    const Index samples = in_.data.train->samples();
    const Manifest was = Checkpoint(in_.resume).manifest();
    if (!is_weights_alone(was))
      for (const std::string& note :
           frozen_notes(resumed_entries(in_.resume.string(), was, trainer_.state().entries(), plan_.data().passes.optimizer.kind)))
        in_.say("note: " + note);
    if (const std::string note = rate_note(was); !note.empty()) in_.say(note);
    if (const std::uint64_t seed = was.seed; out_.steps > 0 && seed != in_.seed)
      in_.say(fmt::format(
          "note: the checkpoint was saved with the seed {}, this job has {}: dropout, the order of samples and a validation part "
          "are not those of its run",
          seed, in_.seed));
    if (const std::string text = renamed_classes(was.classes, out_.classes); !text.empty()) in_.say("note: " + text);
    if (from.batch_size > 0 && (from.batch_size != batch_ || from.samples != samples))
      in_.say("note: the checkpoint was saved with batches of " + std::to_string(from.batch_size) + " of " +
              std::to_string(from.samples) + " samples, this job has batches of " + std::to_string(batch_) + " of " +
              std::to_string(samples));
  }

  // Whether the run of this summary ended at the checkpoint, and would end there now.
  bool ended_early(const TrainSummary& was) const {
    return was.stopped_early && was.steps == out_.steps && was.best && in_.watch.stop_after > 0 &&
           was.best->without_gain >= in_.watch.stop_after;
  }

  // Where the learning rate jumps; empty: it does not.
  std::string rate_note(const Manifest& was) const {
    if (was.step < 1 || !was.learning_rate) return "";
    const UpdateScalars& scalars = plan_.step().scalars();
    const RunMemory& memory = checkpoints_.memory();
    if (has_just_fallen(memory, was.step)) return "";
    const double rate = scalars.schedule.at(scalars.learning_rate, was.step, memory.scale), before = *was.learning_rate;
    if (std::abs(rate - before) <= 1e-6 * std::max(rate, before)) return "";
    return fmt::format("note: step {} had the learning rate {:.3g}, in this job it has {:.3g}{}", was.step, before, rate,
                       ends(scalars.schedule) ? fmt::format(" (the schedule ends at step {})", scalars.schedule.steps) : "");
  }

  DataPosition position_after(Index step) const {
    const Index next = first_ + step - first_step_, per_epoch = order_->steps_per_epoch();
    return {next / per_epoch, next % per_epoch, batch_, in_.data.train->samples()};
  }

  bool is_own(const std::filesystem::path& checkpoint) const {
    return plain_path(checkpoint).parent_path() == plain_path((in_.run_directory / kCheckpoints).path());
  }

  // After the first step, or if no step is left: removes what an earlier course of the run has left. Rank 0.
  void begin_for_good() {
    if (std::exchange(begun_for_good_, true) || rt_.rank() != 0) return;
    if (in_.began) in_.began(in_.resume.empty() ? std::vector<std::string>{} : checkpoints_.newer(first_step_));
    if (!in_.resume.empty()) checkpoints_.keep_newest(first_step_);
  }

  void prepare() {
    first_step_ = out_.steps_before = out_.steps;
    if (evaluates()) {
      require_whole_batches(in_.evaluation->data().passes, in_.evaluate.image, in_.data.test->samples());
      require_memory();
    }
    on_rank_0(rt_.transport(), [&] {
      write_text(in_.run_directory / "plan.json", in_.plan_file.empty() ? plan_.json() : in_.plan_file);
      metrics_.emplace(in_.run_directory / "metrics.jsonl", first_step_, in_.log);
      out_.train_loss = metrics_->loss_of(first_step_);  // that of a run with nothing left to train
    });
    if (in_.say && rt_.rank() == 0 && needs_messages(plan_.data().hosts, rt_.transport().hosts()))
      in_.say(
          "note: ranks of one host cannot map each other's memory (different PID namespaces, or memfd is not permitted): all "
          "exchanges are sent as messages");
    dump_weights("weights_before");
  }

  // Checks that the evaluation's memory fits beside training's, before the first step.
  void require_memory() {
    const Predictor predictor(rt_, *in_.evaluation, trainer_.state());
    const Device& device = plan_.mesh().device(rt_.rank());
    const Index training = trainer_.executor().memory_bytes(), all = training + predictor.memory_bytes();
    // In f64 every rank computes on its CPU, whose memory is not the device's.
    if (plan_.data().dtype != DType::f64 && device.memory_bytes > 0 && all > device.memory_bytes)
      throw no_room_for_both(plan_.mesh(), rt_.rank(), training, all - training);
  }

  void loop() {
    const double start = seconds_now();
    out_.started = utc_now();
    const CheckpointOptions& when = in_.checkpoint;
    checkpoints_.begin_at(first_step_, in_.resume.empty() || is_own(in_.resume));
    catch_up();
    ahead_.emplace(spare_cores(), feeds_of(first_));
    for (Index s = first_; s < total_ && !stop_ && !after_.ends(); s++) {
      if (s - first_ == static_cast<Index>(warm_up(static_cast<std::size_t>(total_ - first_)))) cores_.emplace(allowed_cores());
      if (rt_.rank() == 0 && checkpoints_.is_time_over()) trainer_.ask_to_save();
      const double begin = seconds_now();
      const Index epoch = s / order_->steps_per_epoch() + 1;
      const ReadAhead::Feeds feeds = ahead_->next(s + 1 < total_ ? feeds_of(s + 1) : ReadAhead::Feeds{});
      const StepReport report = trainer_.step_named(feeds);
      stop_ = report.stop;
      out_.steps = report.step;
      out_.train_loss = report.loss;
      begin_for_good();
      after_.keep_best();  // of the checkpoint that is continued
      note(report.before);
      StepFacts facts{.samples_per_second = static_cast<double>(batch_) / (seconds_now() - begin)};
      const auto write_line = [&] {
        out_.seconds = seconds_now() - start;
        if (rt_.rank() == 0) write_step(report, epoch, facts);
      };
      if (stop_ || is_last(report.step)) checkpoints_.training_ends();
      const bool due =
          report.save || (when.every_steps > 0 && report.step % when.every_steps == 0) || ends_epoch(s, when.every_epochs);
      if (report.saved) checkpoints_.finish();
      if (due && !stop_) checkpoints_.begin(out_.steps);
      if (!ends_epoch(s, in_.evaluate_every_epochs) || stop_) {
        write_line();
        continue;
      }
      const bool saving = checkpoints_.is_begun();
      if (saving) {  // an evaluation may take long: what is lost in it is made up for from this checkpoint (catch_up)
        write_line();
        checkpoints_.finish();
      }
      try {
        stop_ = !evaluated_now();
      } catch (const AgreedError&) {
        if (!saving) write_line();
        throw;
      }
      if (!stop_) {
        facts.test_accuracy = out_.test_accuracy;
        facts.test_loss = out_.test_loss;
      }
      if (!saving)
        write_line();
      else if (rt_.rank() == 0)
        say_test(epoch, facts);
      if (stop_) continue;
      after_.add(out_.steps, facts);
      after_.keep_best();
    }
    if (after_.ends() && !stop_ && !is_last(out_.steps)) {
      out_.stopped_early = true;
      if (rt_.rank() == 0 && in_.say) in_.say(fmt::format("training ends after step {}: {}", out_.steps, after_.why_it_ends()));
    }
    const Verdict written =
        agree(rt_.transport(), write_error_ ? static_cast<int>(write_error_->code()) : 0, write_error_ ? write_error_->what() : "");
    if (written.status != 0) {
      unwritten_ = true;
      throw AgreedError(written);
    }
    if (stop_) out_.status = "stopped";
    note(trainer_.figures());
    share_disturbed();
  }

  // Called in the order of the steps.
  ReadAhead::Feeds feeds_of(Index s) {
    const Index epoch = s / order_->steps_per_epoch();
    std::vector<Index> which = order_->batch_of(s);
    if (!in_.dump.empty()) seen_.insert(seen_.end(), which.begin(), which.end());
    const Batch b = batch_of(train_data(epoch), std::move(which), s, epoch + 1);
    return ReadAhead::Feeds{feeds_from(b, in_.names, plan_.data().passes)};
  }

  const std::shared_ptr<const Dataset>& train_data(Index epoch) {
    if (!train_data_ || epoch != data_epoch_) train_data_ = in_.in_epoch ? in_.in_epoch(epoch) : in_.data.train;
    data_epoch_ = epoch;
    return train_data_;
  }

  // Shares how much of the timed steps' time other processes used the ranks' cores. Collective.
  void share_disturbed() {
    const double unknown = -1, mine = cores_ ? cores_->others_share().value_or(unknown) : unknown;
    const auto all = control::all_of(rt_.transport(), mine);
    for (std::size_t r = 0; r < all.size(); r++)
      if (all[r] >= 0) out_.ranks[r].disturbed = all[r];
  }

  void note(const StepFigures& figures) {
    if (figures.step == noted_) return;
    noted_ = figures.step;
    out_.bytes_counted = figures.bytes_received;
    for (std::size_t r = 0; r < timed_.size(); r++) {
      if (timed_[r].size() == kMostTimed) timed_[r].erase(timed_[r].begin(), timed_[r].begin() + kMostTimed / 2);
      timed_[r].push_back(figures.ranks[r]);
      out_.ranks[r].bytes_counted = figures.ranks[r].bytes_received;
    }
  }

  void write_step(const StepReport& report, Index epoch, const StepFacts& facts) {
    say_test(epoch, facts);
    const bool is_tested = ends_epoch(first_ + report.step - first_step_ - 1, in_.evaluate_every_epochs);
    if (stop_ || is_tested || is_last(report.step)) tested_ = test_text(facts);  // not that of an earlier step
    last_ = {report.line(),
             fmt::format("  {:.1f} samples/s  learning rate {:.3g}", facts.samples_per_second, report.learning_rate)};
    if (in_.progress) in_.progress(last_.first + tested_ + last_.second);
    write_metrics([&] { metrics_->add(report, epoch, facts); });
  }
  bool is_last(Index step) const { return step - first_step_ == total_ - first_; }

  // "  test accuracy 79.80 %", without classes the loss.
  static std::string test_text(const StepFacts& facts) {
    if (!facts.test_loss) return "";
    return "  test " + (facts.test_accuracy ? accuracy_text(*facts.test_accuracy) : "loss " + loss_text(*facts.test_loss));
  }
  void say_test(Index epoch, const StepFacts& facts) {
    if (!facts.test_loss) return;
    tested_ = test_text(facts);
    const std::string accuracy = facts.test_accuracy ? accuracy_text(*facts.test_accuracy) + ", " : "";
    if (in_.say) in_.say(fmt::format("epoch {}: test {}loss {}", epoch, accuracy, loss_text(*facts.test_loss)));
  }
  StepFacts tested() const { return {.test_accuracy = out_.test_accuracy, .test_loss = out_.test_loss}; }

  void write_metrics(const std::function<void()>& write) {
    if (write_error_) return;
    try {
      write();
    } catch (const Error& e) {
      write_error_ = e;
      trainer_.ask_to_stop();
    }
  }

  void time_steps() {
    const auto skip = static_cast<std::ptrdiff_t>(warm_up(timed_.front().size()));
    for (std::size_t r = 0; r < timed_.size(); r++) {
      std::vector<double> all, busy, waiting, feed;
      for (auto s = timed_[r].begin() + skip; s != timed_[r].end(); ++s) {
        all.push_back(s->seconds);
        busy.push_back(s->busy_seconds);
        waiting.push_back(s->waiting_seconds);
        feed.push_back(s->feed_seconds);
      }
      out_.ranks[r].measured_step_seconds = median_if_any(all);
      if (!all.empty()) out_.measured_step_seconds = std::max(out_.measured_step_seconds.value_or(0), *median_if_any(all));
      out_.ranks[r].busy_seconds = median_if_any(busy);
      out_.ranks[r].waiting_seconds = median_if_any(waiting);
      out_.ranks[r].feed_seconds = median_if_any(feed);
    }
  }

  void finish() {
    checkpoints_.training_ends();
    const bool stepped = out_.steps > first_step_;
    if (!stepped && rt_.rank() == 0 && in_.say && out_.status == "done" && !out_.stopped_early)
      in_.say("nothing is left to train after step " + std::to_string(out_.steps) + ": its weights are saved and evaluated");
    begin_for_good();
    time_steps();
    if (stepped) trainer_.compare_copies();
    if (out_.status == "done" && (in_.checkpoint.any() || in_.watch.keep_best)) checkpoints_.begin(out_.steps);
    checkpoints_.finish();
    std::optional<Error> lost;  // error of the checkpoint from which a stopped run would continue
    if (out_.status == "stopped" && !checkpoints_.is_saved(out_.steps)) try {
        checkpoints_.save(out_.steps);
      } catch (const Error& e) {
        if (e.code() != Exit::io) throw;
        lost = e;
      }
    if (out_.status == "stopped" && evaluated_ != out_.steps)
      out_.test_accuracy = out_.test_loss = std::nullopt;                   // they belong to other weights
    save_weights(rt_, trainer_.state(), in_.run_directory / kWeightsFile);  // first: nothing after it may lose the weights
    if (lost) throw Error(*lost);
    if (checkpoints_.lacks(out_.steps)) warn(fmt::format("the weights of step {} are kept in {} only", out_.steps, kWeightsFile));
    const bool evaluated = evaluated_ == out_.steps;
    if (out_.status == "done" && !evaluated_now()) {
      out_.status = "stopped";
      out_.test_accuracy = out_.test_loss = std::nullopt;
      if (!checkpoints_.is_saved(out_.steps)) checkpoints_.save(out_.steps);
    } else if (stepped && !evaluated && evaluated_ == out_.steps && rt_.rank() == 0 && in_.progress) {
      in_.progress(last_.first + test_text(tested()) + last_.second);
    }
    if (out_.status == "done") after_.add(out_.steps, tested(), AfterEvaluation::When::at_end);
    after_.keep_best();
    checkpoints_.finish();
    out_.best = after_.best();
    dump_weights("weights_after");
    if (stepped) keep_trace();
    out_.checkpoints_failed = checkpoints_.failed();
    on_rank_0(rt_.transport(), [&] {
      if (write_error_) throw Error(*write_error_);
      metrics_->close();
      if (!in_.dump.empty()) {
        const Index steps = out_.steps - first_step_;
        seen_.resize(static_cast<std::size_t>(steps * batch_));  // without the batch that a stopped run has read ahead
        dump_.integers("batches.npy", "batches", {{"step", steps}, {"batch", batch_}}, seen_);
        dump_.finish();
      }
      write_run_json(in_.run_directory, out_);
    });
  }

  // The evaluation of the epoch that ends at the checkpoint, where the run was stopped in it, or the checkpoint was written before
  // it. Collective.
  void catch_up() {
    if (first_ == 0 || !ends_epoch(first_ - 1, in_.evaluate_every_epochs)) return;
    const bool lacks = rt_.rank() == 0 && metrics_->lacks_test(first_step_);
    if (agree(rt_.transport(), lacks ? 1 : 0).status == 0 && !after_.lacks(first_step_)) return;
    stop_ = !evaluated_now();
    if (stop_) return;
    if (lacks) say_test(first_ / order_->steps_per_epoch(), tested());
    after_.add(first_step_, tested());
  }

  // False: it was stopped on request. Collective.
  bool evaluated_now() {
    try {
      evaluate_now();
    } catch (const Stopped&) {
      return false;
    }
    if (rt_.rank() == 0 && metrics_->lacks_test(out_.steps) && evaluated_ == out_.steps)
      write_metrics([&] { metrics_->add_test(tested()); });
    return true;
  }

  // Evaluates the current parameters; at most once per step. Collective.
  void evaluate_now() {
    if (!evaluates() || evaluated_ == out_.steps) return;
    note(trainer_.figures());  // so that no message of the step is in flight
    if (!predictor_) predictor_.emplace(rt_, *in_.evaluation, trainer_.state());
    EvaluateOptions options = in_.evaluate;
    const Index samples = in_.data.test->samples();
    if (!evaluation_seconds_) evaluation_seconds_ = predicted_seconds(*in_.evaluation, options.image, samples);
    options.progress = evaluation_line(samples, evaluation_seconds_, in_.evaluating);
    const double start = seconds_now();
    const Evaluation test = evaluate(rt_, *predictor_, in_.data.test, options);
    evaluation_seconds_ = seconds_now() - start;
    evaluated_ = out_.steps;
    if (!std::isfinite(test.mean_loss))
      throw AgreedError(fmt::format("the test loss after step {} is not finite: weights or test samples are too large", out_.steps),
                        Exit::internal, -1);
    out_.test_accuracy = test.accuracy;
    out_.test_loss = test.mean_loss;
    out_.test_batch_seconds = test.batch_seconds;
    out_.predicted_test_batch_seconds = test.predicted_seconds;
  }

  // step_times.json says where predicted and measured times differ; timeline.json has the last steps, --trace more of them.
  // Collective.
  void keep_trace() {
    rt_.phase("keeping the trace");
    const RunTrace trace =
        gather_trace(plan_, in_.profile == nullptr ? Profile() : *in_.profile, trainer_.trace(), rt_.transport());
    on_rank_0(rt_.transport(), [&] {
      TraceSummary summary = summarise(trace, first_step_ + static_cast<Index>(warm_up(timed_.front().size())) + 1);
      for (std::size_t r = 0; r < summary.ranks.size(); r++) summary.ranks[r].disturbed = out_.ranks[r].disturbed;
      try {
        save(summary, in_.run_directory / kStepTimesFile);
        save_timeline(trace, in_.run_directory / kTimelineFile);
      } catch (const UserError& e) {  // what was trained counts
        warn(fmt::format("{} or {} is missing: {}", kStepTimesFile, kTimelineFile, e.what()));
      }
      if (in_.trace.empty()) return;
      write_file(in_.trace.string(), chrome_trace(trace));
      if (!in_.say) return;
      in_.say("trace of the last " + std::to_string(trace.steps.size()) + " steps: " + in_.trace.string());
      for (const std::string& note : trace.notes) in_.say("note: " + note);
    });
  }

  void dump_weights(const std::string& folder) {
    if (in_.dump.empty()) return;
    for (int p : plan_.data().passes.parameters) {
      const WholeTensor w =
          gather_parameter(plan_, trainer_.program(), trainer_.executor(), rt_.transport(), p, Part::value, Gathered::on_rank_0);
      on_rank_0(rt_.transport(), [&] { dump_.tensor(folder + "/" + w.name + ".npy", w, plan_.data().dtype); });
    }
  }

  // All ranks are here, and their State is that of the last step. Collective. resumable: the cause can be removed, and the run can
  // continue from here.
  void keep_trained(bool resumable) {
    if (out_.steps == first_step_) return;
    checkpoints_.training_ends();
    try {
      note(trainer_.figures());  // so that no message is in flight
      checkpoints_.finish();
      if (resumable) checkpoints_.write(out_.steps);
      save_weights(rt_, trainer_.state(), in_.run_directory / kWeightsFile);
    } catch (const Error& e) {  // on all ranks; the run ends with its original error
      warn(std::string("not all that was trained could be saved: ") + e.what());
    }
  }

  void warn(const std::string& text) const {
    if (rt_.rank() == 0 && in_.warn) in_.warn("warning: " + text);
  }

  // Rank 0 alone: the others may have ended. Its own error is reported, whatever happens to the file.
  void report_failure(const Error& e) {
    if (rt_.rank() != 0) return;
    note_failure(out_, e);
    out_.best = after_.best();
    out_.checkpoints_failed = checkpoints_.failed();
    try {
      const bool after_update = dynamic_cast<const AgreedError*>(&e) == nullptr;  // of a value: all ranks' figures are here
      if (out_.rank >= 0 && after_update) note(trainer_.figures());
      time_steps();
      write_run_json(in_.run_directory, out_);
    } catch (const Error& file) {
      if (in_.progress) in_.progress(std::string("run.json could not be written: ") + file.what());
    }
  }

  Runtime& rt_;
  const TrainPlanInput& in_;
  const Plan& plan_;
  Dump dump_;
  Trainer trainer_;
  RunCheckpoints checkpoints_;
  AfterEvaluation after_;
  Index batch_ = 0, first_ = 0, total_ = 0;  // steps in the data, counted over all epochs: the first, and one after the last
  Index first_step_ = 0;                     // steps done when this process began
  std::optional<Order> order_{};
  Index data_epoch_ = -1;  // epoch of train_data_
  std::shared_ptr<const Dataset> train_data_{};
  std::optional<MetricsFile> metrics_{};  // rank 0
  std::optional<Error> write_error_{};    // rank 0: sent to all ranks after the next step
  bool unwritten_ = false;                // all ranks have received it
  TrainSummary out_{};
  bool stop_ = false, over_ = false, begun_for_good_ = false;  // over: the run had been completed before
  std::optional<CoreUse> cores_{};                             // counts from the first timed step on
  std::optional<Predictor> predictor_{};
  Index evaluated_ = -1, noted_ = 0;            // step numbers: of the last evaluation; whose figures were noted last
  std::optional<double> evaluation_seconds_{};  // expected
  std::string tested_{};                        // part of the progress line
  std::pair<std::string, std::string> last_{};  // what is before and after it
  std::optional<ReadAhead> ahead_{};
  std::vector<Index> seen_{};                   // samples, step after step
  std::vector<std::vector<RankStep>> timed_{};  // per rank, per step, of the last kMostTimed / 2 steps at least
};

}  // namespace

void note_failure(TrainSummary& summary, const Error& e) {
  summary.status = e.code() == Exit::stopped ? "stopped" : "failed";
  summary.code = static_cast<int>(e.code());
  if (const auto* agreed = dynamic_cast<const AgreedError*>(&e)) summary.rank = agreed->rank();
  if (const auto* loss = dynamic_cast<const LossNotFinite*>(&e)) summary.rank = loss->rank();
  if (const auto* copies = dynamic_cast<const CopiesDiffer*>(&e)) {
    summary.rank = copies->rank();
    summary.copies_differ = copies->tensors();
  }
  summary.reason = e.what();
}

TrainSummary train_job(Runtime& rt, const TrainPlanInput& input) {
  check(input.plan != nullptr && input.data.train != nullptr, "a job has a plan and samples");
  return TrainingRun(rt, input).run();
}

}  // namespace motley
