// SPDX-License-Identifier: Apache-2.0
// Shared by the norms: y = (x - center) * scale * weight + bias, where center and scale = 1 / sqrt(variance + epsilon) are those of
// the elements along some dims. Partial sums are in f64 and counts global, so any cut gives the same result. Mean and variance are
// computed in one reading of x; for groups, and for a rank's own samples, in two: the mean first, then centred squares.
#pragma once
#include <string>
#include <vector>

#include "graph/layer_kind.h"
#include "graph/nodes.h"

namespace motley {

struct NormForm {
  std::vector<std::string> over{};    // dims whose elements are normalised together
  std::vector<std::string> affine{};  // dims of weight and bias: `over`, or all dims except `over` and the samples'
  bool centered = true;               // else the mean is taken as 0, and there is no bias
  double epsilon = 1e-5;
  bool running = false;   // statistics are kept for inference, which reads them instead
  double momentum = 0.1;  // of the running statistics
  bool local = false;  // statistics of the samples that a rank has (their dim is not in `over`): means of the per-sample statistics
  std::string grouped{};  // a dim that is not in `over`, but whose values are normalised together in groups
  Index groups = 0;       // number of these groups; divides the dim's size
};

Tensor normalised(const std::string& op, const Tensor& x, const NormForm& form, const std::string& name);

// The dim that a norm is `of`: the given one, or x's second.
Dim normalised_dim(const std::string& op, const Tensor& x, const Dim& of);
// The dim that a model file's `of` names, if any.
Dim named_dim(const std::string& op, const std::vector<std::string>& names);

LayerKey over_key(const std::string& doc);
LayerKey epsilon_key(double standard);

}  // namespace motley
