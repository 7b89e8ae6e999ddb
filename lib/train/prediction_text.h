// SPDX-License-Identifier: Apache-2.0
// A network's outputs for people and for other programs: the most probable classes of each sample by name, or the values.
#pragma once
#include <string>
#include <vector>

#include "train/predict.h"

namespace motley {

struct PredictionText {
  const Predictions& outputs;
  std::vector<std::string> samples{};  // names; of the samples without one: their numbers
  std::string over{};                  // the dim that counts the classes; empty: outputs are values without classes
  std::vector<std::string> classes{};  // names, by number; of the classes without one: their numbers
  Index top = 1;                       // classes that are named
};
// One line for each row of logits: its sample (and its place in it), then the classes with their probabilities.
std::string prediction_lines(const PredictionText& of);
// With a header: sample, the row's further dims, class, probability, class_2, probability_2, ...; without classes: value.
std::string prediction_csv(const PredictionText& of);
// { "classes": [...], "samples": [{ "sample", further dims, "top": [{ "class", "number", "probability" }], "logits" }] }; without
// classes: "value" of each element.
std::string prediction_json(const PredictionText& of);

}  // namespace motley
