// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>

#include "plan/plan_data.h"
#include "run/gather.h"

namespace motley {

void Score::add(const std::vector<double>& logits, const std::vector<std::int32_t>& labels) {
  check(!labels.empty() && logits.size() % labels.size() == 0, "one row of logits per label");
  const std::size_t classes = logits.size() / labels.size();
  for (std::size_t n = 0; n < labels.size(); n++) {
    if (labels[n] == kNoSample) continue;
    const double* row = logits.data() + n * classes;
    const double* best = std::max_element(row, row + classes);
    double sum = 0;
    for (std::size_t k = 0; k < classes; k++) sum += std::exp(row[k] - *best);
    loss += std::log(sum) + *best - row[labels[n]];
    right += best - row == labels[n] ? 1 : 0;
    samples++;
  }
}

Evaluation evaluate(Runtime& rt, const Plan& plan, const Program& program, Executor& executor,
                    const std::shared_ptr<const Dataset>& data, const FeedNames& names) {
  const Passes& passes = plan.data().passes;
  if (passes.logits < 0) throw UserError("this step has no softmax_cross_entropy, so there are no classes to evaluate");
  const Shape& shape = passes.tensors[static_cast<std::size_t>(passes.logits)].shape;
  if (shape.rank() != 2) throw UserError("evaluation needs one row of logits per sample, these have " + std::to_string(shape.rank()) + " dims");
  if (data->samples() < 1) throw UserError("there is no sample to evaluate on", Exit::data);
  if (data->classes() > shape[1].size)
    throw UserError("the data has " + std::to_string(data->classes()) + " classes, the step's logits have " + std::to_string(shape[1].size));
  const Index batch = shape[0].size;
  Score score;
  for (Index first = 0; first < data->samples(); first += batch) {
    rt.phase("evaluating from sample " + std::to_string(first));
    std::vector<Index> which(static_cast<std::size_t>(batch), kNoSample);
    std::vector<std::int32_t> labels(which.size(), kNoSample);
    for (Index n = first; n < std::min(first + batch, data->samples()); n++) {
      which[static_cast<std::size_t>(n - first)] = n;
      labels[static_cast<std::size_t>(n - first)] = data->label(n);
    }
    const Batch b = batch_of(data, which, 0, 0);
    executor.feed([&](const std::string& name, const Box& box, std::span<std::byte> out) {
      check(name == names.image || name == names.label, "a step reads images and labels");
      (name == names.image ? b.images : b.labels)(box, out);
    });
    executor.run_forward();
    score.add(gather_output(plan, program, executor, rt.transport(), passes.logits).values, labels);
  }
  const auto count = static_cast<double>(score.samples);
  return {score.samples, static_cast<double>(score.right) / count, score.loss / count};
}

}  // namespace motley
