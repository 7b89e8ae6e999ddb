// SPDX-License-Identifier: Apache-2.0
#include <motley/step.h>

#include <algorithm>

#include "base/at.h"
#include "base/hash.h"
#include "graph/micro_batches.h"
#include "graph/nodes.h"
#include "graph/step_fields.h"

namespace motley {

std::vector<std::string> Step::parameters() const {
  std::vector<std::string> out;
  for (int p : passes_->parameters) out.push_back(at(passes_->tensors, p).name);
  return out;
}

std::uint64_t Step::hash() const {
  return hash_of(*passes_);
}

Step training(const Tensor& loss, const Optimizer& optimizer, const TrainingOptions& options) {
  auto graph = GraphNodes::graph_of({loss});
  if (loss.shape().rank() != 0) throw UserError("\"" + loss.name() + "\" is not a scalar; take its mean() or sum() to train on it");
  Lowering to(*graph, {GraphNodes::id(loss)});
  to.lower(*graph, true, GraphNodes::id(loss));
  Passes out = to.out();
  if (out.parameters.empty())
    throw UserError("\"" + loss.name() + "\" does not depend on any parameter: there is nothing to train");
  out.loss = out.find(loss.name());
  out.outputs = {out.loss};
  if (out.logits >= 0) out.outputs.push_back(out.logits);
  for (int p : out.parameters) out.parameter_gradients.push_back(out.find("gradient of " + at(out.tensors, p).name));
  check(std::find(out.parameter_gradients.begin(), out.parameter_gradients.end(), -1) == out.parameter_gradients.end(),
        "every parameter that the loss depends on has a gradient");
  UpdateScalars scalars{std::get<Sgd>(optimizer).learning_rate, options.schedule, options.clip_norm};
  out.optimizer = optimizer;
  std::get<Sgd>(out.optimizer).learning_rate = 0;
  out.clips = options.clip_norm > 0;
  out.trains = true;
  cut_batch(out, options.accumulate);
  return {std::make_shared<const Passes>(std::move(out)), std::move(scalars)};
}

Step inference(const std::vector<Tensor>& outputs) {
  auto graph = GraphNodes::graph_of(outputs);
  std::vector<int> ids;
  for (const Tensor& t : outputs) ids.push_back(GraphNodes::id(t));
  Lowering to(*graph, ids);
  to.lower(*graph, false, -1);
  Passes out = to.out();
  for (const Tensor& t : outputs) out.outputs.push_back(out.find(t.name()));
  return {std::make_shared<const Passes>(std::move(out)), {}};
}

}  // namespace motley
