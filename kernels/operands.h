// SPDX-License-Identifier: Apache-2.0
// What Kernel::run's operands are, computed from the spec: for the caller that allocates, fills, counts or compares them.
#pragma once
#include <motley/kernel_spec.h>

#include <array>
#include <vector>

namespace motley {

// Of the operands of convolutions, dense layers and pools on a device with memory of its own: what its vectors need.
inline constexpr int kDeviceAlignment = 16;

inline bool is_pool(KernelOp op) {
  return op == KernelOp::max_pool2d || op == KernelOp::avg_pool2d;
}
inline bool is_window(KernelOp op) {
  return op == KernelOp::conv2d || is_pool(op);
}

// Of a fold: operands before the result (`given` of add), and which of them holds labels (-1: none; then no extent runs over
// classes).
inline std::size_t fold_inputs(FoldKind fold, std::size_t given) {
  switch (fold) {
    case FoldKind::add: return given;
    case FoldKind::copy:
    case FoldKind::activation:
    case FoldKind::square: return 1;
    case FoldKind::activation_gradient:
    case FoldKind::pick_label: return 2;
    case FoldKind::sum_exp:
    case FoldKind::cross_entropy: return 3;
    case FoldKind::softmax_gradient: return 6;
  }
  return 0;
}
inline int label_operand(FoldKind fold) {
  return fold == FoldKind::pick_label ? 1 : fold == FoldKind::sum_exp ? 2 : fold == FoldKind::softmax_gradient ? 4 : -1;
}

constexpr Index kUpdateScalars = 2;  // of an update: learning rate, factor of the gradient

struct OperandUse {
  DType dtype = DType::f32;
  Format format = Format::plain;
  std::vector<Index> extents{};  // of the dense slice; of a fold operand: {elements}
  Index elements = 0;            // from element 0 to the last one, strided gaps included
  Index touched = 0;             // elements really read or written
  bool read = true, written = false;
  Index bytes() const { return elements * static_cast<Index>(bytes_of(dtype)); }
};

// In run()'s order, the result last (sgd: v and w are read and written; the scalars are f64).
std::vector<OperandUse> operands_of(const KernelSpec& spec);

}  // namespace motley
