// SPDX-License-Identifier: Apache-2.0
#include "kernels/loops/map_plan.h"

#include <motley/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "base/at.h"
#include "kernels/loops/assemble.h"
#include "kernels/map_extents.h"
#include "kernels/operands.h"
#include "kernels/value.h"

namespace motley::cpu {
namespace {

constexpr Index kSideBySide = 64;                  // most elements of a row for processing several rows side by side
constexpr Index kFew = 16, kMany = 64;             // elements of a row: limits for running vectors across rows
constexpr Index kTileElements = 8192;              // one unit of an elementwise map: 32 KiB per operand
constexpr Index kStreamedFloats = Index{4} << 20;  // 16 MiB: the size of an operand that is as large as many last-level caches
constexpr Index kTransposeTile = 64;               // both sides of a tile fit in the first-level cache
constexpr Index kTogether = 8;                     // reduce.inc

constexpr int kMostExtents = std::min(kMostMapExtents - 3, kMostOperands);  // of a spec

void check_spec(const KernelSpec& spec) {
  check_map(spec);
  if (!supports_map(spec))
    throw DeviceError("a map over " + std::to_string(spec.extents.size()) + " extents with " + std::to_string(result_count(spec)) +
                      " results: the CPU loops take at most " + std::to_string(kMostExtents) + " and " + std::to_string(kMostSums) +
                      " sums");
}

// Whether every operand is contiguous along the extent or constant, and one of the inputs is contiguous.
bool is_vector(const MapExtent& extent) {
  bool walks = false;
  for (std::size_t k = 0; k < extent.inputs; k++) {
    if (extent.strides[k] != 0 && extent.strides[k] != 1) return false;
    walks = walks || extent.strides[k] == 1;
  }
  return walks;
}

// Whether the elements of several rows are contiguous, or the same in each row: then all are one row (map.inc).
bool is_bundled(const MapExtent& rows, const MapExtent& elements) {
  for (std::size_t k = 0; k < rows.strides.size(); k++)
    if (rows.strides[k] != 0 && (elements.strides[k] != 1 || rows.strides[k] != elements.size)) return false;
  return true;
}

void pad(std::vector<MapExtent>& extents, std::size_t count, const KernelSpec& spec) {
  while (extents.size() < count)
    extents.insert(extents.begin(), MapExtent{1, std::vector<Index>(spec.operands.size(), 0), input_count(spec), -1});
}

void tile_elementwise(MapPlan& plan, std::vector<MapExtent>& kept, const KernelSpec& spec) {
  MapLoop& loop = plan.loop;
  // A copy whose operand is contiguous along another extent: that extent becomes the plane's rows.
  if (loop.copies && loop.dtypes[0] != DType::bf16 && kept.size() > 1 && kept.back().strides[0] != 1 && kept.back().result() == 1) {
    const auto rows = std::find_if(kept.begin(), kept.end() - 1, [](const MapExtent& e) { return e.strides[0] == 1; });
    if (rows != kept.end() - 1) {
      std::rotate(rows, rows + 1, kept.end() - 1);
      loop.transposed = true;
    }
  }
  pad(kept, 2, spec);
  if (!loop.copies && kept.back().size <= kFew && kept[kept.size() - 2].size >= kMany &&
      !is_bundled(kept[kept.size() - 2], kept.back()))
    std::swap(kept[kept.size() - 2], kept.back());  // gathering in long rows is faster than contiguous short ones
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

// Operands as bits: those with one value along `row`, and those of a type; scalars are in neither.
std::uint32_t still_along(const MapPlan& plan, const MapExtent& row) {
  std::uint32_t still = 0;
  for (std::size_t k = 0; k < row.inputs; k++)
    if (row.strides[k] == 0 && plan.scalars[k] == 0) still |= 1U << k;
  return still;
}
std::uint32_t operands_of(const MapPlan& plan, DType dtype) {
  std::uint32_t bits = 0;
  for (std::size_t k = 0; k < plan.scalars.size(); k++)
    if (plan.dtypes[k] == dtype && plan.scalars[k] == 0) bits |= 1U << k;
  return bits;
}

// The loop in which operands with a bit in `still` have one value in each row. Null: the formula is interpreted.
FormulaLoop loop_of(const MapPlan& plan, const Loops& loops, std::uint32_t still) {
  if (plan.shape == 0) return nullptr;
  const FormulaLoop compiled = loops.compiled(plan.shape, plan.loop.wide, still, 0);
  return compiled != nullptr || plan.loop.wide ? compiled : assembled(plan.formula, plan.shape, loops.simd, still);
}

void choose_loop(MapPlan& plan, const Loops& loops, const MapExtent& row) {
  MapLoop& loop = plan.loop;
  if (loop.compiled == nullptr || loop.wide || loop.summands != 1) return;
  const std::uint32_t still = still_along(plan, row);
  if (still == 0 || (still & (operands_of(plan, DType::f64) | operands_of(plan, DType::bf16))) != 0) return;  // converted operands
  const FormulaLoop along_rows = loop_of(plan, loops, still);
  if (along_rows == nullptr) return;
  loop.compiled = along_rows;
  loop.still = still;
}

// Whether every operand and result is read and written in place, contiguous along a row or with one value in it.
bool is_in_place(const MapPlan& plan, const MapExtent& row) {
  for (std::size_t k = 0; k < row.strides.size(); k++) {
    const bool still = k < row.inputs && (plan.scalars[k] != 0 || (plan.loop.still >> k & 1) != 0);
    if (!still && (row.strides[k] != 1 || bytes_of(plan.dtypes[k]) != 4)) return false;
  }
  return true;
}
// Rows shorter than vectors are faster when several are processed together (map.inc: Bundle).
bool runs_at_once(const MapPlan& plan, Index rows, const MapExtent& row) {
  const MapLoop& loop = plan.loop;
  return (row.size >= kTogether || rows == 1) && loop.compiled != nullptr && !loop.wide && loop.summands == 1 && !loop.positioned &&
         loop.scale == 1 && loop.combine != Combine::add && is_in_place(plan, row);
}

// Operands that are the same in each row are read once for several rows. Not for longer rows: side by side, these would be read
// from memory in an order that the prefetcher cannot predict (a norm's gradient over rows of 96 to 192: 1.2 to 2.5 times as long;
// AMD Zen 3).
void read_fixed_once(MapPlan& plan, const Loops& loops, const MapExtent& rows, const MapExtent& row) {
  if (row.size > kSideBySide) return;
  const FormulaLoop fixed = loops.compiled(plan.shape, false, plan.loop.still, still_along(plan, rows));
  if (fixed != nullptr) plan.loop.compiled = fixed;
}

// One result, with contiguous rows, so large that no cache would still have it when it is read: with streaming stores the
// overwritten lines are not read first, and no other lines are evicted for them. Maps that compute for long do not wait for memory,
// but would wait for such writes: two functions like exp, with vectors of 8 and fewer one (AMD Zen 3, AVX2: 1.2 times as long; with
// AVX-512 on an Intel Xeon 0.6 to 1.0).
bool is_streamed(const MapPlan& plan, const KernelSpec& spec, Simd simd, const MapExtent& rows, const MapExtent& row) {
  const PlainFormula& f = plan.formula;
  const auto functions = std::count_if(f.code, f.code + f.count, [](const PlainInstruction& i) { return is_function(i.op); });
  const Index floats = std::max(spec.whole, plan.elements / static_cast<Index>(rows.strides.size()));
  return plan.loop.results == 1 && (rows.size == 1 || rows.result() == row.size) && floats >= kStreamedFloats &&
         functions < (simd == Simd::avx512 ? 2 : 1);
}

// Chooses loops that add whole rows: of values that are contiguous along `row`, or one value in it, which are read as they are in
// memory, except for bf16. length: of one of these rows.
void choose_sums(MapPlan& plan, const KernelSpec& spec, const Loops& loops, const MapExtent& row, Index length) {
  MapLoop& loop = plan.loop;
  if (loop.summands != 1 || loop.positioned || spec.combine != Combine::add) return;
  for (std::size_t k = 0; k < row.inputs; k++)
    if (plan.scalars[k] == 0 && row.strides[k] != 0 && row.strides[k] != 1) return;
  const std::uint32_t wide = operands_of(plan, DType::f64), widened = operands_of(plan, DType::bf16),
                      still = still_along(plan, row);
  if ((widened & still) != 0 || std::popcount(widened) > kMostWidened || (widened != 0 && length > kWidened)) return;
  if (spec.formula.code.empty() ? loop.wide || still != 0 : loop.wide != (wide != 0)) return;
  loop.sums = loops.sums(plan.shape, wide, still);
  loop.widened = widened;
}

void tile_reduction(MapPlan& plan, std::vector<MapExtent>& kept, std::vector<MapExtent>& reduced, const KernelSpec& spec,
                    const Loops& loops, int threads) {
  MapLoop& loop = plan.loop;
  const auto vector = std::find_if(kept.rbegin(), kept.rend(), is_vector);
  loop.across = vector != kept.rend() && (vector->size >= kTogether || reduced.empty() || !is_vector(reduced.back()));
  if (loop.across) std::rotate(vector.base() - 1, vector.base(), kept.end());
  Index terms = 1;
  for (const MapExtent& extent : reduced) terms *= extent.size;
  if (vector == kept.rend() && !kept.empty() && terms <= kFew && kept.back().size >= kMany) loop.across = true;  // gathered
  pad(kept, 2, spec);
  pad(reduced, 1, spec);
  const Index length = kept.back().size;
  Index outer = 1;
  for (std::size_t i = 0; i + 1 < kept.size(); i++) outer *= kept[i].size;
  if (loop.across ? length >= kTogether : reduced.size() == 1)
    choose_sums(plan, spec, loops, loop.across ? kept.back() : reduced.back(),
                loop.across ? std::min(length, kChunk) : reduced.back().size);
  if (loop.sums.across_fixed != nullptr && (loop.sums.fixed & ~still_along(plan, reduced.back())) == 0)
    loop.sums.across = loop.sums.across_fixed;
  loop.tile[1] = loop.across ? std::min(length, kChunk) : kTogether;
  if (loop.sums.along != nullptr && !loop.across) {
    const Index share = threads > 1 ? length / (4 * threads) : length;
    loop.tile[1] = std::clamp(std::min(kTileElements / std::max<Index>(1, terms), share), kTogether, kChunk);
  }
  if (loop.across && threads > outer) {  // a group for every thread, in whole cache lines
    const Index share = (length + threads - 1) / threads;
    loop.tile[1] = std::min(loop.tile[1], (share + 15) / 16 * 16);
  }
  plan.units = outer * ((length + loop.tile[1] - 1) / loop.tile[1]);
}

void store(MapPlan& plan, const std::vector<MapExtent>& kept, const std::vector<MapExtent>& reduced) {
  for (const auto* list : {&kept, &reduced})
    for (const MapExtent& extent : *list) {
      if (extent.position >= 0) plan.loop.positions[extent.position] = static_cast<int>(plan.extents.size());
      plan.extents.push_back(extent.size);
      plan.strides.insert(plan.strides.end(), extent.strides.begin(), extent.strides.end());
    }
  plan.loop.kept = static_cast<int>(kept.size());
  plan.loop.reduced = static_cast<int>(reduced.size());
}

// The memory of a register that is no longer read is reused.
Registers registers_of(const PlainFormula& f) {
  Registers out;
  std::array<int, kMostInstructions> last{};  // the instruction that reads the register last
  for (int i = 0; i < f.count; i++)
    if (const PlainInstruction s = f.code[i]; reads_registers(s.op))
      for (const int r : {s.a, s.b, s.c})
        if (r >= 0) at(last, r) = i;
  for (int k = 0; k < f.result_count; k++) {
    const int r = f.results[k];
    at(last, r) = f.count;
    at(out.copied, r) = f.code[r].op == Opcode::operand && f.result_count > 1;
  }
  std::array<int, kMostInstructions> until{};  // for each slot: the instruction that reads it last
  std::array<bool, kMostInstructions> full{};
  until.fill(-1);
  for (int i = 0; i < f.count; i++) {
    const Opcode op = f.code[i].op;
    if ((op == Opcode::operand && !at(out.copied, i)) || op == Opcode::integer) continue;  // read in place
    const auto free = std::find_if(until.begin(), until.end(), [&](int read) { return read < i; });
    *free = at(last, i);
    const auto slot = static_cast<int>(free - until.begin());
    at(out.slots, i) = static_cast<std::int8_t>(slot);
    out.count = std::max(out.count, slot + 1);
    at(full, slot) |= reads_registers(op) || op == Opcode::operand || op == Opcode::position;
  }
  out.full = static_cast<int>(std::count(full.begin(), full.end(), true));
  return out;
}

// As long as its registers fit the first-level cache, so that a call of interpret() costs little relative to its work. Shorter if
// operands come from memory: reading then overlaps with computing.
Index chunk_for(const Registers& registers, Index elements) {
  constexpr Index kInCache = 4096, kLarge = Index{1} << 21;  // 16 KiB; 8 MiB of operands
  if (elements > kLarge) return kChunk;
  const Index fits = kMostInstructions * kChunk / std::max(1, registers.count);
  return std::clamp(std::min(kInCache / std::max(1, registers.full), fits) / kChunk * kChunk, kChunk, kLongChunk);
}

void set_formula(MapPlan& plan, const KernelSpec& spec, const Loops& loops) {
  MapLoop& loop = plan.loop;
  plan.formula = plain_of(spec.formula);
  const FormulaShape shape = shape_of(spec.formula);
  loop.wide = is_wide(spec);
  loop.positioned = reads_position(spec.formula, -1);
  plan.shape = spec.formula.code.empty() ? 0 : shape.hash;
  loop.compiled = loop_of(plan, loops, 0);
  plan.constants.assign(shape.constants.begin(), shape.constants.end());
  plan.wide_constants = shape.constants;
  loop.constants = loop.wide ? static_cast<const void*>(plan.wide_constants.data()) : plan.constants.data();
  plan.registers = registers_of(plan.formula);
  loop.slots = plan.registers.slots.data();
  loop.copied = plan.registers.copied.data();
  loop.formula = &plan.formula;
  loop.values = std::max(1, operand_count(spec.formula));
  loop.summands = static_cast<int>(spec.summands);
  loop.combine = spec.combine;
  loop.scale = spec.scale;
  loop.inputs = static_cast<int>(input_count(spec));
  loop.results = static_cast<int>(result_count(spec));
  for (const MapOperand& operand : spec.operands) plan.dtypes.push_back(operand.dtype);
  loop.dtypes = plan.dtypes.data();
  for (std::size_t k = 0; k < input_count(spec); k++) plan.scalars.push_back(is_scalar(spec, k));
  loop.scalars = reinterpret_cast<const bool*>(plan.scalars.data());
  const bool words = is_copy(spec) && plan.dtypes[0] == plan.dtypes[1] && plan.dtypes[0] != DType::f64;
  loop.copies = words;
  loop.plain = spec.formula.code.empty() && spec.summands == 1 && !loop.wide && plan.dtypes[0] == DType::f32;
  std::fill_n(loop.positions, kMostOperands, -1);
  for (std::size_t d = 0; d < spec.origin.size(); d++) loop.origin[d] = spec.origin[d];
}

// The same map with the sum of its two summands inside the formula, if that has a loop.
KernelSpec with_sum_inside(const KernelSpec& spec, const Loops& loops) {
  const Formula& f = spec.formula;
  const int operands = operand_count(f);  // 0: a constant, which reads no sum
  if (spec.summands != 2 || f.code.empty() || is_wide(spec) || operands == 0 || operands >= kMostOperands ||
      f.code.size() + 4 > static_cast<std::size_t>(kMostInstructions))
    return spec;
  KernelSpec out = spec;
  out.formula = with_sum(f);
  out.summands = 1;
  if (input_count(out) != input_count(spec)) return spec;  // it has an operand that no result needs
  const std::uint64_t shape = shape_of(out.formula).hash;
  const bool has_loop =
      loops.compiled(shape, false, 0, 0) != nullptr || assembled(plain_of(out.formula), shape, loops.simd, 0) != nullptr;
  return has_loop ? out : spec;
}

}  // namespace

bool supports_map(const KernelSpec& spec) {
  return spec.extents.size() <= kMostExtents && (spec.combine == Combine::set || result_count(spec) <= kMostSums);
}

std::unique_ptr<const MapPlan> plan_map(const KernelSpec& given, const Loops& loops, int threads) {
  check_spec(given);
  const KernelSpec spec = with_sum_inside(given, loops);
  auto made = std::make_unique<MapPlan>();
  MapPlan& plan = *made;
  set_formula(plan, spec, loops);
  std::vector<MapExtent> kept, reduced;
  bool empty = false, nothing = false;
  plan.elements = static_cast<Index>(spec.operands.size());
  for (MapExtent& extent : extents_of(spec)) {
    plan.elements *= extent.size;
    const bool is_kept = extent.result() != 0;
    (is_kept ? empty : nothing) |= extent.size == 0;
    if (extent.size == 1) continue;
    (is_kept ? kept : reduced).push_back(std::move(extent));
  }
  if (!plan.loop.wide) plan.loop.chunk = chunk_for(plan.registers, plan.elements);
  if (empty || (nothing && spec.combine == Combine::set)) return made;
  // Nothing to reduce: 0 or -infinity everywhere.
  if (nothing) reduced.assign(1, MapExtent{0, std::vector<Index>(spec.operands.size(), 0), input_count(spec), -1});
  // Kept extents in the order of the result's memory; the reduced ones keep theirs.
  std::stable_sort(kept.begin(), kept.end(),
                   [](const MapExtent& a, const MapExtent& b) { return std::abs(a.result()) > std::abs(b.result()); });
  join(kept);
  join(reduced);
  if (reduced.empty()) {
    tile_elementwise(plan, kept, spec);
  } else {
    tile_reduction(plan, kept, reduced, spec, loops, threads);
  }
  choose_loop(plan, loops, reduced.empty() || plan.loop.across ? kept.back() : reduced.back());
  plan.loop.at_once = reduced.empty() && runs_at_once(plan, kept[kept.size() - 2].size, kept.back());
  if (plan.loop.at_once) read_fixed_once(plan, loops, kept[kept.size() - 2], kept.back());
  plan.loop.ahead = spec.whole == 0;  // a block of a chain is in a cache
  plan.loop.streamed = plan.loop.at_once && is_streamed(plan, spec, loops.simd, kept[kept.size() - 2], kept.back());
  store(plan, kept, reduced);
  plan.loop.extents = plan.extents.data();
  plan.loop.strides = plan.strides.data();
  return made;
}

}  // namespace motley::cpu
