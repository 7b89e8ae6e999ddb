// SPDX-License-Identifier: Apache-2.0
// The command line as values.
#pragma once
#include <motley/svm.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace motley {

enum class Verb : std::uint8_t {
  doctor,
  check,
  profile,
  plan,
  explain,
  train,
  trace,
  report,
  verify,
  eval,
  predict,
  convert,
  schema,
  model,
  svm_train,
  svm_predict,
  rank
};  // rank: what the launcher starts
enum class Form : std::uint8_t { text, json };
enum class ProgressMode : std::uint8_t { automatic, plain, never };
enum class LogLevel : std::uint8_t { error, warning, info, debug };

struct Options {
  Verb verb = Verb::doctor;
  std::vector<std::string> files{};  // check: one or more; profile: a job or none; rank: the run directory; convert: IN and OUT;
                                     // report: the run directories; svm: DATA, then MODEL; others: the job
  std::vector<std::string> sets{};   // --set, in the order written
  ProgressMode progress = ProgressMode::automatic;
  LogLevel log_level = LogLevel::info;
  Form form = Form::text;
  std::filesystem::path output{}, mesh{}, run_directory{}, dump{}, svg{}, trace{}, chrome{},
      layout{};                            // empty: not given; trace: of train; chrome: of trace; layout: of plan
  std::filesystem::path weights{};         // for eval, predict and train
  std::filesystem::path plan{};            // of train, eval, predict, verify, explain: what `plan -o` has saved; empty: chosen now
  std::vector<std::string> inputs{};       // for predict: FILE or NAME=FILE
  std::string resume{};                    // train: a run directory, a checkpoint or "auto"; empty: a new run
  std::filesystem::path from{};            // train, for its ranks: the checkpoint that was chosen
  std::string kind{};                      // schema: kind of file; model: name of the network
  std::string tensor{};                    // explain: a tensor; empty: the whole plan
  bool overwrite = false, full = false;    // full: for plan
  bool decode = false, per_class = false;  // for check; for eval
  bool by_error = false;                   // trace: rows by difference from the prediction, else by time
  int top = 0;                             // for predict: so many classes are printed; 0: none
  bool inference = false;                  // verify: use the passes of evaluation and prediction
  int restarts = 0;                        // train: at most so many, after a rank died or hung
  int steps = 3;                           // for verify
  std::optional<int> batch{};              // likewise; none: 4, or what the data has
  svm::Options svm{};                      // svm train
  std::filesystem::path labels{};          // svm: of samples in a .npy file
  double budget_seconds = 60;              // for measuring
  double step_seconds = 20;                // for real steps of the plans that are near: profile, train, plan with `measure`
  bool measure = false;                    // plan
};

// Options, or the text to print instead of running (help, version: code 0; a usage error 64; what is not built yet 78).
struct Parsed {
  std::optional<Options> options{};
  int code = 0;
  std::string text{};
};
Parsed parse_options(const std::vector<std::string>& arguments);  // without the program's name

}  // namespace motley
