// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a plan's inference steps on this rank, on the parameters of a State: predictions and evaluations.
#pragma once
#include <motley/data.h>
#include <motley/executor.h>
#include <motley/plan.h>
#include <motley/runtime.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup running
/// @{

/// Which parameters of a State a Predictor runs on: their averages where the State keeps them (TrainingOptions::average), or
/// (current) themselves in any case. Running statistics are themselves.
enum class PredictedWeights : std::uint8_t { averaged, current };

/// One rank's inference: a plan of its own, with its own batch, cuts and memory, on parameters that a Trainer (or another plan)
/// stores. Plan it with where they are: `rules.homes = training_plan.homes()`.
class Predictor {
 public:
  /// Collective: the ranks compare the plan's hash, then run rank 0's plan. `state` outlives it. UserError: some rank has a plan of
  /// another step, mesh, rules or options (what was chosen may differ), or other weights; the plan trains; the State stores its
  /// parameters in other boxes. DeviceError: out of memory.
  Predictor(Runtime& rt, const Plan& plan, State& state, PredictedWeights weights = PredictedWeights::averaged);
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;
  /// Collective: computes the step's outputs from these inputs and the parameters as they are now. On all ranks: UserError, an
  /// input that on some rank is missing, fed twice or not one of the step's; Error, what a rank's feed threw.
  Ran run(std::initializer_list<Feed> feeds);
  Ran run(const std::vector<Feed>& feeds);                     ///< the same, from a list made at run time
  Ran run_named(const std::map<std::string, ReadBox>& feeds);  ///< the same, by the inputs' names
  /// One of the step's outputs, of the last run(), row-major: the complete tensor on every rank. Collective. UserError: no output
  /// has this name.
  std::vector<double> get(const std::string& output) const;
  std::vector<double> get(const Tensor& output) const { return get(output.name()); }  ///< the same
  const Plan& plan() const;                                                           ///< that it runs
  Index memory_bytes() const;  ///< that it has taken on this rank, kernel workspaces included; without the parameters

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What an evaluation computes from outputs and labels: a mean over all elements, softmax cross entropy over those of all dims but
/// the classes'.
enum class LossKind : std::uint8_t { softmax_cross_entropy, binary_cross_entropy, mean_squared_error, mean_absolute_error, huber };

/// Options of evaluate(). Every field has a default.
struct EvaluateOptions {
  std::string image = "image";                      ///< the input that the samples are fed to; its first dim is the batch
  std::string over{};                               ///< the output's dim of the classes; empty: the only one besides the batch
  std::optional<Index> ignored{};                   ///< rows with this label count for nothing
  double label_smoothing = 0;                       ///< as CrossEntropyOptions
  LossKind loss = LossKind::softmax_cross_entropy;  ///< the others have neither classes nor an accuracy
  double delta = 1;                                 ///< of LossKind::huber, as HuberOptions
  bool per_class = false;                           ///< counts Evaluation::confusion and in_top5: of at most kMostPerClass classes
  static constexpr Index kMostPerClass = 4096;      ///< number of classes
  std::function<void(Index samples)> progress{};    ///< called on rank 0 before each batch and at the end: how many are evaluated
};

/// How good the parameters are on labelled samples.
struct Evaluation {
  Index samples = 0;                          ///< that were seen
  std::optional<double> accuracy{};           ///< of classes: right / rows; of equal logits the first counts
  double mean_loss = 0;                       ///< over all rows, or all elements
  Index rows = 0;                             ///< that count: one per sample, or one per element of its labels
  std::vector<Index> confusion{};             ///< EvaluateOptions::per_class: rows by [label, answer], row-major
  Index in_top5 = 0;                          ///< likewise: rows whose label is among the five greatest logits
  double batch_seconds = 0;                   ///< median over batches, of the slowest rank, without reading the samples
  std::optional<double> predicted_seconds{};  ///< of a batch, by the plan; nothing without a profile
};

/// Collective: the options, and the number of samples, are those of rank 0. The same on every rank and, but for rounding of the
/// logits, for every layout. Every sample once: a short last batch is filled up and masked. In f64 from the logits, the predictor's
/// only output: one of its dims is the batch, one counts the classes. With further dims (positions, say) a sample has one row of
/// logits per element of these, and its label counts for each row. Real labels (EvaluateOptions::loss): one for each of an output's
/// elements. UserError, on all ranks: other outputs; no samples, or of other sizes than the input or the output; more classes than
/// logits; a label that is not a class.
Evaluation evaluate(Runtime& rt, Predictor& predictor, const std::shared_ptr<const Dataset>& data,
                    const EvaluateOptions& options = {});

/// @}
}  // namespace motley
