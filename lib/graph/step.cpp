// SPDX-License-Identifier: Apache-2.0
#include <motley/step.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "graph/nodes.h"

namespace motley {

namespace {

void mix(std::uint64_t& h, const std::string& text) {  // FNV-1a
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  h = (h ^ 0xFFU) * 1099511628211ULL;
}
void mix(std::uint64_t& h, Index v) { mix(h, std::to_string(v)); }

std::uint64_t hash_of(const Passes& all) {
  std::uint64_t h = 14695981039346656037ULL;
  for (const StepTensor& t : all.tensors) {
    mix(h, t.name);
    for (const Dim& d : t.shape.dims()) mix(h, d.name), mix(h, d.size);
  }
  for (const Pass& p : all.passes) {
    mix(h, p.name);
    for (const Window& w : p.windows) mix(h, w.stride), mix(h, w.before), mix(h, w.dilation);
    for (const PassIndex& i : p.indices) mix(h, i.name), mix(h, i.size);
    mix(h, static_cast<Index>(p.activation));
  }
  if (const Sgd* sgd = std::get_if<Sgd>(&all.optimizer); sgd != nullptr && all.trains) {
    for (double v : {sgd->learning_rate, sgd->momentum, sgd->weight_decay}) mix(h, std::bit_cast<Index>(v));
  }
  return h;
}

}  // namespace

std::vector<std::string> Step::parameters() const {
  std::vector<std::string> out;
  for (int p : passes_->parameters) out.push_back(passes_->tensors[static_cast<std::size_t>(p)].name);
  return out;
}

std::uint64_t Step::hash() const { return hash_of(*passes_); }

Step training(const Tensor& loss, const Optimizer& optimizer) {
  auto graph = GraphNodes::graph_of({loss});
  if (loss.shape().rank() != 0) throw UserError("\"" + loss.name() + "\" is no scalar; take its mean() or sum() to train on it");
  Lowering to(*graph, {GraphNodes::id(loss)});
  to.lower(*graph, true, GraphNodes::id(loss));
  Passes out = to.out();
  if (out.parameters.empty()) throw UserError("no parameter lies behind \"" + loss.name() + "\": there is nothing to train");
  out.loss = out.find(loss.name());
  out.outputs = {out.loss};
  if (out.logits >= 0) out.outputs.push_back(out.logits);
  for (int p : out.parameters) out.parameter_gradients.push_back(out.find("gradient of " + out.tensors[static_cast<std::size_t>(p)].name));
  check(std::find(out.parameter_gradients.begin(), out.parameter_gradients.end(), -1) == out.parameter_gradients.end(),
        "every parameter behind the loss has a gradient");
  out.optimizer = optimizer;
  out.trains = true;
  return Step(std::make_shared<const Passes>(std::move(out)));
}

Step inference(const std::vector<Tensor>& outputs) {
  auto graph = GraphNodes::graph_of(outputs);
  std::vector<int> ids;
  for (const Tensor& t : outputs) ids.push_back(GraphNodes::id(t));
  Lowering to(*graph, ids);
  to.lower(*graph, false, -1);
  Passes out = to.out();
  for (const Tensor& t : outputs) out.outputs.push_back(out.find(t.name()));
  return Step(std::make_shared<const Passes>(std::move(out)));
}

}  // namespace motley
