// SPDX-License-Identifier: Apache-2.0
// Two maps as one.
#pragma once
#include <motley/program.h>

#include <optional>

namespace motley {

// `then` with the formula of `first` in place of what it reads from `buffer`, `first`'s only result: the same bits, since registers
// round as the elements of an f32 or f64 buffer do; what a bf16 buffer would have rounded stays f32. Nothing: one kernel cannot do
// it (the result of a reduction or several results, other registers, an element computed more than once, a sum inside a sum, too
// long), or it would read memory in another order than `first` does.
std::optional<RunKernel> join_maps(const RunKernel& first, const RunKernel& then, int buffer);

// Two sums over the same elements, neither of which reads what the other makes, as one kernel with the results of both, `first`'s
// first: the same bits. Nothing: they are not such, or too long.
std::optional<RunKernel> join_sums(const RunKernel& first, const RunKernel& then);

}  // namespace motley
