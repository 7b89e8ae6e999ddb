// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/fold_plan.h"

#include <motley/error.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/operands.h"

namespace motley::cuda {
namespace {

struct Extent {
  Index size = 0;
  std::vector<Index> strides{};  // the result's last
  bool is_class = false;
};

// Neighbours that every operand walks like one extent.
void join(std::vector<Extent>& extents) {
  auto joins = [](const Extent& a, const Extent& b) {
    for (std::size_t k = 0; k < a.strides.size(); k++)
      if (a.strides[k] != b.strides[k] * b.size) return false;
    return !a.is_class && !b.is_class;
  };
  for (std::size_t i = 0; i + 1 < extents.size();) {
    if (!joins(extents[i], extents[i + 1])) {
      i++;
      continue;
    }
    extents[i + 1].size *= extents[i].size;
    extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

Index product(const std::vector<Extent>& extents) {
  Index all = 1;
  for (const Extent& e : extents) all *= e.size;
  return all;
}

}  // namespace

PlannedFold plan_fold(const KernelSpec& spec) {
  check(!spec.operands.empty(), "a fold has a result");
  PlannedFold planned;
  FoldPlan& plan = planned.plan;
  plan.kind = spec.fold;
  plan.combine = spec.combine;
  plan.activation = spec.activation;
  plan.scale = spec.scale;
  plan.inputs = static_cast<int>(spec.operands.size()) - 1;
  plan.arguments = std::min(plan.inputs, kArgumentOperands);
  planned.more.resize(static_cast<std::size_t>(plan.inputs - plan.arguments));
  plan.first_class = spec.first_class;
  std::vector<Extent> kept, reduced;
  for (std::size_t i = 0; i < spec.fold_extents.size(); i++) {
    const bool is_class = label_operand(spec.fold) >= 0 && spec.class_dim == static_cast<int>(i);
    Extent extent{spec.fold_extents[i], {}, is_class};
    for (const FoldOperand& operand : spec.operands) extent.strides.push_back(operand.strides[i]);
    const bool stays = extent.strides.back() != 0;
    check(stays || extent.size <= 1 || spec.combine != Combine::set, "set has no reduced index");
    if (extent.size != 1 || is_class) (stays ? kept : reduced).push_back(std::move(extent));
  }
  // Neighbouring threads write neighbouring elements.
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Extent& a, const Extent& b) { return std::abs(a.strides.back()) > std::abs(b.strides.back()); });
  join(kept);
  join(reduced);
  plan.elements = product(kept);
  plan.terms = product(reduced);
  if (plan.terms == 0 && spec.combine == Combine::set) plan.elements = 0;
  if (kept.size() + reduced.size() > kMostFoldExtents)
    throw DeviceError("a fold over " + std::to_string(kept.size() + reduced.size()) + " extents: the CUDA kernels take at most " +
                      std::to_string(kMostFoldExtents));
  plan.kept = static_cast<int>(kept.size());
  for (const auto* list : {&kept, &reduced})
    for (const Extent& extent : *list) {
      const int d = plan.extents++;
      plan.size[d] = extent.size;
      std::copy_n(extent.strides.begin(), plan.arguments, plan.stride[d]);
      for (std::size_t k = 0; k < planned.more.size(); k++)
        planned.more[k].stride[d] = extent.strides[static_cast<std::size_t>(plan.arguments) + k];
      plan.result_stride[d] = extent.strides.back();
      if (extent.is_class) plan.class_extent = d;
    }
  // Few results of many terms: parts enough to fill a device, of no fewer terms than a thread is worth.
  constexpr Index kThreads = 65536, kLeastTerms = 32, kMostParts = 1024;
  if (plan.elements > 0)
    plan.parts = std::clamp(std::min(plan.terms / kLeastTerms, kThreads / plan.elements), Index{1}, kMostParts);
  return planned;
}

}  // namespace motley::cuda
