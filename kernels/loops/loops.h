// SPDX-License-Identifier: Apache-2.0
// Our own CPU loops: one source (loops.cpp), compiled once per ISA, so that a capped device is capped whole. Sums and products
// are the same bits on every ISA and for any number of threads: no fused multiply-adds, no element that two threads share.
#pragma once
#include <motley/kernel_spec.h>

namespace motley::cpu {

// A fold made ready (fold_plan.cpp): extents of 1 are gone, the kept extents come first, the last one varying fastest in the
// result, then the reduced ones in index order; there are at least two kept and, in a reduction, one reduced.
// All operands f32 except labels and copies (any 4 bytes).
struct FoldLoop {
  FoldKind kind = FoldKind::copy;
  Combine combine = Combine::set;
  Activation activation = Activation::none;
  double scale = 1;
  int inputs = 0, kept = 0, reduced = 0;
  const Index* extents = nullptr;  // [kept + reduced]
  const Index* strides = nullptr;  // [kept + reduced][inputs + 1], elements; the result is the last operand
  int labels = -1;                 // operand that holds them; -1: none
  int class_dim = -1;              // which of these extents runs over classes
  Index first_class = 0;           // class of that extent's 0
  // Elementwise: the last two kept extents are a plane, worked on in tiles of tile[0] x tile[1]. Reduction: tile[1] elements
  // of the last kept extent are reduced together.
  Index tile[2] = {1, 1};
  bool transposed = false;  // copy: the operand is contiguous along the plane's rows, the result along its columns
  bool across = false;      // reduction: vectors run along the last kept extent, not along the last reduced one
};

// One image x[h w c], y[p q c] with c contiguous; strides in elements.
struct PoolLoop {
  bool max = true;
  Index c = 0, h = 0, w = 0, r = 0, s = 0, p = 0, q = 0;
  Index stride[2] = {1, 1}, dilation[2] = {1, 1}, padding[2] = {0, 0};  // padding: top, left
  Index x_stride[2] = {0, 0}, y_stride[2] = {0, 0};                     // of h w; of p q
  Index halo[4] = {0, 0, 0, 0};                                         // as KernelSpec's
  bool beyond = false;                                                  // some halo is not 0
  Index wide_stride[2] = {0, 0};                                        // of h w of an x that has the halo
  Range full[2];                                                        // which p (q) have all of their window inside
  bool overlaps = false;                                                // some element of x is in two windows
  bool tiles = false;  // every element of x is in exactly one, and no window is clipped
};

// Weights w[f][k], rows dense, into blocks of filters (or back): w[f][k] is at offsets[k] + (f % block) * run of block f / block.
struct PackLoop {
  bool pack = true;                       // false: back
  bool padded = false;                    // blocks have elements that no weight fills: zeros
  Index f = 0, k = 0, c = 0;              // c: k's innermost extent, where run > 1
  Index block = 0, block_stride = 0;      // filters, elements
  Index run = 1;                          // elements of one row that are next to each other: 1, or blocks of input channels
  const std::int32_t* offsets = nullptr;  // [k]
};

enum class Simd : std::uint8_t { generic, sse41, avx2, avx512 };  // generic: what every CPU of this architecture has

struct Loops {
  Simd simd;
  const char* name;
  // Units begin..end-1 of FoldPlan::units; operands: element 0 of each, the result last.
  void (*fold)(const FoldLoop& fold, void* const* operands, Index begin, Index end);
  void (*pool_forward)(const PoolLoop& pool, const float* x, float* y);
  void (*pool_backward)(const PoolLoop& pool, const float* dy, const float* x, float* dx);      // mean: x is not read
  void (*pack_weights)(const PackLoop& pack, float* w, float* packed, Index begin, Index end);  // blocks begin..end-1
  void (*sgd)(const KernelSpec& spec, const double* scalars, const float* g, float* v, float* w,
              Index n);                                        // in f64, each result rounded once
  void (*add_to)(const float* g, double* a, Index n);          // a += g
  void (*take_from)(double* a, float* g, Index n);             // g = a, a = 0
  void (*activate)(Activation activation, float* y, Index n);  // in place
};

extern const Loops kLoopsGeneric;
#if defined(__x86_64__)
extern const Loops kLoopsSse41, kLoopsAvx2, kLoopsAvx512;
#endif

constexpr int kMostFoldExtents = 20;

}  // namespace motley::cpu
