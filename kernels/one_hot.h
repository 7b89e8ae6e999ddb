// SPDX-License-Identifier: Apache-2.0
// Maps that select by an i32 operand: sum over v of (v == t ? x : 0): a row of x per t (v is reduced), or the sum for row v (v is
// kept). Backends that recognize this form need not try every v.
#pragma once
#include <motley/kernel_spec.h>

#include <optional>

namespace motley {

struct OneHot {
  std::size_t extent = 0;           // v
  std::size_t index = 0, from = 0;  // operands t and x of the kernel
};
// Nothing: the map has another form, or v is kept and t varies along another kept extent.
std::optional<OneHot> one_hot_of(const KernelSpec& spec);

}  // namespace motley
