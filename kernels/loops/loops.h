// SPDX-License-Identifier: Apache-2.0
// Our own CPU loops: one source (loops.cpp), compiled once per ISA, so that the cap of a device applies to all its code. Sums and
// products have the same bits on every ISA and for any number of threads: no fused multiply-adds, no element that two threads
// share.
#pragma once
#include <motley/kernel_spec.h>

#include "kernels/evaluate.h"

namespace motley::cpu {

// Consecutive elements of a map's operands over which a compiled formula runs. Operands and results are arrays of the registers'
// type, integers of std::int32_t, scalars one double. Position k is at[k] + i * step[k] at element i.
struct Strip {
  const void* in[kMostOperands];
  void* out[kMostOperands];
  const void* constants;  // of the registers' type, in the order of the code
  std::int32_t at[kMostOperands], step[kMostOperands];
  // Number of such rows, and with several rows the steps in elements from one to the next, for each operand and each result.
  Index rows = 1;
  const Index *in_steps = nullptr, *out_steps = nullptr;
};
constexpr Index kChunk = 512;       // elements per call if operands are copied first: 2 KiB each
constexpr Index kLongChunk = 2048;  // at most, if none is copied

constexpr int kMostWidened = 4;   // bf16 operands that SumLoops read
constexpr Index kWidened = 2048;  // elements of each that are converted to f32 at a time

using FormulaLoop = void (*)(const Strip& strip, Index n);
// Adds a formula's values over strip.rows rows of n elements; [k]: for each result.
struct SumLoops {
  void (*along)(const Strip& strip, Index n, double* const* totals) = nullptr;  // totals[k][r] = the sum over row r
  void (*across)(const Strip& strip, Index n,
                 double* const* totals) = nullptr;  // totals[k][i] += the sum over element i of the rows
  std::uint32_t fixed = 0;                          // the same, faster, if these operands are the same in each row: a bit each
  void (*across_fixed)(const Strip& strip, Index n, double* const* totals) = nullptr;
};

// A prepared map (map_plan.cpp): extents of 1 are removed, the kept extents come first, the last one varying fastest in the result,
// then the reduced ones in the order of the spec; there are at least two kept and, in a reduction, one reduced.
struct MapLoop {
  const PlainFormula* formula = nullptr;
  FormulaLoop compiled = nullptr;   // none: the formula is interpreted
  std::uint32_t still = 0;          // operands with one value in each row: a bit each
  bool at_once = false;             // elementwise: a tile is a set of rows for one call of `compiled`, nothing is copied
  bool streamed = false;            // at_once: the result is written with non-temporal stores
  bool ahead = false;               // then: operands come from memory, and their lines are prefetched
  std::uint32_t widened = 0;        // with `sums`: bf16 operands, converted to f32 some rows at a time: a bit each
  SumLoops sums{};                  // for a reduction, instead of `compiled`: none, or the loop for its rows
  const void* constants = nullptr;  // for compiled ones
  // If the formula is interpreted: elements at a time; for each register its memory, in chunks, and whether it is an operand that
  // is copied first, since there are several results.
  Index chunk = kChunk;
  const std::int8_t* slots = nullptr;
  const bool* copied = nullptr;
  bool wide = false;             // registers are f64, else f32
  bool copies = false;           // any 4 or 2 bytes, no arithmetic
  bool positioned = false;       // the formula reads positions
  bool plain = false;            // the formula is just its operand 0, and all operands are f32
  int values = 1, summands = 1;  // operands of the formula; operands of the kernel that are summed to its first
  Combine combine = Combine::set;
  double scale = 1;
  int inputs = 0, results = 1, kept = 0, reduced = 0;
  const bool* scalars = nullptr;   // [inputs]: a single f64 element, which the formula reads as a scalar
  const DType* dtypes = nullptr;   // [inputs + results]
  const Index* extents = nullptr;  // [kept + reduced]
  const Index* strides = nullptr;  // [kept + reduced][inputs + results], elements
  int positions[kMostOperands];    // along which of these extents the formula's position k runs; -1: none
  Index origin[kMostOperands];     // its value at that extent's index 0
  // Elementwise: the last two kept extents are a plane, processed in tiles of tile[0] x tile[1]. Reduction: tile[1] elements of the
  // last kept extent are reduced together.
  Index tile[2] = {1, 1};
  bool transposed = false;  // copies: the operand is contiguous along the plane's rows, the result along its columns
  bool across = false;      // reduction: vectors run along the last kept extent, not along the last reduced one
  int width() const { return inputs + results; }
};

// One image x[h w c], y[p q c] with c contiguous; strides in elements.
struct PoolLoop {
  bool max = true;
  Index c = 0, h = 0, w = 0, r = 0, s = 0, p = 0, q = 0;
  Index stride[2] = {1, 1}, dilation[2] = {1, 1}, padding[2] = {0, 0};  // padding: top, left
  Index x_stride[2] = {0, 0}, y_stride[2] = {0, 0};                     // of h w; of p q
  Index halo[4] = {0, 0, 0, 0};                                         // as KernelSpec's
  bool beyond = false;                                                  // some halo is not 0
  Index wide_stride[2] = {0, 0};                                        // of h w of an x that includes the halo
  Range full[2];                                                        // the p (q) whose window is entirely inside
  bool overlaps = false;                                                // whether some element of x is in two windows
  bool tiles = false;  // whether every element of x is in exactly one window, and no window is clipped
};

// A row of a depthwise convolution, channels last: consecutive columns that read with the same taps are a segment. Offsets in
// elements.
struct DepthwiseTap {
  Index in = 0, w = 0;  // from a column's first input element; of the weights (or totals) [taps][channels]
};
struct DepthwiseSegment {
  Index count = 0;        // columns
  Index in = 0, out = 0;  // of the first column, from the beginnings of the rows
  const DepthwiseTap* taps = nullptr;
  Index tap_count = 0;
};
struct DepthwiseRow {
  Index channels = 0, in_step = 0, out_step = 0;  // from one column of a segment to the next
  Index in_row = 0, out_row = 0;                  // from one row to the next
  const DepthwiseSegment* segments = nullptr;
  Index segment_count = 0;
  bool accumulate = false;                          // to the result
  Index ahead = 0, ahead_rows = 0, ahead_step = 0;  // the input rows that only the next row reads: where, how many, how far apart
};

// Packs weights w[f][k], rows dense, into blocks of filters (or back): w[f][k] is at offsets[k] + (f % block) * run of block f /
// block.
struct PackLoop {
  bool pack = true;                       // false: unpack
  bool padded = false;                    // blocks have elements without a weight: zeros
  Index f = 0, k = 0, c = 0;              // c: k's innermost extent, where run > 1
  Index block = 0, block_stride = 0;      // filters, elements
  Index run = 1;                          // contiguous elements of one row: 1, or blocks of input channels
  const std::int32_t* offsets = nullptr;  // [k]
};

// A block of attention's scores [rows keys], dense.
template <class T>
struct AttentionRows {
  Index rows = 0, keys = 0;
  T scale = 1;
  const T* mask = nullptr;  // [keys], above 0 if a key counts; null: no mask
  bool causal = false;
  Index first_keys = 0;  // if causal: number of keys that count for row 0, one more for each further row (clamped to 0..keys)
};

enum class Simd : std::uint8_t { generic, sse41, avx2, avx512 };  // generic: instructions that every CPU of this architecture has

struct Loops {
  Simd simd;
  const char* name;
  // Runs units begin..end-1 of MapPlan::units; operands: element 0 of each, the results last.
  void (*map)(const MapLoop& map, void* const* operands, Index begin, Index end);
  void (*pool_forward)(const PoolLoop& pool, const float* x, float* y);
  void (*pool_backward)(const PoolLoop& pool, const float* dy, const float* x, float* dx);  // mean: x is not read
  // out += or = [bias +] the taps' products; in: the row that the taps' offsets are relative to. Also for dx.
  void (*depthwise_row)(const DepthwiseRow& row, const float* in, const float* w, const float* bias, float* out);
  // totals [taps][channels] += the sums of x dy over consecutive rows with the same taps; all lanes of the last vector may be
  // written.
  void (*depthwise_filter_rows)(const DepthwiseRow& row, Index rows, const float* x, const float* dy, double* totals);
  void (*pack_weights)(const PackLoop& pack, float* w, float* packed, Index begin, Index end);  // blocks begin..end-1
  // Replaces products q k^T by the exponentials of scores less the row's greatest one, 0 where a key does not count; factors: the
  // number that each row is multiplied by to have the sum 1. lse null: not required.
  void (*softmax_rows)(const AttentionRows<float>& block, float* scores, float* lse, float* factors);
  // Replaces products q k^T by weights, and products dy v^T by the gradient of the products q k^T.
  void (*softmax_slopes)(const AttentionRows<float>& block, float* scores, float* slopes, const float* lse, const float* dots);
  void (*widen)(const Bf16* from, float* to, Index begin, Index end);  // elements begin..end-1
  void (*narrow)(const float* from, Bf16* to, Index begin, Index end);
  // The loop for FormulaShape::hash; an operand with a bit in `still` has one value in a row, operands with a bit in `fixed` are
  // the same in each row. Null: there is none.
  FormulaLoop (*compiled)(std::uint64_t shape, bool wide, std::uint32_t still, std::uint32_t fixed);
  // The loops for the sums, where operands with a bit in `wide` are f64, and all registers too if there are any; shape 0: sums of
  // the operand itself.
  SumLoops (*sums)(std::uint64_t shape, std::uint32_t wide, std::uint32_t still);
};

extern const Loops kLoopsGeneric;
#if defined(__x86_64__)
extern const Loops kLoopsSse41, kLoopsAvx2, kLoopsAvx512;
#endif

constexpr int kMostMapExtents = 20;

}  // namespace motley::cpu
