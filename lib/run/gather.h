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

// Which ranks get the complete tensor; the others get no values.
enum class Gathered : std::uint8_t { everywhere, on_rank_0 };

// Collective: the complete tensor from every rank's boxes. InternalError: an element that no rank has, or several.
std::vector<double> put_together(const Shape& shape, const std::vector<BoxValues>& mine, Transport& transport,
                                 Gathered where = Gathered::everywhere);

enum class Part : std::uint8_t { value, gradient };

// Collective. A forward tensor that is an output of the step (loss, logits), or was kept. NaN: an element that no rank computes.
WholeTensor gather_output(const Plan& plan, const Program& program, const Executor& executor, Transport& transport, int tensor,
                          Gathered where = Gathered::everywhere);
// Collective. From the owners; InternalError when an element has no owner or two.
WholeTensor gather_parameter(const Plan& plan, const Program& program, const Executor& executor, Transport& transport,
                             int parameter, Part part, Gathered where = Gathered::everywhere);
}  // namespace motley
