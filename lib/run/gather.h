// SPDX-License-Identifier: Apache-2.0
// Whole tensors assembled from what the ranks hold, for checks and dumps.
#pragma once
#include <motley/executor.h>

#include <string>
#include <vector>

namespace motley {

struct WholeTensor {
  std::string name{};
  Shape shape{};
  std::vector<double> values{};  // row-major; NaN: no rank holds it
};

// Collective: the complete tensor from every rank's boxes. An element that no rank has is NaN.
std::vector<double> put_together(const Shape& shape, const std::vector<BoxValues>& mine, Transport& transport);

// The same on rank 0 only; the other ranks get nothing.
std::vector<double> put_together_on_first(const Shape& shape, const std::vector<BoxValues>& mine, Transport& transport);

enum class Part : std::uint8_t { value, gradient };

// Collective: every rank calls it, every rank gets the result. A forward tensor that is an output of the step (loss, logits).
WholeTensor gather_output(const Plan& plan, const Program& program, const Executor& executor, Transport& transport, int tensor);
// Collective. Gathered from the owners; InternalError if an element has no owner or two.
WholeTensor gather_parameter(const Plan& plan, const Program& program, const Executor& executor, Transport& transport,
                             int parameter, Part part);
}  // namespace motley
