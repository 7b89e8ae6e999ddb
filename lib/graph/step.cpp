// SPDX-License-Identifier: Apache-2.0
#include <motley/step.h>

#include <algorithm>

#include "base/at.h"
#include "base/hash.h"
#include "graph/fan_in.h"
#include "graph/micro_batches.h"
#include "graph/name_patterns.h"
#include "graph/needed_passes.h"
#include "graph/nodes.h"
#include "graph/step_fields.h"
#include "graph/storage.h"
#include "graph/training_ranges.h"

namespace motley {

const Passes& Step::passes() const {
  if (passes_ == nullptr) throw UserError("a Step was used that has been moved from");
  return *passes_;
}

std::vector<std::string> Step::parameters() const {
  std::vector<std::string> out;
  for (int p : passes().parameters)
    if (passes().statistic(p) == nullptr) out.push_back(at(passes().tensors, p).name);
  return out;
}

std::uint64_t Step::hash() const {
  return hash_of(passes());
}

namespace {

bool stores_bf16(DType storage) {
  if (storage != DType::f32 && storage != DType::bf16)
    throw UserError("activations are stored in f32 or bf16, not " + to_string(storage));
  return storage == DType::bf16;
}

// Whether `node` depends on `on`. Inputs come before what is made of them.
bool depends(const GraphNodes& graph, int node, int on) {
  std::vector<bool> made_of_it(graph.nodes.size(), false);
  at(made_of_it, on) = true;
  for (int n = on + 1; n <= node; n++)
    for (int in : at(graph.nodes, n).inputs)
      if (at(made_of_it, in)) at(made_of_it, n) = true;
  return node != on && at(made_of_it, node);
}

// The gradient of a loss is 1: no other gradient may be added to it.
void check_losses(const std::vector<Tensor>& losses, const GraphNodes& graph) {
  for (const Tensor& loss : losses) {
    if (loss.shape().rank() != 0)
      throw UserError("\"" + loss.name() + "\" is not a scalar; take its mean() or sum() to train on it");
    for (const Tensor& other : losses) {
      if (&loss != &other && loss.name() == other.name()) throw UserError("the loss \"" + loss.name() + "\" is listed twice");
      if (&loss != &other && depends(graph, GraphNodes::id(other), GraphNodes::id(loss)))
        throw UserError("the loss \"" + other.name() + "\" depends on the loss \"" + loss.name() + "\"; train on one of them");
    }
  }
}

// Marks the parameters that options.freeze names. UserError: a pattern of the options that no parameter matches; nothing is left to
// train.
void freeze(Passes& all, const TrainingOptions& options) {
  std::vector<std::string> names;
  for (const int p : all.parameters)
    if (all.statistic(p) == nullptr) names.push_back(at(all.tensors, p).name);
  const auto require_match = [&](const char* what, const std::string& pattern) {
    if (const std::string wrong = wrong_pattern(pattern, names); !wrong.empty()) throw UserError(std::string(what) + ": " + wrong);
  };
  for (const std::string& pattern : options.freeze) require_match("freeze", pattern);
  for (const ParameterGroup& group : options.groups) require_match("groups, match", group.match);
  bool trained = false;
  for (const int p : all.parameters)
    if (all.statistic(p) == nullptr) {
      StepTensor& parameter = at(all.tensors, p);
      parameter.frozen = matches_any(options.freeze, parameter.name);
      trained = trained || !parameter.frozen;
    }
  if (!trained) throw UserError("freeze: all parameters are frozen: there is nothing to train");
}

// The gradient of each parameter, and the passes that compute them.
void want_gradients(Passes& all) {
  std::vector<int> gradients(all.tensors.size(), -1);
  for (std::size_t t = 0; t < all.tensors.size(); t++)
    if (all.tensors[t].role == TensorRole::parameter_gradient) at(gradients, all.tensors[t].of) = static_cast<int>(t);
  for (const int p : all.parameters) {
    check(at(gradients, p) >= 0, "every parameter that the loss depends on has a gradient");
    all.parameter_gradients.push_back(at(all.tensors, p).frozen ? -1 : at(gradients, p));
  }
  drop_unneeded(all);
}

}  // namespace

Step training(const Tensor& loss, const Optimizer& optimizer, const TrainingOptions& options) {
  return training(std::vector<Tensor>{loss}, optimizer, options);
}

Step training(const std::vector<Tensor>& losses, const Optimizer& optimizer, const TrainingOptions& options) {
  if (losses.empty()) throw UserError("there is no loss to train on");
  if (losses.size() > kMostLosses)
    throw UserError(std::to_string(losses.size()) + " losses; a step takes " + std::to_string(kMostLosses) +
                    " at most; combine some with add()");
  auto graph = GraphNodes::graph_of(losses);
  check_losses(losses, *graph);
  check_options(options);
  std::vector<int> ids;
  for (const Tensor& t : losses) ids.push_back(GraphNodes::id(t));
  Lowering to(*graph, ids, true, options.accumulate);
  to.lower(*graph, ids);
  Passes out = to.out();
  for (const Tensor& t : losses) out.outputs.push_back(out.find(t.name()));
  set_fan_in(out);
  if (out.parameters.size() == out.statistics.size())
    throw UserError("\"" + losses.front().name() + "\" does not depend on any parameter: there is nothing to train");
  freeze(out, options);
  want_gradients(out);
  UpdateScalars scalars{.learning_rate = optimizer.learning_rate,
                        .schedule = options.schedule,
                        .clip_norm = options.clip_norm,
                        .average = options.average,
                        .weight_decay = optimizer.weight_decay,
                        .decay = optimizer.decay,
                        .groups = options.groups};
  out.optimizer = optimizer;
  out.optimizer.learning_rate = out.optimizer.weight_decay = 0;
  out.optimizer.decay = Decay::all;
  out.clips = options.clip_norm > 0;
  out.averages = options.average > 0;
  if (stores_bf16(options.storage)) store_in_bf16(out);
  cut_batch(out, options.accumulate);
  return {std::make_shared<const Passes>(std::move(out)), std::move(scalars)};
}

Step inference(const std::vector<Tensor>& outputs, DType storage) {
  auto graph = GraphNodes::graph_of(outputs);
  std::vector<int> ids;
  for (const Tensor& t : outputs) ids.push_back(GraphNodes::id(t));
  Lowering to(*graph, ids, false);
  to.lower(*graph, {});
  Passes out = to.out();
  for (const Tensor& t : outputs) out.outputs.push_back(out.find(t.name()));
  set_fan_in(out);
  if (stores_bf16(storage)) store_in_bf16(out);
  return {std::make_shared<const Passes>(std::move(out)), {}};
}

}  // namespace motley
