// SPDX-License-Identifier: Apache-2.0
#include "app/rank_verbs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/error.h>
#include <motley/measure_steps.h>
#include <motley/weights.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "app/answers.h"
#include "app/job_data.h"
#include "app/job_plan.h"
#include "app/predict_input.h"
#include "app/run_directory.h"
#include "app/run_end.h"
#include "balance/arrange.h"
#include "balance/timed_steps.h"
#include "base/at.h"
#include "base/clock.h"
#include "base/core_use.h"
#include "base/units.h"
#include "explain/explain.h"
#include "plan/check_rules.h"
#include "plan/rules_json.h"
#include "run/agreed.h"
#include "run/rank_facts.h"
#include "run/trace_summary.h"
#include "train/course.h"
#include "train/evaluation_line.h"
#include "train/keep.h"
#include "train/predict.h"
#include "train/train_job.h"
#include "train/verify.h"
#include "weights/checkpoint.h"

namespace motley::app {

namespace {

MeasureOptions measuring(const Task& task, Measure when) {
  return {.budget_seconds = task.options.budget_seconds,
          .when = when,
          .progress = [&console = task.console](const std::string& line) { console.progress(line); },
          .warn = [&console = task.console](const std::string& line) { console.say(LogLevel::warning, "note: " + line); },
          .evaluation = evaluation_beside(task.job)};
}

MeasureStepsOptions timing_steps(const Task& task) {
  return {.seconds = task.options.step_seconds,
          .evaluation = evaluation_beside(task.job),
          .progress = [&console = task.console](const std::string& line) { console.progress(line); },
          .warn = [&console = task.console](const std::string& line) { console.say(LogLevel::warning, "note: " + line); }};
}

Measure when_of(const Job& job) {
  switch (job.profile.measure) {
    case MeasureWhen::if_missing: return Measure::if_missing;
    case MeasureWhen::always: return Measure::always;
    case MeasureWhen::never: return Measure::never;
  }
  throw InternalError("an unknown way to measure");
}

// The plan that is not chosen now: of --plan, or of the run that is resumed on the same mesh by the same layout. Collective.
std::optional<GivenPlan> given_plan(Runtime& rt, const Task& task, const Step& step) {
  const std::string text = from_rank_0(rt.transport(), [&] {
    std::optional<GivenPlan> given;
    if (!task.options.plan.empty())
      given = read_plan_for(task.job, step, task.options.plan);
    else if (!task.options.from.empty())
      given = plan_of_run(task.job, step, task.options.from.parent_path().parent_path());
    return given ? to_text(Json(Json::Array{given->name, given->text})) : std::string();
  });
  if (text.empty()) return {};
  Complaints complaints;
  const auto words = std::get<Json::Array>(read_json("rank 0's plan", text, complaints, kByMotley)->value);
  return GivenPlan{std::get<std::string>(words.at(0).value), std::get<std::string>(words.at(1).value)};
}

// The plans of training and its evaluation, and the profile that they were chosen from (that is beside them, where they are given).
// Collective.
struct Planned {
  Profile profile{};
  JobPlans plans;
};
Planned planned_job(Runtime& rt, const Task& task, const Step& step) {
  const Job& job = task.job;
  const auto said = [&](const std::string& text) {
    if (rt.rank() == 0) task.console.say(LogLevel::info, "note: " + text);
  };
  rt.phase("planning");
  if (const std::optional<GivenPlan> given = given_plan(rt, task, step)) {
    said("the plan is that of " + given->name + ": nothing is measured");
    Profile profile = profile_beside(rt, job);
    return {std::move(profile), same_plans(rt, job, step, [&] { return plans_from(*given, job, step, said); })};
  }
  rt.phase("measuring");
  MeasureStepsOptions steps = timing_steps(task);
  if (!task.options.from.empty()) steps.seconds = 0;  // a run that is resumed on another mesh goes on at once
  Profile profile = profile_of(rt, job, step, measuring(task, when_of(job)), steps);
  task.console.progress_done();
  rt.phase("planning");
  JobPlans plans = same_plans(rt, job, step, [&] { return plans_of(job, step, profile); });
  return {std::move(profile), std::move(plans)};
}

std::string summary_of(const Profile& profile, const std::filesystem::path& file) {
  std::string text = fmt::format("profile     {}\n", file.empty() ? "not kept" : file.string());
  for (std::size_t d = 0; d < profile.devices.size(); d++) {
    const DeviceFacts& facts = profile.devices[d];
    std::size_t kernels = 0;
    for (const KernelPoint& point : profile.kernels()) kernels += static_cast<std::size_t>(point.device) == d ? 1 : 0;
    text += fmt::format("rank {:<7}{}: {}, {}, {} thread{}, {}; {} kernels\n", d, facts.name, facts.model, facts.isa, facts.threads,
                        facts.threads == 1 ? "" : "s", facts.library, kernels);
    if (facts.alone_over_shared < 1)
      text += fmt::format("            its kernels take {:.0f} % of these seconds when the other ranks of its host are idle\n",
                          100 * facts.alone_over_shared);
  }
  text += fmt::format("links       {}\n", profile.links.size());
  for (const std::string& note : profile.notes) text += "note        " + note + "\n";
  return text;
}

FeedNames names_of(const Model& model) {
  return {.image = model.inputs.front().name(), .label = model.label.name()};
}

EvaluateOptions evaluation_of(const ModelSpec& spec, const Model& model) {
  const LossSpec& loss = spec.loss;
  return {.image = names_of(model).image,
          .over = loss.over,
          .ignored = loss.ignore_index,
          .label_smoothing = loss.label_smoothing,
          .loss = loss.op == "mean_squared_error"     ? LossKind::mean_squared_error
                  : loss.op == "mean_absolute_error"  ? LossKind::mean_absolute_error
                  : loss.op == "huber"                ? LossKind::huber
                  : loss.op == "binary_cross_entropy" ? LossKind::binary_cross_entropy
                                                      : LossKind::softmax_cross_entropy,
          .delta = loss.delta};
}

// "[########            ]  40 %, 3 min left  LINE", estimated from the steps so far: a terminal cuts off the end of long lines.
class Bar {
 public:
  Bar(Index done, Index steps) : steps_(steps), before_(done), done_(done) {}
  std::string step(const std::string& text) {
    done_ = std::min(done_ + 1, steps_);
    return line(text);
  }
  std::string line(const std::string& text) const {
    constexpr Index kWidth = 20;
    std::string out(static_cast<std::size_t>(kWidth * done_ / steps_), '#');
    out.resize(kWidth, ' ');
    out = fmt::format("[{}] {:3} %", out, 100 * done_ / steps_);
    const double so_far = seconds_now() - start_;
    if (done_ > before_ && done_ < steps_ && so_far >= 1)
      out += fmt::format(", {} left",
                         seconds_text(so_far / static_cast<double>(done_ - before_) * static_cast<double>(steps_ - done_)));
    return out + "  " + text;
  }

 private:
  Index steps_, before_, done_;
  double start_ = seconds_now();
};

std::string time_or_unknown(const std::optional<double>& seconds) {
  return seconds ? seconds_text(*seconds) : "unknown";
}
std::string bytes_or_unknown(const std::optional<Index>& bytes) {
  return bytes ? bytes_text(static_cast<double>(*bytes)) : "unknown";
}

std::string summary_of(const TrainSummary& run, const Mesh& mesh, const std::filesystem::path& directory) {
  std::string text = fmt::format("run directory  {}\n", directory.string());
  text += run.steps_before == 0 ? fmt::format("steps          {} in {}\n", run.steps, time_or_unknown(run.seconds))
                                : fmt::format("steps          {}, {} of them now in {}\n", run.steps, run.steps - run.steps_before,
                                              time_or_unknown(run.seconds));
  if (run.stopped_early) text.insert(text.size() - 1, ", ended early");
  if (run.train_loss) text += "train loss     " + loss_text(*run.train_loss) + "\n";
  if (run.test_loss) {
    text += run.test_accuracy ? fmt::format("test accuracy  {:.2f} %", 100 * *run.test_accuracy)
                              : fmt::format("test loss      {:.4g}", *run.test_loss);
    text += fmt::format("; a batch {}, predicted {}\n", time_or_unknown(run.test_batch_seconds),
                        time_or_unknown(run.predicted_test_batch_seconds));
  }
  if (const auto& best = run.best) {
    text += fmt::format("best           {} {:.4g} after step {}", at(kWatchedNames, best->watch), best->value, best->step);
    if (best->kept)
      text += fmt::format("{} {}", best->kept == best->step ? ", kept in" : ", not kept; the best before it is in",
                          (directory / checkpoint_name(*best->kept)).string());
    text += "\n";
  }
  text += fmt::format("step           {}, predicted {}\n", time_or_unknown(run.measured_step_seconds),
                      time_or_unknown(run.predicted_step_seconds));
  text += fmt::format("bytes          {} per step, predicted {}\n", bytes_or_unknown(run.bytes_counted),
                      bytes_or_unknown(run.bytes_predicted));
  if (const auto disturbed = run.disturbed()) {
    text += fmt::format("disturbed      {:.1f} % of the time other processes had the cores of a rank\n", 100 * *disturbed);
    if (*disturbed > kDisturbed) text += "note: more than 5 %: other processes distort the measured seconds\n";
  }
  text += fmt::format("{:<6}{:<18}{:>12}{:>12}{:>12}{:>12}{:>14}{:>14}\n", "rank", "device", "feed", "busy", "waiting", "predicted",
                      "received", "memory");
  for (std::size_t r = 0; r < run.ranks.size(); r++) {
    const RankFigures& f = run.ranks[r];
    text +=
        fmt::format("{:<6}{:<18}{:>12}{:>12}{:>12}{:>12}{:>14}{:>14}\n", r, mesh.device(static_cast<int>(r)).name,
                    time_or_unknown(f.feed_seconds), time_or_unknown(f.busy_seconds), time_or_unknown(f.waiting_seconds),
                    time_or_unknown(f.predicted_step_seconds), bytes_or_unknown(f.bytes_counted), bytes_or_unknown(f.memory_bytes));
  }
  return text;
}

// What real steps say: "real steps  19.8 ms; even parts 27.9 ms (1.41 times), fast alone 25.5 ms (1.29 times)". Empty: none ran.
std::string steps_text(const Plan& plan, const LayoutRules& rules, const Profile& profile) {
  const std::optional<double> seconds = measured_seconds(profile, plan, rules);
  if (!seconds) return "";
  const TimedSteps& steps = *timed_steps(profile, plan.step(), plan.mesh(), rules, plan.data().dtype);
  const TimedPlan& its = *timed_plan(steps, plan.data().rules);
  std::string others;
  for (const TimedPlan& p : steps.plans)
    if (&p != &its)
      others += fmt::format("{}{} {:.3f} ms ({:.2f} times)", others.empty() ? "; " : ", ", p.name,
                            1e3 * p.median * steps.reference_seconds.typical(), p.median / its.median);
  return fmt::format("real steps  {:.3f} ms{}, in {} rounds\n", 1e3 * *seconds, others, its.n);
}

}  // namespace

void give_plan(const Job& job, const JobPlans& plans, const Profile& profile, const Options& options, Console& console,
               const std::vector<std::string>& notes) {
  const Plan& plan = plans.training;
  const PlanDetail detail = options.full ? PlanDetail::full : PlanDetail::summary;
  if (options.verb == Verb::explain) {
    if (!options.svg.empty()) give_result(explain_svg(plan, profile, options.tensor), options.svg, console);
    return print_result(options.form == Form::json ? to_text(explain_json(plan, profile, options.tensor), 1) + "\n"
                                                   : explain_text(plan, profile, options.tensor, detail));
  }
  std::vector<std::string> all;
  if (const AxesChoice& axes = plan.data().axes; !axes.chosen.empty()) all.push_back(axes_text(axes));
  for (std::string& note : equal_notes(plan.mesh(), profile)) all.push_back(std::move(note));
  all.insert(all.end(), notes.begin(), notes.end());
  if (options.form == Form::json || !options.output.empty())
    give_result(plan_file_of(job, plans, profile, detail), options.output, console);
  if (!options.layout.empty()) {
    LayoutRules rules = plan.data().rules;
    if (!plan.data().axes.chosen.empty()) rules.arrangement = order_of(plan.mesh());
    give_result(to_text(to_json(rules), 2) + "\n", options.layout, console);
  }
  if (options.form == Form::json) {  // notes are about this machine: JSON contains only the plan
    for (const std::string& note : all) console.say(LogLevel::warning, "note: " + note);
    return;
  }
  std::string text = plan.table(profile, detail);
  if (!text.ends_with('\n')) text += '\n';
  text += steps_text(plan, job.rules, profile);
  if (const std::string kernels = kernels_line(plan.mesh(), plan.data().dtype); !kernels.empty()) text += kernels + "\n";
  for (const std::string& note : all) text += "note: " + note + "\n";
  print_result(text);
}

void plan_ranks(Runtime& rt, const Task& task) {
  rt.phase("measuring");
  const Step step = step_of(task.job);
  MeasureStepsOptions steps = timing_steps(task);
  if (!task.options.measure) steps.seconds = 0;
  const Profile profile = profile_of(rt, task.job, step, measuring(task, when_of(task.job)), steps);
  task.console.progress_done();
  rt.phase("planning");
  if (rt.rank() == 0)
    give_plan(task.job, plans_to_give(task.job, step, profile, task.options), profile, task.options, task.console);
}

void profile_ranks(Runtime& rt, const Task& task) {
  rt.phase("measuring");
  const std::filesystem::path file = task.options.output.empty() ? profile_path(task.job) : task.options.output;
  const Profile profile =
      measured_profile(rt, task.job, step_of(task.job), file, measuring(task, Measure::always), timing_steps(task));
  task.console.progress_done();
  std::string text = summary_of(profile, file);
  if (rt.rank() == 0)
    for (const std::string& note : equal_notes(task.job.mesh, profile)) text += "note        " + note + "\n";
  rt.print(text);
}

void train_ranks(Runtime& rt, const Task& task) {
  const Job& job = task.job;
  const Model model = build_model(job.model, job.train.batch);
  rt.phase("data");
  const Datasets raw = raw_data_of(rt, task, model);
  Datasets data = prepared(raw, job);
  if (data.validation) data.test = data.validation;  // the test part is for `eval`
  TrainingOptions options = training_options(job.train, data.train->samples());
  Index done = 0;
  if (const std::filesystem::path& from = task.options.from; !from.empty()) {  // the last step, where the batch size has changed
    const Manifest was = Checkpoint(from).manifest();
    done = was.step;
    const DataPosition at{was.data.epoch, was.data.batch, was.data.batch_size, was.data.samples};
    options.schedule.steps = done + course_from(from.string(), at, done, extent_of(job.train, data.train->samples())).steps();
  }
  if (rt.rank() == 0)
    for (const auto& notes : {schedule_notes(options.schedule), watch_notes(job.train, data.train->samples())})
      for (const std::string& note : notes) task.console.say(LogLevel::warning, "note: " + note);
  const bool on_cpu = job.train.dtype() == DType::f64;  // whatever the devices are
  const std::vector<RankFacts> facts = gather_facts(rt.transport(), on_cpu ? *f64_backend() : rt.backend(job.mesh));
  if (rt.rank() == 0)
    for (const std::string& note : version_notes(facts)) task.console.say(LogLevel::warning, "note: " + note);
  const Step step = training(model.loss, job.train.optimizer, options);
  const auto [profile, plans] = planned_job(rt, task, step);
  if (task.options.log_level >= LogLevel::debug) task.console.say(LogLevel::debug, plans.training.table());
  if (agree(rt.transport(), rt.stop_requested() ? 1 : 0).status != 0) throw Stopped("stopped on request before the first step");
  rt.phase("training");
  Bar bar(done, std::max(Index{1}, options.schedule.steps));
  if (rt.rank() == 0 && job.train.evaluate_every_epochs > 0 && !data.test)
    task.console.say(LogLevel::warning, "note: the data has no test samples: nothing is evaluated (train.evaluate_every_epochs)");
  std::optional<RanksHold> hold;
  if (rt.rank() == 0) hold.emplace(task.directory);
  const auto aside = task.directory.find(kAside);
  const TrainSummary run = train_job(
      rt, {.plan = &plans.training,
           .evaluation = plans.evaluation ? &*plans.evaluation : nullptr,
           .evaluate = evaluation_of(job.model, model),
           .plan_file = rt.rank() == 0 ? plan_file_of(job, plans, profile, PlanDetail::summary) : "",
           .profile = &profile,
           .facts = facts,
           .data = data,
           .in_epoch = [&](Index epoch) { return in_epoch(raw, job, epoch); },
           .names = names_of(model),
           .epochs = job.train.epochs.value_or(0),
           .max_steps = job.train.max_steps.value_or(0),
           .seed = job.train.seed,
           .checkpoint = job.train.checkpoint,
           .log = job.train.log,
           .evaluate_every_epochs = job.train.evaluate_every_epochs,
           .watch = job.train.watch,
           .initial = job.train.initial.weights,
           .fresh = {job.train.initial.fresh},
           .resume = task.options.from,
           .done_before = aside && finished(*aside) ? std::optional(load_run_json((*aside / kRunFile).path())) : std::nullopt,
           .began = [&](const std::vector<std::string>& ended) { drop_aside(task.directory, ended); },
           .run_directory = task.directory,
           .dump = task.options.dump,
           .trace = task.options.trace,
           .progress = [&](const std::string& line) { task.console.progress(bar.step(line)); },
           .evaluating = [&](const std::string& line) { task.console.progress(bar.line(line), Console::Of::evaluation); },
           .say = [&](const std::string& line) { task.console.say(LogLevel::info, line); },
           .warn = [&](const std::string& line) { task.console.say(LogLevel::warning, line); }});
  task.console.progress_done();
  const std::filesystem::path& given = task.options.run_directory;
  rt.print(summary_of(run, job.mesh, given.empty() ? std::filesystem::proximate(task.directory.path()) : given));
}

namespace {

// The job's network as its training evaluates it, with the weights of a file.
struct Loaded {
  Plan plan;
  std::unique_ptr<State> state{};
  std::unique_ptr<Predictor> predictor{};
  Loaded(Runtime& rt, const Task& task, Plan its) : plan(std::move(its)) {
    DeviceMemory* const device = task.job.train.dtype() == DType::f64 ? nullptr : rt.backend(task.job.mesh).device_memory();
    state = std::make_unique<State>(plan, rt.rank(), task.job.train.seed, device);
    load_weights(rt, *state, task.options.weights);
    predictor = std::make_unique<Predictor>(rt, plan, *state);
  }
};

Loaded loaded(Runtime& rt, const Task& task) {
  const Job& job = task.job;
  const Step step = step_of(job);
  const Step evaluation = evaluation_step_of(job);
  if (const std::optional<GivenPlan> given = given_plan(rt, task, step)) {
    const auto said = [&](const std::string& text) { task.console.say(LogLevel::info, "note: " + text); };
    return {rt, task, same_plan(rt, job, evaluation, [&] { return evaluation_from(*given, job, step, said); })};
  }
  rt.phase("measuring");
  const Profile profile = profile_of(rt, job, step, measuring(task, when_of(job)));
  task.console.progress_done();
  return {rt, task, same_plan(rt, job, evaluation, [&] { return evaluation_plan_of(job, step, profile); })};
}

}  // namespace

void eval_ranks(Runtime& rt, const Task& task) {
  const Model model = build_model(task.job.model, task.job.train.batch);
  rt.phase("data");
  Datasets data = prepared(raw_data_of(rt, task, model), task.job);
  if (!data.test) data.test = data.validation;
  const Loaded net = loaded(rt, task);
  EvaluateOptions options = evaluation_of(task.job.model, model);
  options.per_class = task.options.per_class;
  if (const Index samples = data.test ? data.test->samples() : 0; samples > 0)
    options.progress = evaluation_line(samples, predicted_seconds(net.plan, options.image, samples),
                                       [&](const std::string& line) { task.console.progress(line, Console::Of::evaluation); });
  const Evaluation test = evaluate(rt, *net.predictor, data.test, options);
  task.console.progress_done();
  const std::vector<std::string> of_data = data.test->class_names(), &of_weights = net.state->classes();
  if (const std::string note = renamed_classes(of_weights, of_data); rt.rank() == 0 && !note.empty())
    task.console.say(LogLevel::warning, "note: " + note);
  rt.print(evaluation_text(test, task.options, of_data.empty() ? of_weights : of_data, data.test->label_extents().size() >= 2));
  if (!std::isfinite(test.mean_loss)) throw Error(Exit::internal, "the loss is not finite: weights or samples are too large");
}

void predict_ranks(Runtime& rt, const Task& task) {
  const Model model = build_model(task.job.model, task.job.train.batch);
  rt.phase("data");
  const PredictInput input = predict_input(rt, task, model);
  const Loaded net = loaded(rt, task);
  const Predictions out = predict(rt, *net.predictor, input.samples, names_of(model).image);
  std::string text;
  on_rank_0(rt.transport(), [&] { text = give_predictions(out, task, input.names, net.state->classes()); });
  rt.print(text);
  on_rank_0(rt.transport(), [&] {
    const auto bad = std::count_if(out.values.begin(), out.values.end(), [](double v) { return !std::isfinite(v); });
    if (bad > 0)
      throw Error(Exit::internal,
                  fmt::format("{} of {} values are not finite: weights or samples are too large", bad, out.values.size()));
  });
}

void verify_ranks(Runtime& rt, const Task& task) {
  const Job& job = task.job;
  const Index n = job.train.accumulate, wanted = task.options.batch.value_or(4);
  Index batch = (wanted + n - 1) / n * n;
  const auto note = [&](const std::string& what) {
    if (rt.rank() == 0)
      task.console.say(LogLevel::info, fmt::format("note: the batch is {} {}, a multiple of the {} micro-batches", what, batch, n));
  };
  if (batch != wanted) note("rounded up to");
  Model model = build_model(job.model, batch);
  rt.phase("data");
  const Datasets data = prepared(raw_data_of(rt, task, model), job);
  if (const Index most = data.train->samples() / n * n; !task.options.batch && most > 0 && most < batch) {
    batch = most;
    model = build_model(job.model, batch);
    note("what the data has,");
  }
  TrainingOptions options = training_options(job.train, data.train->samples());
  const Step step = training(model.loss, job.train.optimizer, options);
  // A batch norm's statistics are those of each micro-batch: the unsharded network then has the same micro-batches.
  const Passes& passes = step.passes();
  const bool whole_batch =
      std::none_of(passes.parameters.begin(), passes.parameters.end(), [&](int p) { return passes.statistic(p) != nullptr; });
  if (whole_batch) options.accumulate = 1;
  const Step whole = training(model.loss, job.train.optimizer, options);
  // The cuts are those that `train` would use at its own batch.
  const Step trained = step_of(job);
  const std::optional<GivenPlan> given = given_plan(rt, task, trained);
  rt.phase("measuring");
  const Profile profile = given ? profile_beside(rt, job) : profile_of(rt, job, trained, measuring(task, when_of(job)));
  task.console.progress_done();
  rt.phase("verifying");
  LayoutRules rules, evaluation_rules;
  on_rank_0(rt.transport(), [&] {  // all ranks run rank 0's plans
    const auto said = [&](const std::string& text) { task.console.say(LogLevel::info, "note: " + text); };
    rules = given ? rules_of(*given, job, trained) : resolved_rules(job, trained, profile);
    if (!task.options.inference) return;
    evaluation_rules = given ? evaluation_from(*given, job, trained, said).data().rules : resolved_evaluation_rules(job, profile);
  });
  const VerifyInput input{.step = &step,
                          .whole = &whole,
                          .mesh = &job.mesh,
                          .rules = std::move(rules),
                          .profile = profile,
                          .data = data.train,
                          .names = names_of(model),
                          .seed = job.train.seed,
                          .steps = task.options.steps,
                          .dump = task.options.dump};
  const auto inferred = [&] {
    const Step logits = inference({model.logits}, job.train.storage()), loss = inference({model.loss}, job.train.storage());
    VerifyInput of_whole = input;  // an inference has no micro-batches
    options.accumulate = 1;
    const Step at_once = training(model.loss, job.train.optimizer, options);
    of_whole.step = &at_once;
    return verify_inference(rt, of_whole, {&logits, &loss, std::move(evaluation_rules)});
  };
  const VerifyReport report = task.options.inference ? inferred() : verify(rt, input);
  rt.print(task.options.form == Form::json ? report.json() : report.text());
  if (report.ok()) return;
  throw Error(Exit::internal, report.diverged ? "the unsharded network's own values are not finite: there is nothing to compare"
                                              : "verify found a difference");
}

}  // namespace motley::app
