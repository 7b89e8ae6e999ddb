// SPDX-License-Identifier: Apache-2.0
#include "app/options.h"

#include <motley/dims.h>
#include <motley/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>

namespace motley {

namespace {

constexpr const char* kVersion = MOTLEY_VERSION;
constexpr std::array kLater{"eval", "predict", "report", "simulate", "schema", "convert"};
constexpr const char* kRank = "_rank";

constexpr const char* kExamples = R"(
Examples:
  motley doctor --mesh mesh.json                 what is here; a mesh of this machine into mesh.json
  motley check configs/jobs/quickstart.json      all that is wrong with it, at once
  motley profile configs/jobs/quickstart.json    measure this machine for the job
  motley plan configs/jobs/quickstart.json       who will compute what, how long it takes, and why
  motley explain configs/jobs/quickstart.json --svg plan.svg    the plan in words, and a picture of it
  motley train configs/jobs/quickstart.json --set train.batch=64
  motley trace runs/quickstart-20261122T120000Z  where that run's predicted and measured steps part, by name
  motley verify configs/jobs/quickstart.json     the sharded network against the unsharded one

Exit codes: 0 ok, 64 usage, 65 bad data, 66 input missing, 69 device, 70 internal error, loss not finite or verify found a
difference, 74 I/O, 75 stopped on request, 78 bad config, 86 a rank hung or died.
)";

constexpr const char* kEverywhere = R"(
For every command:
  --set KEY=VALUE              changes any value of the job: --set train.batch=64 --set mesh.devices.0.threads=2
  --progress auto|plain|never  on stderr: one line rewritten, a line every few seconds, nothing
  --log-level error|warning|info|debug
  --quiet                      nothing on stderr but errors

)";

struct Words {
  std::string progress = "auto", log_level = "info", form = "text";
  std::string job{};
  bool quiet = false, resume = false;
};

void add_common(CLI::App& app, Options& o, Words& w) {
  app.add_option("--set", o.sets, "change a value of the job: train.batch=64, mesh.devices.0.threads=2 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--progress", w.progress, "on stderr: one line rewritten, a line every few seconds, nothing")
      ->check(CLI::IsMember({"auto", "plain", "never"}))
      ->type_name("auto|plain|never");
  app.add_option("--log-level", w.log_level, "how much is said on stderr")
      ->check(CLI::IsMember({"error", "warning", "info", "debug"}))
      ->type_name("error|warning|info|debug");
  app.add_flag("--quiet,-q", w.quiet, "nothing on stderr but errors");
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

void add_form(CLI::App* verb, Words& w) {
  verb->add_option("--format", w.form, "of the result")->check(CLI::IsMember({"text", "json"}))->type_name("text|json");
}

void add_verbs(CLI::App& app, Options& o, Words& w) {
  CLI::App* doctor = add_verb(app, "doctor", "what is here: devices, libraries, limits, data; what is missing and how to get it");
  doctor->add_option("--mesh,-o", o.mesh, "write a mesh of this node: one rank per GPU, one per socket")->type_name("FILE");

  CLI::App* check = add_verb(app, "check", "validates jobs, meshes, models, layouts, profiles: all errors at once");
  check->add_option("FILE", o.files, "what to validate")->required()->type_name("FILE");

  CLI::App* profile = add_verb(app, "profile", "measures devices and links: for a job's kernels, or for a grid of convolutions");
  add_job(profile, w, "whose kernels; without it a grid of convolution shapes");
  profile->add_option("--mesh", o.mesh, "the devices; without it the job's, or this node's")->type_name("FILE");
  profile->add_option("-o,--output", o.output, "where the profile goes")->type_name("FILE");
  profile->add_option("--budget-seconds", o.budget_seconds, "at most so long (60)")
      ->check(CLI::Range(0.1, 1e6))
      ->type_name("SECONDS");

  CLI::App* plan = add_verb(app, "plan", "chosen cuts, predicted seconds and bytes per rank, why, and what is next best");
  add_job(plan, w, "the job")->required();
  add_form(plan, w);
  plan->add_option("-o,--output", o.output, "where the plan goes; without it: stdout")->type_name("FILE");

  CLI::App* explain = add_verb(app, "explain", "a plan in words and drawn: who holds, owns and reads what, what moves and why");
  add_job(explain, w, "the job")->required();
  explain->add_option("--tensor", o.tensor, "one tensor alone, as conv2d_1 or conv2d_1.weight")->type_name("NAME");
  explain->add_option("--svg", o.svg, "where the picture goes")->type_name("FILE");
  add_form(explain, w);

  CLI::App* train = add_verb(app, "train", "trains; starts its own ranks, one per device of the mesh");
  add_job(train, w, "the job")->required();
  train->add_option("--run-dir", o.run_directory, "where results go (runs/<job>-<UTC time>)")->type_name("DIR");
  train->add_flag("--overwrite", o.overwrite, "replace the run that is in the directory");
  train->add_flag("--resume", w.resume, "go on with it (not built yet)");
  train->add_option("--dump", o.dump, "weights before and after, and the batches, as .npy")->type_name("DIR");
  train->add_option("--trace", o.trace, "Chrome trace JSON of the last steps, measured and simulated side by side")->type_name("FILE");

  CLI::App* trace = add_verb(app, "trace", "where a run's predicted and measured steps part, by name");
  trace->add_option("RUN", o.run_directory, "the run directory")->required()->type_name("DIR");
  add_form(trace, w);

  CLI::App* verify = add_verb(app, "verify", "the job under its layout against the same job unsharded, in f64 and in f32");
  add_job(verify, w, "the job")->required();
  verify->add_option("--steps", o.steps, "training steps (3)")->check(CLI::Range(1, 1000000))->type_name("N");
  verify->add_option("--batch", o.batch, "samples per step (4)")->check(CLI::Range(1, 1000000000))->type_name("N");
  verify->add_option("--dump", o.dump, "what the sharded runs had, as .npy")->type_name("DIR");
  add_form(verify, w);

  for (const char* name : kLater) app.add_subcommand(name, "not built yet")->group("")->prefix_command()->set_help_flag();
  add_job(app.add_subcommand(kRank, "what the launcher starts")->group(""), w, "the run directory")->required();
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    if (verb->get_name() != kRank) out.push_back(verb->get_name());
  return out;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
  return out;
}

// What CLI11 did not expect, with what was probably meant.
std::string unexpected(const CLI::App& app) {
  const auto verbs = app.get_subcommands();
  const CLI::App* verb = verbs.empty() ? nullptr : verbs.front();
  for (const std::string& word : app.remaining(true)) {
    if (word == "--") continue;
    if (!word.starts_with("-")) {
      if (verb == nullptr) return "unknown command \"" + word + "\"" + did_you_mean(word, verbs_of(app));
      return verb->get_name() + ": one thing too many: \"" + word + "\"";
    }
    std::vector<std::string> known = options_of(app);
    if (verb != nullptr)
      for (const std::string& name : options_of(*verb)) known.push_back(name);
    return "unknown option " + word + did_you_mean(word.substr(0, word.find('=')), known);
  }
  return "something was not expected";
}

Verb verb_of(const std::string& name) {
  static const std::map<std::string, Verb> verbs{{"doctor", Verb::doctor}, {"check", Verb::check}, {"profile", Verb::profile},
                                                 {"plan", Verb::plan},     {"explain", Verb::explain}, {"train", Verb::train}, {"trace", Verb::trace}, {"verify", Verb::verify},
                                                 {kRank, Verb::rank}};
  return verbs.at(name);
}

void apply(const Words& w, Options& o) {
  static const std::map<std::string, ProgressMode> modes{
      {"auto", ProgressMode::automatic}, {"plain", ProgressMode::plain}, {"never", ProgressMode::never}};
  static const std::map<std::string, LogLevel> levels{
      {"error", LogLevel::error}, {"warning", LogLevel::warning}, {"info", LogLevel::info}, {"debug", LogLevel::debug}};
  o.progress = w.quiet ? ProgressMode::never : modes.at(w.progress);
  o.log_level = w.quiet ? LogLevel::error : levels.at(w.log_level);
  o.form = w.form == "json" ? Form::json : Form::text;
  if (!w.job.empty()) o.files = {w.job};
}

Parsed usage(const std::string& text, const std::string& verb) {
  return {{},
          static_cast<int>(Exit::usage),
          "motley: " + text + "\nRun 'motley " + (verb.empty() ? "" : verb + " ") + "--help' for what there is.\n"};
}

Parsed not_built(const std::string& what) {
  return {{}, static_cast<int>(Exit::config), "motley: " + what + ": not built yet\n"};
}

}  // namespace

Parsed parse_options(const std::vector<std::string>& arguments) {
  Options options;
  Words words;
  CLI::App app("motley trains convolutional networks on devices that are not equal", "motley");
  app.set_version_flag("--version", std::string("motley ") + kVersion);
  app.footer(kExamples);
  app.require_subcommand(0, 1);
  add_common(app, options, words);
  add_verbs(app, options, words);
  std::string verb;
  const auto parsed_verb = [&] { return app.get_subcommands().empty() ? "" : app.get_subcommands().front()->get_name(); };
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
    verb = parsed_verb();
  } catch (const CLI::CallForHelp&) {
    const auto given = app.get_subcommands();
    return {{}, 0, given.empty() ? app.help() : given.front()->help("motley")};
  } catch (const CLI::CallForVersion& e) {
    return {{}, 0, std::string(e.what()) + "\n"};
  } catch (const CLI::ExtrasError&) {
    return usage(unexpected(app), parsed_verb());
  } catch (const CLI::ParseError& e) {
    // A word that nobody knows explains a missing argument better than the missing argument.
    return usage(app.remaining_size(true) > 0 ? unexpected(app) : e.what(), parsed_verb());
  }
  if (verb.empty()) {
    const std::string help = app.help();
    return {{}, static_cast<int>(Exit::usage), "motley: no command given\n" + help};
  }
  if (std::find(kLater.begin(), kLater.end(), verb) != kLater.end()) return not_built("motley " + verb);
  if (words.resume) return not_built("train --resume");
  options.verb = verb_of(verb);
  apply(words, options);
  return {options, 0, {}};
}

}  // namespace motley
