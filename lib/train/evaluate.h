// SPDX-License-Identifier: Apache-2.0
// How good the weights are on samples that were not trained on.
#pragma once
#include <motley/data.h>
#include <motley/executor.h>
#include <motley/runtime.h>

#include <memory>
#include <string>
#include <vector>

namespace motley {

struct Evaluation {
  Index samples = 0;
  double accuracy = 0;   // right / rows; the first of equal logits counts
  double mean_loss = 0;  // softmax cross entropy over all rows
};

struct FeedNames {
  std::string image = "image", label = "label";
};

// Collective; the same on every rank and, but for rounding of the logits, for every layout. The forward half of a training
// Program with the weights as they are; every sample once, a short last batch is padded and masked. In f64 from the logits,
// whose first dim is the batch; where they have more dims than that and the classes, a sample has several rows, all of its label.
// UserError: the step has no such logits; the data has no samples.
Evaluation evaluate(Runtime& rt, const Plan& plan, const Program& program, Executor& executor,
                    const std::shared_ptr<const Dataset>& data, const FeedNames& names = {});

// logits: row-major [labels.size(), rows.., classes, rows..]; samples whose label is kNoSample count for nothing.
struct Score {
  Index right = 0, rows = 0, samples = 0;
  double loss = 0;  // summed over rows
  void add(const std::vector<double>& logits, const std::vector<std::int32_t>& labels, Index classes,
           Index after = 1);  // after: elements of a class
};

}  // namespace motley
