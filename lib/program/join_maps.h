// SPDX-License-Identifier: Apache-2.0
// Joins two maps into one.
#pragma once
#include <motley/program.h>

#include <optional>

namespace motley {

// `then` with the formula of `first` in place of what it reads from `buffer`, the only result of `first`: the same bits, since
// registers round as the elements of an f32 or f64 buffer do; what a bf16 buffer would have rounded stays f32. Nothing: it cannot
// be one kernel (the result of a reduction or several results, other registers, an element computed more than once, a sum inside a
// sum, too long), or it would read memory in another order than `first` does.
std::optional<RunKernel> join_maps(const RunKernel& first, const RunKernel& then, int buffer);

// Two sums over the same elements, neither of which reads the other's result, as one kernel with the results of both, those of
// `first` first: the same bits. Nothing: they are not such sums, or too long.
std::optional<RunKernel> join_sums(const RunKernel& first, const RunKernel& then);

}  // namespace motley
