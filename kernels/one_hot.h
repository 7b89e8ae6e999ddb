// SPDX-License-Identifier: Apache-2.0
// Maps that take what an i32 operand names: sum over v of (v == t ? x : 0), a row of x per t (v is reduced), or what is added to
// row v (v is kept). Backends that know the form need not try every v.
#pragma once
#include <motley/kernel_spec.h>

#include <optional>

namespace motley {

struct OneHot {
  std::size_t extent = 0;           // v
  std::size_t index = 0, from = 0;  // operands t and x of the kernel
};
// Nothing: the map has another form, or t differs along a kept extent while v is kept too.
std::optional<OneHot> one_hot_of(const KernelSpec& spec);

}  // namespace motley
