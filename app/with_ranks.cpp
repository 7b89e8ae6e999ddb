// SPDX-License-Identifier: Apache-2.0
// Commands that need ranks: started here, or mpiexec or srun has started this process as one of them.
#include <fmt/format.h>
#include <motley/error.h>
#include <motley/runtime.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include "app/answers.h"
#include "app/arranged.h"
#include "app/job_plan.h"
#include "app/last_word.h"
#include "app/launch.h"
#include "app/launcher.h"
#include "app/outputs.h"
#include "app/predict_input.h"
#include "app/rank_verbs.h"
#include "app/restart.h"
#include "app/resume.h"
#include "app/run_directory.h"
#include "app/run_end.h"
#include "app/topology.h"
#include "app/verbs.h"
#include "balance/arrange.h"
#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"
#include "config/remaining.h"
#include "explain/explain.h"
#include "mesh/mesh_json.h"
#include "plan/plan_file.h"
#include "profiler/measure_kernels.h"
#include "profiler/modelled.h"
#include "run/agreed.h"
#include "run/start.h"
#include "run/timeline_file.h"
#include "run/trace_summary.h"
#include "train/event_file.h"
#include "train/same_network.h"
#include "train/skip_damaged.h"
#include "weights/checkpoint.h"
#include "weights/weights_file.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

constexpr const char* kMeshFile = "mesh.json";  // for commands without a job

// --mesh FILE and train's --weights PATH count as one more change of the job.
std::vector<std::string> sets_of(const Options& options) {
  std::vector<std::string> sets;
  if (options.verb == Verb::profile && !options.mesh.empty()) sets.push_back("mesh=" + to_text(to_json(Mesh::load(options.mesh))));
  if (options.verb == Verb::train && !options.weights.empty())
    sets.push_back("train.initial=" + to_text(Json(Json::Object{}).set("weights", options.weights.string())));
  sets.insert(sets.end(), options.sets.begin(), options.sets.end());
  return sets;
}

bool is_svm(const Options& options) {
  return options.verb == Verb::svm_train || options.verb == Verb::svm_predict;
}

// A job, or (for svm, and for profile without a job) a mesh.
struct Subject {
  std::optional<Job> job{};
  std::optional<Mesh> alone{};
  const Mesh& mesh() const { return job ? job->mesh : *alone; }
  std::string text() const { return to_text(job ? job->joined : to_json(*alone), 2) + "\n"; }
  std::vector<std::string> notes() const { return job ? model_notes(job->model) : std::vector<std::string>(); }
  const char* file() const { return job ? kResolvedJob : kMeshFile; }
};

// All commands have a job, except for svm and for a profile of a mesh.
bool has_job(const Options& options) {
  return !is_svm(options) && (!options.files.empty() || options.verb != Verb::profile);
}

// Nothing runs on modelled devices, and nothing is measured there.
Subject with_devices_for(const Options& options, Subject subject) {
  if ((options.verb == Verb::plan && !options.measure) || options.verb == Verb::explain) return subject;
  for (const Device& d : subject.mesh().devices())
    if (d.kind == DeviceKind::modelled)
      throw UserError(
          fmt::format("device \"{}\" is modelled: it is described by numbers, and nothing can run on it. `plan` (without "
                      "--measure), `explain` and `check` take such a mesh; for everything else expected devices of kind "
                      "cpu, cuda or emulated",
                      d.name),
          Exit::device);
  return subject;
}

Subject load_subject(const Options& options) {
  const bool trains = options.verb == Verb::train, reads = trains || options.verb == Verb::verify || options.verb == Verb::eval;
  const Data data = trains && options.from.empty() ? Data::with_weights : reads ? Data::needed : Data::unread;
  if (has_job(options)) {
    Subject subject = with_devices_for(options, {load_job(options.files.front(), sets_of(options), data)});
    Console console(options, Console::Voice::speaks);
    subject.job = arranged(std::move(*subject.job), options, [&](const std::string& line) { console.progress(line); });
    console.progress_done();
    return subject;
  }
  if (!options.sets.empty()) throw UserError("--set changes a job, but no JOB is given", Exit::usage);
  return with_devices_for(options, {{}, options.mesh.empty() ? mesh_of(host_facts()) : Mesh::load(options.mesh)});
}

Subject parse_subject(const Options& options, const std::string& name, const std::string& text) {
  if (has_job(options)) return {parse_job(name, text), {}};
  Complaints complaints;
  const auto json = read_json(name, text, complaints, kByMotley);
  Reader reader{complaints};
  std::optional<Mesh> mesh;
  if (json) mesh = read_mesh(reader, *json, VersionKey::required);
  complaints.raise();
  return {{}, mesh};
}

// Checked before anything is trained.
void check_trace_file(const fs::path& file, const fs::path& run_directory) {
  if (file.empty()) return;
  for (const char* of_run : {kResolvedJob, kCommand, kRunFile, kMetrics, kPlanFile, kStepTimesFile, kTimelineFile, kEventsFile,
                             kWeightsFile, kDamagedFile})
    if (!run_directory.empty() && plain_path(file) == plain_path(run_directory / of_run))
      throw UserError("--trace " + file.string() + " is a file of the run itself; give another name", Exit::usage);
  require_output("--trace", file, OutputKind::trace, Pipes::refuse);
}

// In a separate directory, even if other runs begin in the same second.
RunDirectory new_run(const Options& options, const Subject& subject) {
  constexpr int kMost = 1000;
  for (int tries = 1;; tries++) {
    const fs::path path = new_run_path(subject.job->name);
    check_trace_file(options.trace, path);
    try {
      return {path, IfRun::refuse};
    } catch (const UserError&) {
      if (std::error_code ignored; tries == kMost || !fs::exists(path, ignored)) throw;
    }
  }
}

// Weights and checkpoints of another network are refused before anything is measured or written.
void require_weights(const Options& options, const Subject& subject) {
  if (!subject.job) return;
  const Job& job = *subject.job;
  if (!options.from.empty())
    require_resumable(options.from, entries_of(step_of(job).passes(), job.train.dtype()), job.train.optimizer.kind);
  else if (options.verb == Verb::eval || options.verb == Verb::predict)
    static_cast<void>(open_weights_of(options.weights, entries_of(evaluation_step_of(job).passes(), job.train.dtype())));
}

OutputKind predictions_kind(const fs::path& file) {
  return file.extension() == ".csv" ? OutputKind::table : file.extension() == ".json" ? OutputKind::predictions : OutputKind::array;
}

// What a command of svm reads and writes.
void require_svm_files(const Options& options) {
  std::vector<fs::path> inputs(options.files.begin(), options.files.end());
  if (!options.labels.empty()) inputs.push_back(options.labels);
  for (const fs::path& file : inputs) static_cast<void>(InputFile(file));  // which remembers that it is read
  require_output("-o", options.output, options.verb == Verb::svm_train ? OutputKind::svm_model : OutputKind::labels);
}

// Checked before anything is measured; a profile's directory is created.
void check_outputs(const Options& options, const Subject& subject) {
  if (is_svm(options)) return require_svm_files(options);
  if (!options.layout.empty()) {
    require_not_in_job("--layout", options.layout, subject.job->joined);
    require_output("--layout", options.layout, OutputKind::layout);
  }
  const std::string option = options.svg.empty() ? "-o" : "--svg";
  const fs::path& file = options.svg.empty() ? options.output : options.svg;
  if (file.empty()) return;
  if (options.verb == Verb::profile) {
    std::error_code failed;
    fs::create_directories(fs::absolute(file).parent_path(), failed);
    return require_output(option, file, OutputKind::profile);
  }
  const bool predicts = options.verb == Verb::predict;
  require_not_in_job(option, file, subject.job->joined);
  require_output(option, file,
                 predicts                     ? predictions_kind(file)
                 : options.verb == Verb::plan ? OutputKind::plan
                                              : OutputKind::picture,
                 predicts ? Pipes::refuse : Pipes::accept);
}

RunDirectory directory_for(const Options& options, const Subject& subject) {
  require_weights(options, subject);
  if (!options.dump.empty()) require_dump_folder(options.dump);
  if (options.verb == Verb::train) {
    if (options.run_directory.empty()) return new_run(options, subject);
    const fs::path& path = options.run_directory;
    check_trace_file(options.trace, path);
    std::error_code missing;
    if (!options.from.empty() && fs::equivalent(options.from.parent_path().parent_path(), path, missing))
      return {path, IfRun::resume};
    return {path, options.overwrite ? IfRun::overwrite : IfRun::refuse};
  }
  if (options.verb == Verb::predict) {  // what it reads is opened before its output is compared with that
    static_cast<void>(open_weights(options.weights));
    for (const auto& [input, file] : input_files(options, subject.job->model)) check_input(file, *subject.job);
  }
  check_outputs(options, subject);
  if (options.verb == Verb::predict) check_answer_options(options);
  return RunDirectory::temporary(on_one_host(subject.mesh().devices()) ? "" : "runs");  // other hosts must see its contents
}

void work(Runtime& rt, const Options& options, const Subject& subject, const OpenDirectory& directory) {
  Console console(options, rt.rank() == 0 ? Console::Voice::speaks : Console::Voice::silent);
  if (options.verb == Verb::svm_train) return svm_train_ranks(rt, subject.mesh(), options, console);
  if (options.verb == Verb::svm_predict) return svm_predict_ranks(rt, subject.mesh(), options);
  if (!subject.job) return profile_grid(rt, subject.mesh(), options, console);
  const Task task{options, *subject.job, directory, console};
  switch (options.verb) {
    case Verb::profile: return profile_ranks(rt, task);
    case Verb::plan:
    case Verb::explain: return plan_ranks(rt, task);
    case Verb::train: return train_ranks(rt, task);
    case Verb::verify: return verify_ranks(rt, task);
    case Verb::eval: return eval_ranks(rt, task);
    case Verb::predict: return predict_ranks(rt, task);
    case Verb::doctor:
    case Verb::check:
    case Verb::trace:
    case Verb::report:
    case Verb::schema:
    case Verb::model:
    case Verb::convert:
    case Verb::svm_train:
    case Verb::svm_predict:
    case Verb::rank: break;
  }
  throw InternalError("a command that has no ranks");
}

// The options after choosing what --resume continues from.
Options with_resume(Options options, const Resume& resume) {
  options.files = {resume.job};
  options.run_directory = resume.run_directory;
  options.from = resume.checkpoint.empty() ? "" : plain_path(resume.checkpoint);
  options.overwrite = options.overwrite || resume.begins_again;
  return options;
}

// The ranks read the words as JSON.
void require_utf8(const CommandLine& line) {
  const auto require = [](const std::string& text, const char* what) {
    if (!is_utf8(text))
      throw UserError(std::string(what) + " has bytes that are not UTF-8: " + printable(text) + "; rename the file or directory",
                      Exit::usage);
  };
  require(fs::current_path().string(), "the working directory");
  for (int i = 1; i < line.argc; i++) require(line.argv[i], "the command line");
}

// Writes everything that the ranks read, before they are started.
void prepare(const OpenDirectory& directory, const Subject& subject, const Options& options, const CommandLine& line) {
  write_text(directory / subject.file(), subject.text());
  Json::Array words;
  for (int i = 1; i < line.argc; i++) words.emplace_back(line.argv[i]);
  if (!options.from.empty())
    for (auto word = words.begin(); word != words.end(); ++word)
      if (std::get<std::string>(word->value) == "train") {  // the verb: nothing before it has this value
        words.insert(word + 1, Json("--from-checkpoint=" + options.from.string()));
        break;
      }
  write_text(directory / kCommand, to_text(Json(std::move(words))) + "\n");
  if (subject.job && !subject.job->axes.chosen.empty())
    write_text(directory / kAxesFile, to_text(to_json(subject.job->axes)) + "\n");
  else
    directory.remove(kAxesFile);
  if (options.verb != Verb::train) return;
  const fs::path& job = options.files.front();
  if (std::error_code other; !fs::equivalent(job, (directory / kResolvedJob).path(), other))
    write_text(directory / kJobFile, fs::proximate(job).string() + "\n");
}

// Writes how the run ended into run.json. True: a run that was stopped before its first step, of which nothing is kept.
bool say_how_it_ended(RunDirectory& directory, const Outcome& end, const Subject& subject) {
  const OpenDirectory& files = directory.files();
  if (!directory.resumed() && end.code == static_cast<int>(Exit::stopped) && (end.early || !has_ended(files)) &&
      !has_results(files)) {
    directory.forget();
    return true;
  }
  if (end.code != 0) write_failed_run(files, end, subject.mesh());
  return false;
}

// How a run that did not end well can be continued; empty: it cannot.
std::string how_to_continue(const fs::path& run, const Outcome& end) {
  const auto code = static_cast<Exit>(end.code);
  if (code != Exit::hung && code != Exit::stopped && code != Exit::internal && code != Exit::io && code != Exit::device) return "";
  if (const std::vector<fs::path> kept = checkpoints_of(run); !kept.empty()) {
    const std::string name = run.string(), quote = name.find(' ') == std::string::npos ? "" : "'";
    return fmt::format("to continue from step {}: motley train --resume {}{}{}", *motley::step_of(kept.front()), quote, name,
                       quote);
  }
  return code == Exit::hung
             ? "there is no checkpoint to continue from; \"train.checkpoint\" says when to keep one, and --restart N "
               "starts the ranks again"
             : "";
}

// Collective: the choice of the first rank.
Options chosen(Runtime& rt, const Options& options) {
  if (options.resume.empty()) return options;
  const std::string text = from_rank_0(rt.transport(), [&] {
    const Resume its = choose_resume(options);
    Console console(options, Console::Voice::speaks);
    for (const std::string& line : its.said) console.say(LogLevel::info, line);
    return to_text(Json(Json::Array{its.job, its.run_directory.string(), its.checkpoint.string(), its.begins_again}));
  });
  Complaints complaints;
  const auto json = read_json("--resume", text, complaints, kByMotley);
  const auto word = [&](std::size_t i) { return std::get<std::string>(std::get<Json::Array>(json->value).at(i).value); };
  return with_resume(options, {.run_directory = word(1),
                               .checkpoint = word(2),
                               .job = word(0),
                               .begins_again = std::get<bool>(std::get<Json::Array>(json->value).at(3).value)});
}

int as_a_rank(const Options& given, const CommandLine& line) {
  return run(line.argc, line.argv, [&](Runtime& rt) {
    rt.phase("configuration");
    if (given.restarts > 0)
      throw UserError(
          "--restart works only where motley starts the ranks itself: start it without mpiexec (or restart by hand with --resume "
          "auto)",
          Exit::usage);
    const Options options = chosen(rt, given);
    AxesChoice axes;  // rank 0's, which plans
    const std::string text = from_rank_0(rt.transport(), [&] {
      const Subject its = load_subject(options);
      if (its.job) axes = its.job->axes;
      return its.text();
    });
    Subject subject = parse_subject(options, has_job(options) ? options.files.front() : kMeshFile, text);
    if (subject.job) subject.job->axes = std::move(axes);
    static_cast<void>(role(subject.mesh().ranks()));
    std::optional<RunDirectory> directory;
    const fs::path path = from_rank_0(rt.transport(), [&] {
      require_utf8(line);
      directory.emplace(directory_for(options, subject));
      prepare(directory->files(), subject, options, line);
      return fs::absolute(directory->path()).string();
    });
    // Only a run's is needed, and must be seen, by all ranks.
    const OpenDirectory files = options.verb == Verb::train || rt.rank() == 0 ? OpenDirectory(path) : OpenDirectory();
    if (options.verb != Verb::train || rt.rank() != 0) return work(rt, options, subject, files);
    const Outcome killed{static_cast<int>(Exit::hung), -1,
                         "rank 0 was killed; mpiexec does so when another rank dies: see that rank's stderr"};
    const LastWord last(*directory, subject.mesh(), killed);
    try {
      work(rt, options, subject, files);
    } catch (const Error& e) {
      say_how_it_ended(*directory, {static_cast<int>(e.code()), -1, e.what()}, subject);
      throw;
    }
  });
}

Outcome launcher_killed() {
  return {static_cast<int>(Exit::hung), -1,
          "the launcher (process " + std::to_string(getpid()) + ") was killed, and its ranks ended with it"};
}

Outcome launch_once(const RunDirectory& directory, const Mesh& mesh) {
  const fs::path path = fs::absolute(directory.path());
  return launch_ranks(
      {.devices = mesh.devices(), .arguments = {"_rank", path.string()}, .run_directory = path, .units = units_in_turn()});
}

// The available profile of the plan; empty: there is none.
Profile profile_for(const Job& job) {
  try {
    return profile_at_hand(job);
  } catch (const UserError&) {
    return {};
  }
}

// What the next launch trains: the same, or the job on the remaining devices. UserError: none remain, or they cannot train this
// network.
Subject next_subject(const Subject& subject, const Gone& gone, const fs::path& run, Console& console) {
  if (gone.ranks.empty()) return subject;
  const auto remaining = without(subject.mesh(), subject.job->rules, gone.ranks);
  if (!remaining) throw UserError(gone.why.back() + ", and no other device is left", Exit::device);
  std::string names;
  for (const Device& device : remaining->mesh.devices()) names += (names.empty() ? "" : ", ") + device.name;
  for (const std::string& why : gone.why) console.say(LogLevel::warning, why);
  console.say(LogLevel::warning, "continuing with the remaining devices: " + names);
  return {on(*remaining, *subject.job, profile_for(*subject.job), fs::absolute(run / kProfileFile).string()), {}};
}

// Launches the ranks, again after failures as often as the options allow.
Outcome launch_all(const Options& options, const CommandLine& line, Subject& subject, RunDirectory& directory, Console& console) {
  Options next = options;
  std::vector<Attempt> attempts;
  const bool keep = options.verb == Verb::train;
  for (int restarts = 0;; restarts++) {
    prepare(directory.files(), subject, next, line);
    std::optional<LastWord> last;  // until this process can report it
    if (keep)
      last.emplace(directory, subject.mesh(), launcher_killed(),
                   [path = fs::absolute(directory.path()), ranks = subject.mesh().ranks()] { await_ranks(path, ranks); });
    Outcome end = launch_once(directory, subject.mesh());
    if (restarts == options.restarts || signals_so_far() > 0) return end;
    const std::string device = end.rank < 0 ? "" : subject.mesh().device(end.rank).name;
    attempts.push_back({end, device, keep && has_stepped(directory.files())});
    if (!goes_again(attempts)) return end;
    if (!end.said && !end.reason.empty()) print_error("motley: " + end.reason + "\n");
    end.said = true;
    try {
      subject = next_subject(subject, gone_after(attempts, subject.mesh()), directory.path(), console);
      go_on(directory, attempts.back().stepped, next, console);
    } catch (const std::exception& e) {  // the outcome of the run has precedence
      console.say(LogLevel::error, std::string("motley: no restart: ") + e.what());
      return end;
    }
    console.say(LogLevel::warning,
                fmt::format("restart {} of {}: from {}", restarts + 1, options.restarts,
                            next.from.empty() ? "the beginning, there is no checkpoint yet" : fs::proximate(next.from).string()));
  }
}

int launch_them(const Options& options, const CommandLine& line, Subject subject) {
  Console console(options, Console::Voice::speaks);
  const HeldSignals held;
  require_utf8(line);
  RunDirectory directory = directory_for(options, subject);
  const bool keep = options.verb == Verb::train;
  Outcome end;
  try {
    if (keep) {
      console.say(LogLevel::info, "run directory: " + directory.path().string());
      if (const std::string kernels = kernels_line(subject.mesh(), subject.job->train.dtype()); !kernels.empty())
        console.say(LogLevel::info, kernels);
    }
    if (options.verb == Verb::train || options.verb == Verb::eval)
      for (const std::string& text : subject.job->report.lines) console.say(LogLevel::info, text);
    if (options.verb != Verb::plan && options.verb != Verb::explain && subject.job && !subject.job->axes.chosen.empty())
      console.say(LogLevel::info, axes_text(subject.job->axes));  // a plan says so itself
    if (options.verb != Verb::profile)
      for (const std::string& note : subject.notes()) console.say(LogLevel::warning, "note: " + note);
    if (options.verb != Verb::profile && options.verb != Verb::verify)  // here, since a rank sees only its own cores
      for (const std::string& note : core_notes(subject.mesh())) console.say(LogLevel::warning, "note: " + note);
    end = launch_all(options, line, subject, directory, console);
  } catch (...) {
    if (keep) directory.forget();
    throw;
  }
  if (!end.said && !end.reason.empty()) print_error("motley: " + end.reason + "\n");
  if (!keep) return end.code;
  if (say_how_it_ended(directory, end, subject))
    console.say(LogLevel::info, "stopped before the first step: nothing is saved");
  else if (const std::string text = how_to_continue(directory.path(), end); !text.empty())
    console.say(LogLevel::info, text);
  return end.code;
}

}  // namespace

int with_ranks(const Options& given, const CommandLine& line) {
  if (!given.from.empty())
    throw UserError("--from-checkpoint is the launcher's; to continue from a checkpoint: --resume DIR", Exit::usage);
  if (how_started().mpi) return as_a_rank(given, line);
  Options options = given;
  if (!given.resume.empty()) {
    const Resume resume = choose_resume(given);
    Console console(given, Console::Voice::speaks);
    for (const std::string& text : resume.said) console.say(LogLevel::info, text);
    options = with_resume(given, resume);
  }
  const Subject subject = load_subject(options);
  static_cast<void>(role(subject.mesh().ranks()));  // refuses srun's lone tasks
  if (!options.plan.empty())
    static_cast<void>(read_plan_for(*subject.job, step_of(*subject.job), options.plan));  // before ranks start
  if (options.verb == Verb::plan || options.verb == Verb::explain) {
    const Step step = step_of(*subject.job);
    if (!options.tensor.empty()) static_cast<void>(find_tensor(step.passes(), options.tensor));
    check_outputs(options, subject);
    Console console(options, Console::Voice::speaks);
    if (!options.plan.empty()) {
      const GivenPlan file = read_plan_for(*subject.job, step, options.plan);
      const JobPlans plans{plan_of_text(file.name, file.text, step, subject.mesh())};
      give_plan(*subject.job, plans, profile_for(*subject.job), options, console);
      return 0;
    }
    const PlanAtHand found = plan_at_hand(*subject.job, step, options.measure && options.step_seconds > 0);
    if (found.plan) {
      std::vector<std::string> notes;
      for (std::string& note : device_notes(subject.mesh())) notes.push_back(std::move(note));
      for (std::string& note : core_notes(subject.mesh())) notes.push_back(std::move(note));
      if (has_modelled(subject.mesh()))
        for (std::string& note : mesh_notes(subject.mesh())) notes.push_back(std::move(note));
      for (std::string& note : subject.notes()) notes.push_back(std::move(note));
      for (std::string& note : doubts(*subject.job, step, *found.plan, found.profile)) notes.push_back(std::move(note));
      const bool whole = options.verb == Verb::plan && (!options.output.empty() || options.form == Form::json);
      const JobPlans plans = whole ? plans_of(*subject.job, step, found.profile) : JobPlans{*found.plan};
      give_plan(*subject.job, plans, found.profile, options, console, notes);
      return 0;
    }
    console.say(LogLevel::info, "measuring: " + found.why_not);
  }
  return launch_them(options, line, subject);
}

int rank_main(const Options& options, const CommandLine& line) {
  return run(line.argc, line.argv, [&](Runtime& rt) {
    rt.phase("configuration");
    const OpenDirectory directory(options.files.front());
    const FileIn command = directory / kCommand;
    Complaints complaints;
    const auto json = read_json(command.path().string(), InputFile(command).text(), complaints, kByMotley);
    complaints.raise(Exit::internal);
    std::vector<std::string> words;
    for (const Json& word : std::get<Json::Array>(json->value)) words.push_back(std::get<std::string>(word.value));
    const Parsed parsed = parse_options(words);
    motley::check(parsed.options.has_value(), "the command line that was launched can be read again");
    const char* name = has_job(*parsed.options) ? kResolvedJob : kMeshFile;
    const FileIn resolved = directory / name;
    Subject subject = parse_subject(*parsed.options, resolved.path().string(), InputFile(resolved).text());
    if (const FileIn axes = directory / kAxesFile; subject.job && directory.has(kAxesFile))
      subject.job->axes = axes_of_text(axes.path().string(), InputFile(axes).text());
    work(rt, *parsed.options, subject, directory);
  });
}

}  // namespace motley::app
