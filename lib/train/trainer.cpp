// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <motley/error.h>
#include <motley/trainer.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <optional>

#include "base/at.h"
#include "base/clock.h"
#include "base/units.h"
#include "graph/optimizers.h"
#include "mesh/control.h"
#include "plan/plan_data.h"
#include "run/agreed.h"
#include "run/copies.h"
#include "run/planned.h"
#include "run/step_trace.h"
#include "train/dump.h"
#include "train/gains.h"
#include "train/keep.h"
#include "train/plan_on_rank.h"
#include "train/saver.h"
#include "train/update.h"

namespace motley {

namespace {

// The position of a tensor in the order of a step: inputs and parameters first, then in the order in which passes write them.
int order_of(const Passes& passes, int tensor) {
  const auto writers = passes.writers_of(tensor);
  return writers.empty() ? -1 : writers.front();
}

// What a rank trains with besides its plan: "learning rate 0.1".
std::vector<std::string> settings_of(const UpdateScalars& scalars, const TrainerOptions& options) {
  const RateSchedule& s = scalars.schedule;
  const auto or_usual = [](const std::optional<double>& rate) { return rate ? fmt::format("{}", *rate) : "as usual"; };
  std::string groups;
  for (const ParameterGroup& g : scalars.groups)
    groups += fmt::format("{}\"{}\" times {}{}", groups.empty() ? "" : ", ", g.match, g.learning_rate_factor,
                          g.weight_decay ? fmt::format(" with weight_decay {}", *g.weight_decay) : "");
  return {
      fmt::format("learning rate {}", scalars.learning_rate),
      fmt::format("weight_decay {} of {}", scalars.weight_decay, scalars.decay == Decay::all ? "all" : "weights"),
      fmt::format("groups [{}]", groups),
      fmt::format("{} schedule (warm-up {}, {} steps, final {}, milestones [{}], factor {}, initial {}, rise {}, power {}, "
                  "watch {}, patience {}, threshold {}, minimum {})",
                  at(kRateKindNames, s.kind), s.warmup_steps, s.steps, or_usual(s.final), fmt::join(s.milestones, " "), s.factor,
                  or_usual(s.initial), s.rise, s.power, at(kWatchedNames, s.watch), s.patience, s.threshold, s.minimum),
      fmt::format("clip_norm {}", scalars.clip_norm),
      fmt::format("average {}", scalars.average),
      options.seed ? fmt::format("seed {}", *options.seed) : "no seed",
      fmt::format("compare_copies_every {}", options.compare_copies_every)};
}

}  // namespace

std::string StepReport::line() const {
  const std::string out = fmt::format("step {}  loss {}  {:.1f} ms", step, loss_text(loss), 1e3 * measured_seconds);
  return predicted_seconds ? out + fmt::format(" (predicted {:.1f} ms)", 1e3 * *predicted_seconds) : out;
}

struct Trainer::Impl {
  Runtime& rt;
  const PlanOnRank on_rank;
  const Plan& plan = on_rank.plan;
  const Program& program = on_rank.program;
  State state;
  StepTrace trace;
  Executor executor;
  Copies copies;
  Saver saver;
  const Index compare_every;
  std::optional<control::Gathering> sent_figures{};  // of the last step: in flight during the next one
  StepFigures known{};                               // of the last step for which all ranks have all figures
  const bool own_seed;                               // given by the caller: a checkpoint's does not replace it
  std::uint64_t seed;
  std::optional<double> rate{};  // of the last step
  RunMemory memory{};
  Index sent_step = 0;         // the step whose figures were sent last
  Index step = 0, finite = 0;  // finite: the last step before which parameters were found to be finite
  bool wants_stop = false, wants_save = false, stopped = false;
  bool refused = false;  // all ranks refused the last step before its update

  Impl(Runtime& runtime, const Plan& p, const TrainerOptions& options)
      : rt(runtime),
        on_rank((agreed(runtime.transport(), [&] { refuse_inference(p); }), runtime), p, Parameters::to_be_made),
        state(plan, program.rank, options.seed.value_or(1), on_rank.backend().device_memory()),
        trace(recorded_steps(program)),
        executor(program, on_rank.backend(), runtime.transport(), state),
        copies(plan, program, executor, runtime.transport()),
        saver(runtime, state),
        compare_every(options.compare_copies_every),
        own_seed(options.seed.has_value()),
        seed(options.seed.value_or(1)) {
    memory.plateau.watch = schedule().watch;
    executor.of_trainer_ = true;
    executor.record_into(&trace);
    same_settings(runtime.transport(), "trains", settings_of(p.step().scalars(), options));
  }

  // The other ranks' figures are in flight, unless an error ends the run.
  ~Impl() {
    try {
      if (std::uncaught_exceptions() == 0) static_cast<void>(figures());
    } catch (const Error&) {  // another rank's error, which ends the run
    }
  }

  const RateSchedule& schedule() const { return plan.step().scalars().schedule; }
  // Of the step that runs, as this rank computes it.
  double own_rate() const {
    return memory.learning_rate.value_or(schedule().at(plan.step().scalars().learning_rate, step, memory.scale));
  }

  const std::string& optimizer() const { return plan.data().passes.optimizer.kind; }

  static void refuse_inference(const Plan& plan) {
    if (!plan.data().passes.trains)
      throw UserError("a Trainer runs a step made by training(loss, optimizer), this one is inference; run it with a Predictor");
  }

  // What each rank sends to all before the update: the losses that it has, summed over its micro-batches, and its learning rate.
  struct Losses {
    std::int8_t stop = 0, save = 0;
    Saver::Stage saved{};
    std::int8_t unread = 0;  // whether its part of the batch could not be read
    std::int8_t rate_is_set = 0;
    double rate = 0;
    std::uint32_t has = 0;  // a bit for each loss
    double values[kMostLosses]{};
  };
  // If the feeds are wrong or cannot be read, zeros are fed: the other ranks are in the step, and learn of it before the update.
  void feed(const std::map<std::string, ReadBox>& feeds, Index micro_batch, std::optional<Error>& unread) {
    if (!unread) unread = error_of([&] { on_rank.feed(executor, feeds, micro_batch, seed, step); });
    if (unread) on_rank.feed(executor, on_rank.zeros(), micro_batch, seed, step);
  }
  // Adds those of a micro-batch. After run_forward().
  void add_losses(Losses& sum) const {
    const auto& losses = plan.data().passes.outputs;
    for (std::size_t i = 0; i < losses.size(); i++)
      for (const Shard& h : at(plan.data().tensors, losses[i]).owners)
        if (h.rank == rt.rank()) {
          sum.values[i] += executor.read(program.buffer_of(losses[i], Stored::As::owner, h.box), h.box).front();
          sum.has |= 1U << i;
        }
  }
  // A rate that is set must be equal everywhere; the schedule's is rank 0's, since cosines and powers of unlike hosts differ in
  // their last bits.
  void hear_rate(const std::vector<Losses>& ranks, StepReport& report) {
    const auto rate_of = [](const Losses& r) {
      return r.rate_is_set != 0 ? fmt::format("learning rate {}", r.rate) : "the schedule's learning rate";
    };
    for (std::size_t r = 1; r < ranks.size(); r++) {
      const Losses &its = ranks[r], &first = ranks.front();
      if (its.rate_is_set == first.rate_is_set && (its.rate_is_set == 0 || its.rate == first.rate)) continue;
      refused = true;
      throw AgreedError(fmt::format("rank {} trains step {} with {}, rank 0 with {}; call Trainer::set_learning_rate with the same "
                                    "value on every rank, between the same steps",
                                    r, step, rate_of(its), rate_of(first)),
                        Exit::config, static_cast<int>(r));
    }
    report.learning_rate = ranks.front().rate;
  }
  void hear(const std::vector<control::Gathering::Frame>& all, const std::optional<Error>& unread, StepReport& report) {
    std::vector<Losses> ranks;
    for (const control::Gathering::Frame& frame : all) std::memcpy(&ranks.emplace_back(), frame.bytes.data(), sizeof(Losses));
    if (std::any_of(ranks.begin(), ranks.end(), [](const Losses& r) { return r.unread != 0; })) {
      const Verdict why = agree(rt.transport(), unread ? static_cast<int>(unread->code()) : 0, unread ? unread->what() : "");
      refused = true;
      throw AgreedError(why);
    }
    hear_rate(ranks, report);
    for (std::size_t i = 0; i < plan.data().passes.outputs.size(); i++) {
      const auto its = std::find_if(ranks.begin(), ranks.end(), [&](const Losses& r) { return (r.has & 1U << i) != 0; });
      check(its != ranks.end(), "some rank has each loss");
      report.losses.push_back(its->values[i]);
      report.loss += its->values[i];
    }
    report.stop = std::any_of(ranks.begin(), ranks.end(), [](const Losses& r) { return r.stop != 0; });
    report.save = std::any_of(ranks.begin(), ranks.end(), [](const Losses& r) { return r.save != 0; });
    const auto all_have = [&](auto&& of) { return std::all_of(ranks.begin(), ranks.end(), of); };
    const bool failed = !all_have([](const Losses& r) { return r.saved != Saver::Stage::failed; });
    report.saved = failed || ranks.front().saved == Saver::Stage::complete;
    if (!failed && !saver.collected() && all_have([](const Losses& r) { return r.saved == Saver::Stage::written; }))
      saver.collect();
  }

  // Collective; throws on all ranks. The weights are still those before the step.
  [[noreturn]] void refuse_loss(const std::map<std::string, ReadBox>& feeds) {
    int first = -1;
    for (Index m = 0; m < program.micro_batches; m++) {
      on_rank.feed(executor, feeds, m, seed, step);
      const int its = executor.first_not_finite();
      if (first < 0) first = its;
    }
    const auto all = control::all_of(rt.transport(), first);
    refused = true;
    refuse_values("loss", all);
  }

  // Collective; throws on all ranks if an owner has a value that is not finite.
  void refuse_parameters() {
    const auto all = control::all_of(rt.transport(), executor.first_parameter_not_finite());
    if (std::any_of(all.begin(), all.end(), [](int tensor) { return tensor >= 0; }))
      refuse_values("parameters", all, " (finite at step " + std::to_string(finite) + ")");
    finite = step;
  }

  // all: by rank, the first tensor that is not finite there; -1: none.
  [[noreturn]] void refuse_values(const std::string& what, const std::vector<int>& all, const std::string& since = "") {
    const Passes& passes = plan.data().passes;
    int first = -1, rank = 0;
    for (std::size_t r = 0; r < all.size(); r++) {
      if (all[r] < 0 || (first >= 0 && order_of(passes, all[r]) >= order_of(passes, first))) continue;
      first = all[r];
      rank = static_cast<int>(r);
    }
    const std::string name = first < 0 ? "unknown" : "\"" + at(passes.tensors, first).name + "\" on rank " + std::to_string(rank);
    throw LossNotFinite(what + " not finite at step " + std::to_string(step) + since + "; first bad tensor: " + name +
                            "; try a smaller learning rate, or look for bad values in the data",
                        rank);
  }

  // Throws on all ranks if some copies differ.
  void refuse_copies(const std::vector<CopyDifference>& differences) const {
    if (differences.empty()) return;
    std::vector<std::string> names;
    for (const CopyDifference& d : differences)
      if (const std::string& name = at(plan.data().passes.tensors, d.tensor).name; names.empty() || names.back() != name)
        names.push_back(name);
    throw CopiesDiffer("copies differ at step " + std::to_string(step) + ": " + to_text(differences, plan) +
                           "; copies must be bitwise equal to their owner's, so memory, a link or a kernel is faulty: do not trust "
                           "results since the last comparison",
                       differences.front().reader, std::move(names));
  }

  void compare_copies() {
    rt.phase("comparing copies");
    refuse_parameters();
    executor.run_forward([this](int i) { copies.after_step(i); });
    refuse_copies(copies.compare());
  }

  // unread: what is wrong with the feeds of this rank, if that is known already.
  StepReport run(const std::map<std::string, ReadBox>& feeds, std::optional<Error> unread = {}) {
    refused = false;
    try {
      return step_of(feeds, std::move(unread));
    } catch (const Error&) {
      if (refused) {
        executor.drop_micro_batches();
        step--;
      }
      throw;
    }
  }

  StepReport step_of(const std::map<std::string, ReadBox>& feeds, std::optional<Error> unread) {
    if (stopped) {
      static_cast<void>(figures());  // no message stays in flight: all ranks leave in order
      throw Stopped("stopped on request after step " + std::to_string(step));
    }
    if (!unread) unread = error_of([&] { on_rank.check_feeds(feeds); });
    step++;
    rt.phase("step " + std::to_string(step));
    trace.begin(step);
    const double begin = seconds_now();
    double feeding = 0;
    Ran all;
    Losses sum;
    std::optional<control::Gathering> losses;  // in flight to all ranks while the last micro-batch's gradients are computed
    for (Index m = 0; m < program.micro_batches; m++) {
      const double start = seconds_now();
      feed(feeds, m, unread);
      const double fed = seconds_now();
      feeding += fed - start;
      trace.part(TracePart::feed, start, fed);
      const bool compares = m == 0 && compare_every > 0 && step % compare_every == 0;
      all += compares ? executor.run_forward([this](int i) { copies.after_step(i); }) : executor.run_forward();
      if (compares) {
        refuse_parameters();
        refuse_copies(copies.compare());
      }
      add_losses(sum);
      sum.stop = rt.stop_requested() || wants_stop;
      sum.save = wants_save;
      sum.saved = saver.stage();
      sum.unread = unread.has_value();
      sum.rate_is_set = memory.learning_rate.has_value();
      sum.rate = own_rate();
      if (m + 1 == program.micro_batches)
        losses.emplace(rt.transport(), control::kVerdict, std::as_bytes(std::span(&sum, 1)), sizeof sum);
      all += executor.run_backward();
    }
    const double gradients = seconds_now();
    StepReport report;
    hear(losses->finish("the loss"), unread, report);
    if (!std::isfinite(report.loss)) refuse_loss(feeds);
    const Update update = prepare_update(executor, plan.step(), rt.transport());
    if (update.gradient_norm && !std::isfinite(*update.gradient_norm)) {
      const auto all_bad = control::all_of(rt.transport(), executor.first_gradient_not_finite());
      refused = true;
      refuse_values("norm of the gradients", all_bad);
    }
    const double agreed = seconds_now();
    trace.part(TracePart::loss, gradients, agreed);
    all += update.ran;
    executor.write_update(report.learning_rate, update.factor, step);
    all += executor.run_update();
    const double end = seconds_now();
    const RankStep did{.seconds = end - begin - feeding,
                       .busy_seconds = all.busy_seconds,
                       .waiting_seconds = all.waiting_seconds + agreed - gradients - update.ran.seconds,
                       .feed_seconds = feeding,
                       .bytes_received = all.bytes_received};
    report.before = figures();
    sent_step = step;
    sent_figures.emplace(rt.transport(), control::kFigures, std::as_bytes(std::span(&did, 1)), sizeof did);
    rate = report.learning_rate;
    report.gradient_norm = update.gradient_norm;
    report.measured_seconds = did.seconds;
    if (report.save) wants_save = false;
    trace.part(TracePart::figures, end, seconds_now());
    trace.end();
    stopped = report.stop;
    report.step = step;
    report.predicted_seconds = plan.data().step_seconds;
    return report;
  }

  // What a checkpoint has kept, as far as it belongs to this schedule.
  void remember(const RunMemory& kept) {
    memory = kept;
    if (schedule().kind != RateSchedule::Kind::plateau) memory.scale = 1;
    if (schedule().kind != RateSchedule::Kind::plateau || memory.plateau.watch != schedule().watch)
      memory.plateau = {.watch = schedule().watch};
  }

  // Figures of the last step for which they were sent.
  const StepFigures& figures() {
    if (!sent_figures) return known;
    known = {.step = sent_step};
    for (const control::Gathering::Frame& frame : sent_figures->finish("the figures of step " + std::to_string(known.step))) {
      RankStep its;
      std::memcpy(&its, frame.bytes.data(), sizeof its);
      known.seconds = std::max(known.seconds, its.seconds);
      known.bytes_received += its.bytes_received;
      known.ranks.push_back(its);
    }
    sent_figures.reset();
    return known;
  }
};

Trainer::Trainer(Runtime& rt, const Plan& plan, const TrainerOptions& options) : impl_(new Impl(rt, plan, options)) {}
Trainer::~Trainer() = default;

StepReport Trainer::step(std::initializer_list<Feed> feeds) {
  return step(std::vector<Feed>(feeds));
}

StepReport Trainer::step(const std::vector<Feed>& feeds) {
  std::map<std::string, ReadBox> named;
  std::optional<Error> wrong = error_of([&] { named = impl_->on_rank.by_name(feeds); });
  return impl_->run(named, std::move(wrong));
}

StepReport Trainer::step_named(const std::map<std::string, ReadBox>& feeds) {
  return impl_->run(feeds);
}
void Trainer::compare_copies() {
  impl_->compare_copies();
}
const StepFigures& Trainer::figures() {
  return impl_->figures();
}
void Trainer::save(const std::filesystem::path& checkpoint, const DataPosition& position) {
  begin_save(checkpoint, position);
  finish_save();
}
void Trainer::begin_save(const std::filesystem::path& checkpoint, const DataPosition& position) {
  if (checkpoint.empty()) throw UserError("the name of a checkpoint's directory is empty", Exit::usage);
  const std::filesystem::path path = plain_path(checkpoint);
  std::optional<FileIn> place;
  on_rank_0(impl_->rt.transport(), [&] { make_folder(path.parent_path()); });
  agreed(impl_->rt.transport(), [&] { place.emplace(path, Links::refuse); });
  begin_save(*place, position);
}
void Trainer::begin_save(const FileIn& checkpoint, const DataPosition& position) {
  impl_->refuse_parameters();
  const StoredPosition data{position.epoch, position.batch, position.batch_size, position.samples};
  impl_->saver.begin(checkpoint, {.step = impl_->step,
                                  .seed = impl_->seed,
                                  .optimizer = impl_->optimizer(),
                                  .learning_rate = impl_->rate,
                                  .classes = impl_->state.classes(),
                                  .data = data,
                                  .memory = impl_->memory});
}
void Trainer::finish_save() {
  impl_->saver.finish();
}
DataPosition Trainer::load(const std::filesystem::path& checkpoint) {
  static_cast<void>(figures());
  finish_save();
  const Manifest from = load_checkpoint(impl_->rt, impl_->state, checkpoint, impl_->optimizer());
  impl_->step = impl_->finite = from.step;
  impl_->rate = from.learning_rate;
  impl_->remember(from.memory);
  impl_->known = {};
  impl_->stopped = impl_->wants_stop = false;
  if (!impl_->own_seed && from.step > 0) impl_->seed = from.seed;  // weights alone have none
  return {from.data.epoch, from.data.batch, from.data.batch_size, from.data.samples};
}
RunMemory& Trainer::memory() {
  return impl_->memory;
}
void Trainer::set_learning_rate(std::optional<double> rate) {
  if (rate) require_within("learning_rate", *rate, learning_rate_key().interval());
  impl_->memory.learning_rate = rate;
}
bool Trainer::evaluated(double value) {
  const RateSchedule& schedule = impl_->schedule();
  if (schedule.kind != RateSchedule::Kind::plateau)
    throw UserError(
        fmt::format("evaluated() is for the schedule plateau, this one is {}; leave the call out, or give "
                    "TrainingOptions::schedule the kind plateau",
                    at(kRateKindNames, schedule.kind)));
  return add(impl_->memory, schedule, impl_->step, control::all_of(impl_->rt.transport(), value).front());
}
Index Trainer::steps() const {
  return impl_->step;
}
bool Trainer::refused() const {
  return impl_->refused;
}
void Trainer::ask_to_save() {
  impl_->wants_save = true;
}
void Trainer::ask_to_stop() {
  impl_->wants_stop = true;
}
Executor& Trainer::executor() {
  return impl_->executor;
}
State& Trainer::state() {
  return impl_->state;
}
const Program& Trainer::program() const {
  return impl_->program;
}
const StepTrace& Trainer::trace() const {
  return impl_->trace;
}

}  // namespace motley
