// SPDX-License-Identifier: Apache-2.0
// Maps for tests, and the formulas that ops make.
#pragma once
#include <motley/ops.h>
#include <motley/step.h>

#include "graph/passes.h"
#include "graph/pointwise.h"
#include "kernels/value.h"

namespace motley::testing {

// f32 operands, results last; strides per operand.
inline KernelSpec map_of(const Formula& formula, std::vector<Index> extents, const std::vector<std::vector<Index>>& strides) {
  KernelSpec spec;
  spec.op = KernelOp::map;
  spec.formula = formula;
  spec.extents = std::move(extents);
  for (const auto& one : strides) spec.operands.push_back({DType::f32, one});
  return spec;
}
inline KernelSpec copy_of(std::vector<Index> extents, const std::vector<std::vector<Index>>& strides) {
  return map_of({}, std::move(extents), strides);
}
inline KernelSpec sum_of(std::vector<Index> extents, const std::vector<std::vector<Index>>& strides) {
  KernelSpec spec = map_of({}, std::move(extents), strides);
  spec.summands = static_cast<Index>(strides.size()) - 1;
  return spec;
}
inline KernelSpec in_f64(KernelSpec spec) {
  spec.dtype = DType::f64;
  for (MapOperand& operand : spec.operands)
    if (operand.dtype == DType::f32 || operand.dtype == DType::bf16) operand.dtype = DType::f64;
  spec.result = DType::f32;
  return spec;
}

inline Formula forward_of(const std::string& op) {
  return Pointwise::find(op)->forward();
}

// Of the pass with this name in a step.
inline Formula formula_of(const Step& step, const std::string& pass) {
  for (const Pass& p : step.passes().passes)
    if (p.name == pass) return p.formula;
  throw std::runtime_error("no pass \"" + pass + "\"");
}

// Of x[n], whose gradient is that of sum(op(x)).
inline Formula gradient_of(const std::string& op) {
  Graph g;
  const Tensor x = dense(g.input("x", {{"n", 2}, {"c", 3}}), {.out = {Dim{"f", 4}}, .name = "d"});
  return formula_of(training(sum((*Pointwise::find(op))(x, "y")), Sgd{}), "y backward_data");
}

// softmax_cross_entropy over logits[n classes]: "max", "sum_exp", "pick_label", "forward", "backward_data".
inline Formula softmax_formula(const std::string& what) {
  Graph g;
  const Dim n{"n", 2}, classes{"classes", 3};
  const Tensor logits = dense(g.input("x", {n, {"c", 3}}), {.out = {classes}, .name = "d"});
  const Tensor label = g.input("label", {n}, DType::i32);
  return formula_of(training(sum(softmax_cross_entropy(logits, label, classes, {.name = "loss"})), Sgd{}), "loss " + what);
}

}  // namespace motley::testing
