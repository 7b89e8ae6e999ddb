// SPDX-License-Identifier: Apache-2.0
#include "kernels/loops/fold_plan.h"

#include <motley/error.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/operands.h"

namespace motley::cpu {
namespace {

constexpr Index kChunk = 512;          // fold.inc: elements of one call
constexpr Index kTileElements = 8192;  // one unit of an elementwise fold: 32 KiB per operand
constexpr Index kTransposeTile = 64;   // both sides of a tile fit in the first-level cache
constexpr Index kTogether = 8;         // reduce.inc

// One extent of the fold with every operand's stride, the result's last.
struct Extent {
  Index size = 1;
  std::vector<Index> strides{};
  bool is_class = false;
  Index result() const { return strides.back(); }
};

void check_spec(const KernelSpec& spec) {
  check(!spec.operands.empty() && fold_inputs(spec.fold, spec.operands.size() - 1) == spec.operands.size() - 1,
        "a fold has the operands of its function");
  for (const FoldOperand& operand : spec.operands)
    check(operand.strides.size() == spec.fold_extents.size(), "a fold operand has one stride per extent");
  check(
      label_operand(spec.fold) < 0 || (spec.class_dim >= 0 && static_cast<std::size_t>(spec.class_dim) < spec.fold_extents.size()),
      "class_dim is one of the extents");
  if (spec.fold_extents.size() + 3 > kMostFoldExtents)
    throw DeviceError("a fold over " + std::to_string(spec.fold_extents.size()) + " extents: the CPU loops take at most " +
                      std::to_string(kMostFoldExtents - 3));
  const auto labels = static_cast<std::size_t>(label_operand(spec.fold));  // -1: no operand
  const bool words = spec.fold == FoldKind::copy && spec.scale == 1 && spec.combine == Combine::set;
  for (std::size_t i = 0; i < spec.operands.size(); i++) {
    const DType dtype = spec.operands[i].dtype;
    const bool fits = i == labels ? dtype == DType::i32 : dtype == DType::f32 || (words && dtype == spec.operands[0].dtype);
    if (!fits || dtype == DType::f64 || (words && dtype != spec.operands[0].dtype))
      throw DeviceError("fold operand " + std::to_string(i) + " is " + to_string(dtype) +
                        ": the CPU loops fold f32, with i32 labels, and copy i32 to i32");
  }
}

// a then b walk memory like one extent.
bool joins(const Extent& a, const Extent& b) {
  if (a.is_class || b.is_class) return false;
  for (std::size_t k = 0; k < a.strides.size(); k++)
    if (a.strides[k] != b.strides[k] * b.size) return false;
  return true;
}

void join(std::vector<Extent>& extents) {
  for (std::size_t i = 0; i + 1 < extents.size();) {
    if (joins(extents[i], extents[i + 1])) {
      extents[i + 1].size *= extents[i].size;
      extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      i++;
    }
  }
}

// Every operand walks it contiguously or stands still, and one of the inputs walks.
bool is_vector(const Extent& extent) {
  bool walks = false;
  for (std::size_t k = 0; k + 1 < extent.strides.size(); k++) {
    if (extent.strides[k] != 0 && extent.strides[k] != 1) return false;
    walks = walks || extent.strides[k] == 1;
  }
  return walks;
}

void pad(std::vector<Extent>& extents, std::size_t count, std::size_t operands) {
  while (extents.size() < count) extents.insert(extents.begin(), Extent{1, std::vector<Index>(operands, 0), false});
}

void tile_elementwise(FoldPlan& plan, std::vector<Extent>& kept, const KernelSpec& spec) {
  FoldLoop& loop = plan.loop;
  // A copy whose operand is contiguous along another extent: that one becomes the plane's rows.
  if (spec.fold == FoldKind::copy && kept.size() > 1 && kept.back().strides[0] != 1 && kept.back().result() == 1) {
    const auto rows = std::find_if(kept.begin(), kept.end() - 1, [](const Extent& e) { return e.strides[0] == 1; });
    if (rows != kept.end() - 1) {
      std::rotate(rows, rows + 1, kept.end() - 1);
      loop.transposed = true;
    }
  }
  pad(kept, 2, spec.operands.size());
  const Index rows = kept[kept.size() - 2].size, cols = kept.back().size;
  if (loop.transposed) {
    loop.tile[0] = loop.tile[1] = kTransposeTile;
  } else {
    loop.tile[1] = std::min(cols, kTileElements);
    loop.tile[0] = std::clamp<Index>(kTileElements / std::max<Index>(1, loop.tile[1]), 1, std::max<Index>(1, rows));
  }
  plan.units = (rows + loop.tile[0] - 1) / loop.tile[0] * ((cols + loop.tile[1] - 1) / loop.tile[1]);
  for (std::size_t i = 0; i + 2 < kept.size(); i++) plan.units *= kept[i].size;
}

void tile_reduction(FoldPlan& plan, std::vector<Extent>& kept, std::vector<Extent>& reduced, const KernelSpec& spec, int threads) {
  FoldLoop& loop = plan.loop;
  const auto vector = std::find_if(kept.rbegin(), kept.rend(), is_vector);
  loop.across = vector != kept.rend() && (vector->size >= kTogether || reduced.empty() || !is_vector(reduced.back()));
  if (loop.across) std::rotate(vector.base() - 1, vector.base(), kept.end());
  pad(kept, 2, spec.operands.size());
  pad(reduced, 1, spec.operands.size());
  const Index length = kept.back().size;
  Index outer = 1;
  for (std::size_t i = 0; i + 1 < kept.size(); i++) outer *= kept[i].size;
  loop.tile[1] = loop.across ? std::min(length, kChunk) : kTogether;
  if (loop.across && threads > outer) {  // a group for every thread, of whole cache lines
    const Index share = (length + threads - 1) / threads;
    loop.tile[1] = std::min(loop.tile[1], (share + 15) / 16 * 16);
  }
  plan.units = outer * ((length + loop.tile[1] - 1) / loop.tile[1]);
}

void store(FoldPlan& plan, const std::vector<Extent>& kept, const std::vector<Extent>& reduced) {
  for (const auto* list : {&kept, &reduced})
    for (const Extent& extent : *list) {
      if (extent.is_class) plan.loop.class_dim = static_cast<int>(plan.extents.size());
      plan.extents.push_back(extent.size);
      plan.strides.insert(plan.strides.end(), extent.strides.begin(), extent.strides.end());
    }
  plan.loop.kept = static_cast<int>(kept.size());
  plan.loop.reduced = static_cast<int>(reduced.size());
}

}  // namespace

FoldPlan plan_fold(const KernelSpec& spec, int threads) {
  check_spec(spec);
  FoldPlan plan;
  FoldLoop& loop = plan.loop;
  loop.kind = spec.fold;
  loop.combine = spec.combine;
  loop.activation = spec.activation;
  loop.scale = spec.scale;
  loop.inputs = static_cast<int>(spec.operands.size()) - 1;
  loop.labels = label_operand(spec.fold);
  loop.first_class = spec.first_class;
  std::vector<Extent> kept, reduced;
  bool empty = false, nothing = false;
  plan.elements = static_cast<Index>(spec.operands.size());
  for (std::size_t i = 0; i < spec.fold_extents.size(); i++) {
    Extent extent{spec.fold_extents[i], {}, loop.labels >= 0 && spec.class_dim == static_cast<int>(i)};
    for (const FoldOperand& operand : spec.operands) extent.strides.push_back(operand.strides[i]);
    plan.elements *= extent.size;
    const bool is_kept = extent.result() != 0;
    check(is_kept || extent.size <= 1 || spec.combine != Combine::set, "set has no reduced index");
    (is_kept ? empty : nothing) |= extent.size == 0;
    if (extent.size == 1) continue;
    (is_kept ? kept : reduced).push_back(std::move(extent));
  }
  if (empty || (nothing && spec.combine == Combine::set)) return plan;
  // Nothing to reduce: 0 or -infinity everywhere.
  if (nothing) reduced.assign(1, Extent{0, std::vector<Index>(spec.operands.size(), 0), false});
  // Kept extents in the order in which the result is in memory; the reduced ones keep theirs (sums run in index order).
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Extent& a, const Extent& b) { return std::abs(a.result()) > std::abs(b.result()); });
  join(kept);
  join(reduced);
  if (reduced.empty()) {
    tile_elementwise(plan, kept, spec);
  } else {
    tile_reduction(plan, kept, reduced, spec, threads);
  }
  store(plan, kept, reduced);
  return plan;
}

}  // namespace motley::cpu
