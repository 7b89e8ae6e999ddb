// SPDX-License-Identifier: Apache-2.0
// Runs a training step under a layout on ranks that are threads, and gathers what it made.
#pragma once
#include <motley/plan.h>

#include <map>
#include <string>
#include <vector>

namespace motley {

struct Outcome {
  double loss = 0;
  std::vector<double> logits{};
  std::map<std::string, std::vector<double>> gradients{};  // of the first step
  std::map<std::string, std::vector<double>> weights{};    // after the last
  std::vector<Index> counted{};                            // bytes per rank and step
};

// Inputs: integers or reals told by the element's global index and `seed`; labels in 0..classes-1.
Outcome run_plan(const Plan& plan, int steps, std::uint64_t seed);
// Largest difference over a tensor, divided by its largest magnitude.
double difference(const Outcome& a, const Outcome& b);

}  // namespace motley
