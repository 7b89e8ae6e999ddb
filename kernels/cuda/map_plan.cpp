// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/map_plan.h"

#include <motley/error.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/map_extents.h"
#include "kernels/operands.h"

namespace motley::cuda {
namespace {

Index product(const std::vector<MapExtent>& extents) {
  Index all = 1;
  for (const MapExtent& e : extents) all *= e.size;
  return all;
}

struct Extents {
  std::vector<MapExtent> kept{}, reduced{};
};

Extents joined_extents(const KernelSpec& spec) {
  Extents out;
  for (MapExtent& extent : extents_of(spec))
    if (extent.size != 1) (extent.result() != 0 ? out.kept : out.reduced).push_back(std::move(extent));
  // So that neighbouring threads write neighbouring elements.
  std::stable_sort(out.kept.begin(), out.kept.end(),
                   [](const MapExtent& a, const MapExtent& b) { return std::abs(a.result()) > std::abs(b.result()); });
  join(out.kept);
  join(out.reduced);
  return out;
}

// "", or what exceeds a kernel's arguments.
std::string excess_of(const KernelSpec& spec, const Extents& extents) {
  const std::size_t inputs = input_count(spec), results = result_count(spec), most = kArgumentOperands,
                    in_table = inputs - std::min(inputs, most);
  if (results > kMostResults || in_table > static_cast<std::size_t>(std::max<Index>(0, spec.summands - 1)) ||
      spec.extents.size() > kMostOperands)
    return "a map of " + std::to_string(inputs) + " operands, " + std::to_string(results) + " results and " +
           std::to_string(spec.extents.size()) + " extents: the CUDA kernels take at most " + std::to_string(kArgumentOperands) +
           " (but for sums), " + std::to_string(kMostResults) + " and " + std::to_string(kMostOperands);
  const std::size_t count = extents.kept.size() + extents.reduced.size();
  if (count > kMostMapExtents)
    return "a map over " + std::to_string(count) + " extents: the CUDA kernels take at most " + std::to_string(kMostMapExtents);
  return "";
}

}  // namespace

bool supports_map(const KernelSpec& spec) {
  return excess_of(spec, joined_extents(spec)).empty();
}

PlannedMap plan_map(const KernelSpec& spec) {
  check_map(spec);
  const Extents extents = joined_extents(spec);
  const auto& [kept, reduced] = extents;
  if (const std::string excess = excess_of(spec, extents); !excess.empty()) throw DeviceError(excess);
  PlannedMap planned;
  MapPlan& plan = planned.plan;
  planned.formula = plain_of(spec.formula);
  plan.combine = spec.combine;
  plan.scale = spec.scale;
  plan.inputs = static_cast<int>(input_count(spec));
  plan.results = static_cast<int>(result_count(spec));
  plan.summands = static_cast<int>(spec.summands);
  plan.arguments = std::min(plan.inputs, kArgumentOperands);
  plan.in_table = plan.inputs - plan.arguments;
  planned.more.resize(static_cast<std::size_t>(plan.in_table));
  for (std::size_t k = 0; k < planned.more.size(); k++) planned.more[k].dtype = spec.operands[k].dtype;
  for (int k = 0; k < plan.arguments; k++) plan.dtype[k] = spec.operands[static_cast<std::size_t>(plan.in_table + k)].dtype;
  for (int k = 0; k < plan.results; k++) plan.result_dtype[k] = spec.operands[static_cast<std::size_t>(plan.inputs + k)].dtype;
  std::fill_n(plan.position, kMostOperands, std::int8_t{-1});
  for (std::size_t d = 0; d < spec.origin.size(); d++) plan.origin[d] = static_cast<std::int32_t>(spec.origin[d]);
  plan.elements = product(kept);
  plan.terms = product(reduced);
  if (plan.terms == 0 && spec.combine == Combine::set) plan.elements = 0;
  plan.kept = static_cast<int>(kept.size());
  for (const auto* list : {&kept, &reduced})
    for (const MapExtent& extent : *list) {
      const int d = plan.extents++;
      plan.size[d] = extent.size;
      for (std::size_t k = 0; k < planned.more.size(); k++) planned.more[k].stride[d] = extent.strides[k];
      std::copy_n(extent.strides.begin() + plan.in_table, plan.arguments, plan.stride[d]);
      std::copy_n(extent.strides.begin() + plan.inputs, plan.results, plan.result_stride[d]);
      if (extent.position >= 0) plan.position[extent.position] = static_cast<std::int8_t>(d);
    }
  // Few results with many values to reduce: enough parts to fill a device, each with enough work for a thread.
  constexpr Index kThreads = 65536, kLeastTerms = 32, kMostParts = 1024;
  if (plan.elements > 0)
    plan.parts = std::clamp(std::min(plan.terms / kLeastTerms, kThreads / plan.elements), Index{1}, kMostParts);
  return planned;
}

}  // namespace motley::cuda
