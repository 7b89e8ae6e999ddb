// SPDX-License-Identifier: Apache-2.0
// What eval and predict print and write.
#pragma once
#include <motley/predictor.h>

#include <string>
#include <vector>

#include "app/rank_verbs.h"
#include "train/predict.h"

namespace motley::app {

// Of an evaluation: loss, accuracy and samples; with per_class also each class's figures, which were most often taken for it, the
// confusion and, for masks (two or more labels' dims), intersection over union. names: of the classes, by number.
std::string evaluation_text(const Evaluation& of, const Options& options, const std::vector<std::string>& names, bool masks);

// Of a prediction: writes -o, and returns what is printed. Rank 0. UserError (74).
std::string give_predictions(const Predictions& outputs, const Task& task, const std::vector<std::string>& samples,
                             const std::vector<std::string>& classes);
// UserError (64): -o has no name of a form that is written, or there is neither -o nor --top.
void check_answer_options(const Options& options);

}  // namespace motley::app
