// SPDX-License-Identifier: Apache-2.0
// The fields of a KernelSpec, as they are hashed and written to JSON.
#pragma once
#include <motley/kernel_spec.h>

#include "base/fields.h"

namespace motley {

template <>
struct Fields<Roles> {
  static constexpr std::tuple list{
      field("n", &Roles::n, "extent", 0), field("c", &Roles::c, "extent", 0),
      field("h", &Roles::h, "extent", 0), field("w", &Roles::w, "extent", 0),
      field("f", &Roles::f, "extent", 0), field("r", &Roles::r, "extent", 0),
      field("s", &Roles::s, "extent", 0), field("p", &Roles::p, "extent", 0),
      field("q", &Roles::q, "extent", 0), field("g", &Roles::g, "groups of conv2d, batch of dense and attention", 0)};
};
template <>
struct Fields<Instruction> {
  static constexpr std::tuple list{field("op", &Instruction::op), field("a", &Instruction::a), field("b", &Instruction::b),
                                   field("c", &Instruction::c), field("value", &Instruction::value)};
};
template <>
struct Fields<Formula> {
  static constexpr std::tuple list{field("code", &Formula::code), field("results", &Formula::results)};
};
template <>
struct Fields<MapOperand> {
  static constexpr std::tuple list{field("dtype", &MapOperand::dtype, "element type"),
                                   field("strides", &MapOperand::strides, "elements, one per extent")};
};
template <>
struct Fields<KernelSpec> {
  using S = KernelSpec;
  static constexpr std::tuple list{
      field("op", &S::op, "which computation"),
      field("pass", &S::pass, "forward or a gradient"),
      field("dtype", &S::dtype, "of every float operand"),
      field("result", &S::result, "of a contraction's result, where dtype is bf16"),
      field("roles", &S::roles, "extents by letter"),
      field("stride", &S::stride, "rows, cols", 1),
      field("dilation", &S::dilation, "rows, cols", 1),
      field("padding", &S::padding, "top, bottom, left, right"),
      field("halo", &S::halo, "of pools: what their windows cover beyond the shard: top, bottom, left, right", 0),
      field("x_format", &S::x_format, "of x and dx"),
      field("w_format", &S::w_format, "of w and dw"),
      field("y_format", &S::y_format, "of y and dy"),
      field("bias", &S::bias, "operand b[f]"),
      field("accumulate", &S::accumulate, "y is added to"),
      field("epilogue", &S::epilogue, "formula of the result"),
      field("formula", &S::formula, "of a map, as text"),
      field("summands", &S::summands, "first operands that are added", 0),
      field("combine", &S::combine, "how results meet"),
      field("scale", &S::scale, "factor of the result"),
      field("extents", &S::extents, "of a map", 0),
      field("operands", &S::operands, "of a map, results last"),
      field("origin", &S::origin, "global index of each extent's 0", 0),
      field("whole", &S::whole, "elements of the map that this is a block of", 0),
      field("causal", &S::causal, "of attention: causal, later keys are masked"),
      field("share", &S::share, "of attention: heads that have one row of the mask", 0),
      field("made", &S::made, "of attention: results, 1 for the first, 2 for the second, 4 for the third", 0),
      field("heads", &S::heads, "of attention: how many of g are adjacent in memory", 1)};
};

}  // namespace motley
