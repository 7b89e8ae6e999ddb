// SPDX-License-Identifier: Apache-2.0
#include "kernels/one_hot.h"

#include "base/at.h"
#include "kernels/operands.h"

namespace motley {

std::optional<OneHot> one_hot_of(const KernelSpec& spec) {
  if (spec.op != KernelOp::map || spec.combine != Combine::add || spec.summands != 1 || spec.formula.results.size() != 1) return {};
  const auto& code = spec.formula.code;
  const auto instruction = [&](int i) -> const Instruction& { return at(code, i); };
  const Instruction& select = instruction(spec.formula.results.front());
  if (select.op != Opcode::select || code.size() != 6) return {};
  const Instruction &matches = instruction(select.a), &from = instruction(select.b), &zero = instruction(select.c);
  if (matches.op != Opcode::matches || from.op != Opcode::operand || zero.op != Opcode::constant || zero.value != 0) return {};
  const bool first = instruction(matches.a).op == Opcode::position;
  const Instruction &position = instruction(first ? matches.a : matches.b), &index = instruction(first ? matches.b : matches.a);
  if (position.op != Opcode::position || index.op != Opcode::integer) return {};
  const OneHot out{static_cast<std::size_t>(position.a), operand_at(spec, index.a), operand_at(spec, from.a)};
  const auto &t = spec.operands[out.index].strides, &result = spec.operands.back().strides;
  if (t[out.extent] != 0 && spec.extents[out.extent] != 1) return {};
  for (std::size_t i = 0; i < spec.extents.size() && result[out.extent] != 0; i++)
    if (t[i] != 0 && result[i] != 0 && spec.extents[i] > 1) return {};
  if (spec.operands[out.from].dtype == DType::bf16 || spec.operands.back().dtype == DType::bf16) return {};
  if (spec.dtype == DType::f32 && spec.operands[out.from].dtype == DType::f64) return {};  // x is rounded before it is added
  return out;
}

}  // namespace motley
