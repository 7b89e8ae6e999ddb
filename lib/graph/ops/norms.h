// SPDX-License-Identifier: Apache-2.0
// What norms share: y = (x - center) * scale * weight + bias, where center and scale = 1 / sqrt(variance + epsilon) are those of
// the elements along some dims. Partial sums in f64, global counts, so any cut gives the same. Mean and variance come of one
// reading; of groups, and of a rank's own samples, of two: the mean first, then centred squares.
#pragma once
#include <string>
#include <vector>

#include "graph/layer_kind.h"
#include "graph/nodes.h"

namespace motley {

struct NormForm {
  std::vector<std::string> over{};    // dims whose elements are normalised together
  std::vector<std::string> affine{};  // dims of weight and bias: `over`, or all others but the samples'
  bool centered = true;               // else the mean is taken as 0, and there is no bias
  double epsilon = 1e-5;
  bool running = false;   // statistics are kept for inference, which reads them instead
  double momentum = 0.1;  // of these
  bool local = false;     // of the samples (their dim is not in `over`) that a rank has: means of the samples' statistics
  std::string grouped{};  // a dim that is not in `over`, but so many groups of whose values are normalised together
  Index groups = 0;       // of these; they divide it
};

Tensor normalised(const std::string& op, const Tensor& x, const NormForm& form, const std::string& name);

// The dim that a norm is `of`: this one, or x's second.
Dim normalised_dim(const std::string& op, const Tensor& x, const Dim& of);
// The one that a model file's `of` names, if any.
Dim named_dim(const std::string& op, const std::vector<std::string>& names);

LayerKey over_key(const std::string& doc);
LayerKey epsilon_key(double standard);

}  // namespace motley
