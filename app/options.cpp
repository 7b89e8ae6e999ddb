// SPDX-License-Identifier: Apache-2.0
#include "app/options.h"

#include <motley/dims.h>
#include <motley/error.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <map>

#include "base/version.h"
#include "config/schema.h"
#include "config/zoo.h"

namespace motley {

namespace {

constexpr std::array kLater{"simulate"};
struct LaterOption {
  const char *verb, *option;
};
constexpr std::array kLaterOptions{LaterOption{"plan", "--advise"}};
constexpr const char* kRank = "_rank";

constexpr const char* kExamples = R"(
Examples:
  motley doctor --mesh mesh.json                 list devices and libraries; write a mesh of this machine to mesh.json
  motley check configs/jobs/quickstart.json      list all errors at once
  motley profile configs/jobs/quickstart.json    measure this machine for the job
  motley plan configs/jobs/quickstart.json       show how the model will be split, predicted times, and why
  motley explain configs/jobs/quickstart.json --svg plan.svg    describe the plan in text and as a picture
  motley train configs/jobs/quickstart.json --set train.batch=64
  motley train configs/jobs/quickstart.json --resume           resume the job's last unfinished run
  motley eval configs/jobs/quickstart.json --weights runs/quickstart-20261122T120000Z
  motley trace runs/quickstart-20261122T120000Z  compare that run's predicted and measured times, kernel by kernel
  motley report runs/quickstart-20261122T120000Z -o report.html    curves, timeline, layers, memory: one page
  motley verify configs/jobs/quickstart.json     compare the sharded network with the unsharded one
  motley svm train samples.txt -o samples.model  a support vector machine
  motley schema job > job.schema.json            JSON Schema of job files, for editors
  motley model resnet18 -o resnet18.json         a published network as a model file, to change it

Exit codes: 0 ok, 64 usage, 65 bad data or checkpoint, 66 input missing, 69 device unavailable or out of memory, 70 internal error, loss not
finite or verify found a difference, 74 I/O, 75 stopped on request, 78 bad config, 86 a rank hung or died.
)";

constexpr const char* kEverywhere = R"(
For every command:
  --set KEY=VALUE              change a value of the job (commands that read one): --set train.batch=64 --set mesh.devices.0.threads=2
  --progress auto|plain|never  auto: one updating line on a terminal; plain: a line every few seconds; never: none
  --log-level LEVEL            what is printed on stderr: error, warning, info or debug (info)
  --quiet                      only errors on stderr

)";

struct Words {
  std::string progress{}, log_level = "info", form = "text", order = "time";
  std::string job{}, kind{}, in{}, out{};
  std::string later{};                                             // an option that is not built yet
  std::string kernel = "rbf", shrink = "adaptive", dtype = "f32";  // of svm train
  std::optional<double> gamma{};
  Index cache_mib = 0;  // 0: not given
  bool quiet = false;
};

// An option whose value is one of some words; help lists these once.
void one_of(CLI::Option* option, const std::vector<std::string>& words) {
  std::string shown;
  for (const std::string& word : words) shown += (shown.empty() ? "" : "|") + word;
  option->type_name(shown)->check(CLI::Validator(
      [words, shown](std::string& given) {
        return std::find(words.begin(), words.end(), given) != words.end() ? std::string()
                                                                           : "expected " + shown + ", found \"" + given + "\"";
      },
      ""));
}

// A number in [least, most].
template <class T>
void within(CLI::Option* option, const char* shown, T least, T most) {
  option->type_name(shown)->check(CLI::Validator(
      [least, most](std::string& given) {
        T value{};
        const auto read = std::from_chars(given.data(), given.data() + given.size(), value);
        if (read.ec == std::errc{} && read.ptr == given.data() + given.size() && value >= least && value <= most)
          return std::string();
        return fmt::format("expected {} from {} to {}, found \"{}\"", std::is_integral_v<T> ? "an integer" : "a number", least,
                           most, given);
      },
      ""));
}

void add_common(CLI::App& app, Options& o, Words& w) {
  app.add_option("--set", o.sets, "change a value of the job: train.batch=64, mesh.devices.0.threads=2 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  one_of(app.add_option("--progress", w.progress,
                        "auto: one updating line on a terminal; plain: a line every few seconds; never: none"),
         {"auto", "plain", "never"});
  one_of(app.add_option("--log-level", w.log_level, "what is printed on stderr"), {"error", "warning", "info", "debug"});
  app.add_flag("--quiet,-q", w.quiet, "only errors on stderr");
}

CLI::App* add_verb(CLI::App& app, const std::string& name, const std::string& text) {
  CLI::App* verb = app.add_subcommand(name, text);
  verb->fallthrough();
  verb->footer(kEverywhere);
  return verb;
}

CLI::Option* add_job(CLI::App* verb, Words& w, const char* text) {
  return verb->add_option("JOB", w.job, text)->type_name("FILE");
}

void add_plan(CLI::App* verb, Options& o) {
  verb->add_option("--plan", o.plan, "the plan of a file that `motley plan -o` wrote: nothing is measured, nothing chosen")
      ->type_name("FILE");
}

void add_step_seconds(CLI::App* verb, Options& o) {
  if (const char* given = std::getenv("MOTLEY_STEP_SECONDS"); given != nullptr) o.step_seconds = std::atof(given);  // for tests
  within(verb->add_option("--step-seconds", o.step_seconds,
                          "time limit of the real steps that decide between near plans (default 20); 0: none are run"),
         "SECONDS", 0.0, 1e6);
}

void add_form(CLI::App* verb, Words& w) {
  one_of(verb->add_option("--format", w.form, "format of the result (default text)"), {"text", "json"});
}

void add_svm(CLI::App& app, Options& o, Words& w) {
  CLI::App* svm = add_verb(app, "svm", "support vector machines whose samples are distributed over unequal devices");
  svm->require_subcommand(1);
  const auto add = [&](const char* name, const char* text) {
    CLI::App* verb = add_verb(*svm, name, text);
    verb->add_option("DATA", w.in, "samples in libsvm's text format, LABEL INDEX:VALUE ..., or a .npy array [samples, features]")
        ->required()
        ->type_name("FILE");
    verb->add_option("--labels", o.labels, "labels of a .npy array: a .npy array [samples] of integers")->type_name("FILE");
    verb->add_option("--mesh", o.mesh, "mesh file (default: this node)")->type_name("FILE");
    add_form(verb, w);
    return verb;
  };
  CLI::App* train = add("train", "train a classifier; starts its own ranks, one per device of the mesh");
  train->add_option("-o,--output", o.output, "write the model there, as libsvm does")->required()->type_name("MODEL");
  train->add_option("-c", o.svm.c, "upper bound of the coefficients (default 1)")->type_name("C");
  train->add_option("-g,--gamma", w.gamma, "of the kernel (default 1 / features)")->type_name("GAMMA");
  one_of(train->add_option("--kernel", w.kernel, "kernel (default rbf)"), {"rbf", "linear", "polynomial"});
  train->add_option("--degree", o.svm.kernel.degree, "of a polynomial (default 3)")->type_name("N");
  train->add_option("--coef0", o.svm.kernel.coef0, "of a polynomial (default 0)")->type_name("NUMBER");
  train->add_option("--epsilon", o.svm.epsilon, "largest gap at the end, over all samples (default 0.001)")->type_name("NUMBER");
  one_of(train->add_option("--shrink", w.shrink, "when samples that cannot move are left out (default adaptive)"),
         {"adaptive", "early", "lazy", "never"});
  one_of(train->add_option("--dtype", w.dtype, "of kernel rows (default f32)"), {"f32", "f64"});
  within(train->add_option("--cache-mib", w.cache_mib, "of each rank's kernel rows (default: a quarter of its memory)"), "N",
         Index{1}, Index{1} << 30);
  CLI::App* predict = add("predict", "the classes of samples, one label per line");
  predict->add_option("MODEL", w.out, "the model that svm train wrote, or libsvm's svm-train")->required()->type_name("FILE");
  predict->add_option("-o,--output", o.output, "write the labels there")->required()->type_name("FILE");
}

void add_verbs(CLI::App& app, Options& o, Words& w) {
  CLI::App* doctor = add_verb(app, "doctor", "list devices, libraries, limits and data; what is missing and how to get it");
  doctor->add_option("--mesh,-o", o.mesh, "write a mesh of this node: one rank per GPU, one per kind of CPU core and socket")
      ->type_name("FILE");

  CLI::App* check = add_verb(app, "check", "validate jobs, meshes, models, layouts, profiles, plans and runs: all errors at once");
  check->add_option("FILE", o.files, "the files to validate")->required()->type_name("");
  check->add_flag("--decode", o.decode, "read the data of jobs completely: every picture, every value");

  CLI::App* profile = add_verb(app, "profile", "measure devices and links, for a job's kernels or for a grid of convolutions");
  add_job(profile, w, "the job whose kernels are measured; without it a grid of convolution shapes");
  profile->add_option("--mesh", o.mesh, "mesh file (default: the job's, else this node)")->type_name("FILE");
  profile->add_option("-o,--output", o.output, "write the profile there (default: the job's profile.path)")->type_name("FILE");
  within(profile->add_option("--budget-seconds", o.budget_seconds, "time limit (default 60)"), "SECONDS", 0.1, 1e6);

  add_step_seconds(profile, o);

  CLI::App* plan =
      add_verb(app, "plan", "show how the model is split, predicted time and traffic per rank, why, and the runner-up");
  add_job(plan, w, "the job file")->required();
  add_form(plan, w);
  plan->add_flag("--full", o.full, "list every layer; every rank, exchange and tensor, also of a plan for more than 16 ranks");
  plan->add_option("-o,--output", o.output,
                   "also write the plan there, as JSON: for --plan of train, eval, predict, verify, explain")
      ->type_name("FILE");

  plan->add_option("--layout", o.layout, "also write the chosen layout and parts there, as a layout file")->type_name("FILE");
  plan->add_flag("--measure", o.measure, "run real steps of the plans that are predicted to be near; the profile keeps them");
  add_step_seconds(plan, o);

  CLI::App* explain = add_verb(app, "explain", "describe a plan: which rank stores, owns and reads what, what is sent and why");
  add_job(explain, w, "the job file")->required();
  explain->add_option("--tensor", o.tensor, "only this tensor, e.g. conv2d_1 or conv2d_1.weight")->type_name("NAME");
  add_plan(explain, o);
  explain->add_flag("--full", o.full, "list every pass, tensor and message");
  explain->add_option("--svg", o.svg, "write a picture (SVG) there")->type_name("FILE");
  add_form(explain, w);

  CLI::App* train = add_verb(app, "train", "train; starts its own ranks, one per device of the mesh");
  add_job(train, w, "the job file (without it, with --resume: the run's own)");
  train->add_option("--run-dir", o.run_directory, "directory for the results (default: runs/<job>-<UTC time>)")->type_name("DIR");
  train->add_flag("--overwrite", o.overwrite, "replace a run that is in the directory");
  train
      ->add_option("--resume", o.resume,
                   "resume from a run's last checkpoint, from a checkpoint, or auto: the job's last unfinished run (the default)")
      ->expected(0, 1)
      ->type_name("DIR|auto");
  within(train->add_option("--restart", o.restarts,
                           "when a rank dies or hangs, restart from the last good checkpoint, at most N times (default 0)"),
         "N", 0, 1000000);
  train
      ->add_option("--weights", o.weights, "begin with these weights: a run directory, a checkpoint, a .safetensors or a .npz file")
      ->type_name("PATH");
  train->add_option("--from-checkpoint", o.from, "what the launcher has chosen")->group("");
  add_plan(train, o);
  add_step_seconds(train, o);
  train->add_option("--dump", o.dump, "write weights before and after, and the batches, as .npy")->type_name("DIR");
  train->add_option("--trace", o.trace, "write a Chrome trace of the last steps, measured and simulated side by side")
      ->type_name("FILE");

  CLI::App* trace = add_verb(app, "trace", "compare a run's predicted and measured times, kernel by kernel");
  trace->add_option("RUN", o.run_directory, "the run directory")->required()->type_name("DIR");
  one_of(
      trace->add_option("--by", w.order, "order of the rows (default time): measured time, or its difference from the prediction"),
      {"time", "error"});
  trace
      ->add_option("--chrome", o.chrome,
                   "write the run's last steps there, measured and simulated side by side, for ui.perfetto.dev or chrome://tracing")
      ->type_name("FILE");
  add_form(trace, w);

  CLI::App* report = add_verb(app, "report", "write one page about runs: curves, plan, layers, timeline of a step, memory");
  report->add_option("RUN", o.files, "run directories, also of runs that failed or are still running")
      ->required()
      ->type_name("DIR");
  report->add_option("-o,--output", o.output, "write the page (HTML) there")->required()->type_name("FILE");

  CLI::App* verify =
      add_verb(app, "verify", "check that the sharded job computes the same result as the unsharded one, in f64 and f32");
  add_job(verify, w, "the job file")->required();
  within(verify->add_option("--steps", o.steps, "training steps (default 3)"), "N", 1, 1000000);
  within(verify->add_option("--batch", o.batch, "samples per step (default 4)"), "N", 1, 1000000000);
  verify->add_flag("--inference", o.inference, "verify inference (the network of evaluation and prediction) instead of training");
  add_plan(verify, o);
  verify->add_option("--dump", o.dump, "write the tensors of the sharded runs as .npy")->type_name("DIR");
  add_form(verify, w);

  const char* weights_text = "a run directory, a checkpoint, a .safetensors or a .npz file";
  CLI::App* eval = add_verb(app, "eval", "loss and accuracy of weights on the job's test samples");
  add_job(eval, w, "the job file")->required();
  eval->add_option("--weights", o.weights, weights_text)->required()->type_name("PATH");
  add_plan(eval, o);
  eval->add_flag("--per-class", o.per_class, "accuracy of each class, top-5, confusion; of masks intersection over union");
  add_form(eval, w);

  CLI::App* predict = add_verb(app, "predict", "the network's outputs (logits, classes) for pictures, arrays or tokens");
  add_job(predict, w, "the job file")->required();
  predict->add_option("--weights", o.weights, weights_text)->required()->type_name("PATH");
  add_plan(predict, o);
  predict
      ->add_option(
          "--input", o.inputs,
          "a picture, a folder of pictures, an array .npy [samples, a sample's dims...] or, for a job on tokens, a file of "
          "tokens; with several inputs once per input, as NAME=FILE")
      ->required()
      ->expected(1)
      ->take_all()
      ->type_name("PATH");
  predict
      ->add_option("-o,--output", o.output, "write the outputs there: .npy (all), .csv or .json (the --top classes of each sample)")
      ->type_name("FILE");
  within(predict->add_option("--top", o.top, "print the N most probable classes of each sample, with their names"), "N", 1,
         1000000);

  CLI::App* convert = add_verb(app, "convert", "convert weights between .safetensors, .npz and checkpoints");
  convert->add_option("IN", w.in, weights_text)->required()->type_name("");
  convert->add_option("OUT", w.out, "a .safetensors or .npz file, or the directory of a new checkpoint")->required()->type_name("");

  CLI::App* schema = add_verb(app, "schema", "print the JSON Schema of a kind of file, for editors");
  one_of(schema->add_option("KIND", w.kind, "kind of file")->required(), schema_kinds());

  CLI::App* model = add_verb(app, "model", "write a published network as a model file");
  one_of(model->add_option("NAME", w.kind, "network")->required(), zoo_networks());
  model->add_option("-o,--output", o.output, "write it there (default: stdout)")->type_name("FILE");

  add_svm(app, o, w);

  for (const LaterOption& l : kLaterOptions)
    app.get_subcommand(l.verb)
        ->add_flag_callback(l.option, [&w, &l] { w.later = std::string(l.verb) + " " + l.option; })
        ->group("");
  for (const char* name : kLater) app.add_subcommand(name, "not built yet")->group("")->prefix_command()->set_help_flag();
  add_job(app.add_subcommand(kRank, "what the launcher starts")->group(""), w, "the run directory")->required();
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    if (verb->get_name() != kRank && std::find(kLater.begin(), kLater.end(), verb->get_name()) == kLater.end())
      out.push_back(verb->get_name());
  return out;
}

constexpr std::array kOwn{"help", "version"};  // commands that CLI11 does not know
bool is_own(const std::string& word) {
  return std::find(kOwn.begin(), kOwn.end(), word) != kOwn.end();
}

std::string unknown_command(const std::string& word, const CLI::App& app) {
  std::vector<std::string> known = verbs_of(app);
  known.insert(known.end(), kOwn.begin(), kOwn.end());
  return "unknown command \"" + word + "\"" + did_you_mean(word, known);
}

// The command that was given, of svm the one below it; nullptr: none.
const CLI::App* given_verb(const CLI::App& app) {
  const CLI::App* out = nullptr;
  for (auto below = app.get_subcommands(); !below.empty(); below = out->get_subcommands()) out = below.front();
  return out;
}
std::string name_of(const CLI::App* verb) {
  if (verb == nullptr) return "";
  const CLI::App* const above = verb->get_parent();
  return (above->get_parent() == nullptr ? "" : above->get_name() + " ") + verb->get_name();
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      if (!option->get_group().empty()) out.push_back("--" + name);  // else the launcher sets it
  return out;
}

// Words that CLI11 did not expect, with what was probably meant.
std::string unexpected(const CLI::App& app) {
  const CLI::App* const verb = given_verb(app);
  for (const std::string& word : app.remaining(true)) {
    if (word == "--") continue;
    if (!word.starts_with("-")) {
      if (verb == nullptr) return unknown_command(word, app);
      if (const auto below = verbs_of(*verb); !below.empty())
        return verb->get_name() + ": unknown command \"" + word + "\"" + did_you_mean(word, below);
      return name_of(verb) + ": unexpected argument \"" + word + "\"";
    }
    std::vector<std::string> known = options_of(app);
    if (verb != nullptr)
      for (const std::string& name : options_of(*verb))
        if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
    const std::string name = word.substr(0, word.find('='));
    if (verb != nullptr && std::find(known.begin(), known.end(), name) != known.end())
      return name + " belongs after the command: motley " + name_of(verb) + " " + name;
    return "unknown option " + word + did_you_mean(name, known);
  }
  return "unexpected arguments";
}

Verb verb_of(const std::string& name) {
  static const std::map<std::string, Verb> verbs{
      {"doctor", Verb::doctor},   {"check", Verb::check},     {"profile", Verb::profile},     {"plan", Verb::plan},
      {"explain", Verb::explain}, {"train", Verb::train},     {"trace", Verb::trace},         {"report", Verb::report},
      {"verify", Verb::verify},   {"schema", Verb::schema},   {"model", Verb::model},         {"eval", Verb::eval},
      {"predict", Verb::predict}, {"convert", Verb::convert}, {"svm train", Verb::svm_train}, {"svm predict", Verb::svm_predict},
      {kRank, Verb::rank}};
  return verbs.at(name);
}

void apply_svm(const Words& w, svm::Options& o) {
  static const std::map<std::string, svm::KernelKind> kernels{
      {"linear", svm::KernelKind::linear}, {"polynomial", svm::KernelKind::polynomial}, {"rbf", svm::KernelKind::rbf}};
  static const std::map<std::string, svm::Shrink> shrinks{{"adaptive", svm::Shrink::adaptive},
                                                          {"early", svm::Shrink::early},
                                                          {"lazy", svm::Shrink::lazy},
                                                          {"never", svm::Shrink::never}};
  o.kernel.kind = kernels.at(w.kernel);
  o.shrink = shrinks.at(w.shrink);
  o.dtype = w.dtype == "f64" ? DType::f64 : DType::f32;
  o.kernel.gamma = w.gamma.value_or(0);
  o.cache_bytes = w.cache_mib << 20;
}

void apply(const Words& w, Options& o) {
  static const std::map<std::string, ProgressMode> modes{
      {"auto", ProgressMode::automatic}, {"plain", ProgressMode::plain}, {"never", ProgressMode::never}};
  static const std::map<std::string, LogLevel> levels{
      {"error", LogLevel::error}, {"warning", LogLevel::warning}, {"info", LogLevel::info}, {"debug", LogLevel::debug}};
  o.log_level = w.quiet ? LogLevel::error : levels.at(w.log_level);
  o.progress = !w.progress.empty() && !w.quiet  ? modes.at(w.progress)
               : o.log_level == LogLevel::error ? ProgressMode::never
                                                : ProgressMode::automatic;
  o.by_error = w.order == "error";
  o.form = w.form == "json" ? Form::json : Form::text;
  if (!w.job.empty()) o.files = {w.job};
  if (!w.in.empty()) o.files = w.out.empty() ? std::vector{w.in} : std::vector{w.in, w.out};
  o.kind = w.kind;
  apply_svm(w, o.svm);
}

Parsed usage(const std::string& text, const std::string& verb) {
  return {
      {}, static_cast<int>(Exit::usage), "motley: " + text + "\nSee 'motley " + (verb.empty() ? "" : verb + " ") + "--help'.\n"};
}

Parsed not_built(const std::string& what) {
  return {{}, static_cast<int>(Exit::config), "motley: " + what + ": not built yet\n"};
}

}  // namespace

Parsed parse_options(const std::vector<std::string>& given) {
  std::vector<std::string> arguments = given;
  if (std::find(given.begin(), given.end(), "") != given.end())
    return usage("an argument is empty; expected a command, an option or a name (is a shell variable not set?)", "");
  if (!arguments.empty() && arguments[0] == "help") {  // help VERB: VERB --help
    arguments.erase(arguments.begin());
    if (!arguments.empty() && is_own(arguments[0])) arguments.erase(arguments.begin());
    arguments.insert(arguments.begin() + (arguments.empty() ? 0 : 1), "--help");
  }
  if (!arguments.empty() && arguments[0] == "version") {
    if (arguments.size() > 1) return usage("version takes no arguments, found \"" + arguments[1] + "\"", "");
    arguments[0] = "--version";
  }
  Options options;
  Words words;
  CLI::App app("Train convolutional networks on unequal devices.", "motley");
  app.set_version_flag("--version", std::string("motley ") + kMotleyVersion);
  app.footer(kExamples);
  app.require_subcommand(0, 1);
  add_common(app, options, words);
  add_verbs(app, options, words);
  const std::size_t place = given.size() > 1 && is_own(given[1]) ? 2 : 1;  // help VERB, help help VERB
  if (given.size() > place && given[0] == "help" && given[place].front() != '-') {
    if (std::find(kLater.begin(), kLater.end(), given[place]) != kLater.end()) return not_built("motley " + given[place]);
    if (const auto verbs = verbs_of(app); std::find(verbs.begin(), verbs.end(), given[place]) == verbs.end())
      return usage(unknown_command(given[place], app), "");
  }
  std::string verb;
  const auto parsed_verb = [&] { return name_of(given_verb(app)); };
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
    verb = parsed_verb();
  } catch (const CLI::CallForHelp&) {
    const CLI::App* const of = given_verb(app);
    const std::string name = name_of(of), above = std::string("motley") + (name.find(' ') == std::string::npos ? "" : " svm");
    return {{}, 0, of == nullptr ? app.help() : of->help(above)};
  } catch (const CLI::CallForVersion& e) {
    return {{}, 0, std::string(e.what()) + "\n"};
  } catch (const CLI::ExtrasError&) {
    return usage(unexpected(app), parsed_verb());
  } catch (const CLI::ParseError& e) {
    // An unknown word explains a missing argument better than a message about the missing argument.
    return usage(app.remaining_size(true) > 0 ? unexpected(app) : e.what(), parsed_verb());
  }
  if (verb.empty()) {
    const std::string help = app.help();
    return {{}, static_cast<int>(Exit::usage), "motley: no command given\n" + help};
  }
  if (std::find(kLater.begin(), kLater.end(), verb) != kLater.end()) return not_built("motley " + verb);
  if (!words.later.empty()) return not_built(words.later);
  if (words.gamma && !(*words.gamma > 0))
    return {{}, static_cast<int>(Exit::config), fmt::format("motley: gamma is {}; expected a number above 0\n", *words.gamma)};
  options.verb = verb_of(verb);
  if (options.verb == Verb::svm_train || options.verb == Verb::svm_predict) {
    const bool array = words.in.ends_with(".npy");
    if (array && options.labels.empty() && options.verb == Verb::svm_train)
      return usage("a .npy array has no labels: --labels FILE", verb);
    if (!array && !options.labels.empty())
      return usage("--labels are for a .npy array; other files have them in their lines", verb);
  }
  constexpr std::array kWithoutJob{Verb::doctor, Verb::schema, Verb::convert,   Verb::model,
                                   Verb::trace,  Verb::report, Verb::svm_train, Verb::svm_predict};
  if (!options.sets.empty() && std::find(kWithoutJob.begin(), kWithoutJob.end(), options.verb) != kWithoutJob.end())
    return usage("--set changes a job, and " + verb + " reads none", verb);
  apply(words, options);
  if (options.verb == Verb::train && app.get_subcommand("train")->count("--resume") > 0 && options.resume.empty())
    options.resume = "auto";
  if (options.verb == Verb::train && options.files.empty() && options.resume.empty()) return usage("JOB is required", verb);
  return {options, 0, {}};
}

}  // namespace motley
