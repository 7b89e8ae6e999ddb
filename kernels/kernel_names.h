// SPDX-License-Identifier: Apache-2.0
// The words for KernelSpec's enums, in the order of the enumerators: JSON, summaries and messages use the same ones.
#pragma once
#include <motley/kernel_spec.h>

#include <string>
#include <vector>

namespace motley {

inline const std::vector<std::string> kKernelOpNames{"conv2d", "dense", "max_pool2d", "avg_pool2d", "map", "attention"};
inline const std::vector<std::string> kPassKindNames{"forward", "backward_data", "backward_filter"};
inline const std::vector<std::string> kOpcodeNames{"operand", "integer", "scalar",  "constant",   "position", "add",     "sub",
                                                   "mul",     "div",     "less",    "less_equal", "equal",    "matches", "precedes",
                                                   "select",  "exp",     "expm1",   "log",        "log1p",    "sqrt",    "tanh",
                                                   "erf",     "mix",     "uniform", "whole"};
inline const std::vector<std::string> kCombineNames{"set", "add", "max"};
inline const std::vector<std::string> kDTypeNames{"f32", "f64", "i32", "bf16"};
inline const std::vector<std::string> kFormatNames{"plain", "channels_last"};

inline const std::vector<std::string>& names_of(KernelOp) {
  return kKernelOpNames;
}
inline const std::vector<std::string>& names_of(PassKind) {
  return kPassKindNames;
}
inline const std::vector<std::string>& names_of(Opcode) {
  return kOpcodeNames;
}
inline const std::vector<std::string>& names_of(Combine) {
  return kCombineNames;
}
inline const std::vector<std::string>& names_of(DType) {
  return kDTypeNames;
}
inline const std::vector<std::string>& names_of(Format) {
  return kFormatNames;
}

template <class E>
requires requires(E v) {
  names_of(v);
}
const std::string& name_of(E v) {
  return names_of(v).at(static_cast<std::size_t>(v));
}

}  // namespace motley
