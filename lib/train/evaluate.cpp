// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>

#include "base/at.h"
#include "plan/plan_data.h"
#include "run/gather.h"

namespace motley {

void Score::add(const std::vector<double>& logits, const std::vector<std::int32_t>& labels, Index classes, Index after) {
  const Index count = static_cast<Index>(labels.size()), block = classes * after;
  check(count > 0 && static_cast<Index>(logits.size()) % (count * block) == 0, "whole rows of logits per label");
  const Index blocks = static_cast<Index>(logits.size()) / block;
  std::vector<double> row(static_cast<std::size_t>(classes));
  for (Index b = 0; b < blocks; b++) {
    const std::int32_t label = at(labels, b / (blocks / count));
    if (label == kNoSample) continue;
    if (b % (blocks / count) == 0) samples++;
    for (Index i = 0; i < after; i++) {
      for (Index k = 0; k < classes; k++) at(row, k) = at(logits, b * block + k * after + i);
      const auto best = std::max_element(row.begin(), row.end());
      double sum = 0;
      for (const double v : row) sum += std::exp(v - *best);
      loss += std::log(sum) + *best - at(row, label);
      right += best - row.begin() == label ? 1 : 0;
      rows++;
    }
  }
}

namespace {

// Which of the logits' dims counts the classes: the one that the labels' loss runs over.
std::size_t class_dim(const Passes& passes) {
  for (const Pass& p : passes.passes)
    if (p.class_index >= 0)
      for (const PassOperand& o : p.reads)
        if (const auto found = std::find(o.indices.begin(), o.indices.end(), p.class_index);
            o.tensor == passes.logits && found != o.indices.end())
          return static_cast<std::size_t>(found - o.indices.begin());
  throw InternalError("a pass reads the logits' classes");
}

// A row-major tensor with its dim `at` outermost.
std::vector<double> outermost(const std::vector<double>& values, const Shape& shape, std::size_t found) {
  if (found == 0) return values;
  const auto size = static_cast<std::size_t>(shape[found].size);
  std::size_t before = 1;
  for (std::size_t d = 0; d < found; d++) before *= static_cast<std::size_t>(shape[d].size);
  const std::size_t after = values.size() / (before * size);
  std::vector<double> out(values.size());
  for (std::size_t k = 0; k < size; k++)
    for (std::size_t b = 0; b < before; b++)
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>((b * size + k) * after), after,
                  out.begin() + static_cast<std::ptrdiff_t>((k * before + b) * after));
  return out;
}

}  // namespace

Evaluation evaluate(Runtime& rt, const Plan& plan, const Program& program, Executor& executor,
                    const std::shared_ptr<const Dataset>& data, const FeedNames& names) {
  const Passes& passes = plan.data().passes;
  if (passes.logits < 0) throw UserError("this step has no softmax_cross_entropy, so there are no classes to evaluate");
  const Shape& shape = at(passes.tensors, passes.logits).shape;
  const std::size_t over = class_dim(passes);
  const Index classes = shape[over].size;
  Index after = 1;
  const std::size_t samples = shape.position(at(passes.tensors, passes.find(names.label)).shape[0].name);
  for (std::size_t d = over + 1; d < shape.rank(); d++)
    if (d != samples) after *= shape[d].size;
  if (data->samples() < 1) throw UserError("there is no sample to evaluate on", Exit::data);
  if (data->classes() > classes)
    throw UserError("the data has " + std::to_string(data->classes()) + " classes, the step's logits have " +
                    std::to_string(classes));
  const Index batch = shape[samples].size;
  Score score;
  for (Index first = 0; first < data->samples(); first += batch) {
    rt.phase("evaluating from sample " + std::to_string(first));
    std::vector<Index> which(static_cast<std::size_t>(batch), kNoSample);
    std::vector<std::int32_t> labels(which.size(), kNoSample);
    for (Index n = first; n < std::min(first + batch, data->samples()); n++) {
      at(which, n - first) = n;
      at(labels, n - first) = data->label(n);
    }
    const Batch b = batch_of(data, which, 0, 0);
    executor.feed([&](const std::string& name, const Box& box, std::span<std::byte> out) {
      check(name == names.image || name == names.label, "a step reads images and labels");
      (name == names.image ? b.images : b.labels)(box, out);
    });
    executor.run_forward();
    const std::vector<double> logits = gather_output(plan, program, executor, rt.transport(), passes.logits).values;
    score.add(outermost(logits, shape, samples), labels, classes, after);
  }
  const auto count = static_cast<double>(score.rows);
  return {score.samples, static_cast<double>(score.right) / count, score.loss / count};
}

}  // namespace motley
