// SPDX-License-Identifier: Apache-2.0
// Compiled once per ISA: MOTLEY_SIMD is an enumerator of Simd, MOTLEY_LOOPS the table's name. Nothing here may call an inline
// function of the standard library that is not inlined: the linker would keep one copy of it, perhaps one with the wrong
// instructions.
#include "kernels/loops/loops.h"

#ifdef __SSE4_1__
#include <immintrin.h>
#endif

#include <cmath>
#include <cstring>

#define MOTLEY_TEXT_OF(name) #name
#define MOTLEY_TEXT(name) MOTLEY_TEXT_OF(name)
// An operand may be the result itself, element by element: never a dependence between elements.
#define MOTLEY_VECTOR _Pragma("GCC ivdep")
#define MOTLEY_INLINE __attribute__((always_inline))  // of a lambda, after its parameters

namespace motley::cpu {
namespace {
#include "kernels/loops/vector.inc"
//
#include "kernels/loops/math.inc"
//
#include "kernels/loops/square.inc"
//
#include "kernels/loops/fold.inc"
//
#include "kernels/loops/reduce.inc"
//
#include "kernels/loops/pool.inc"
//
#include "kernels/loops/pack.inc"

void fold(const FoldLoop& fold, void* const* operands, Index begin, Index end) {
  if (fold.reduced == 0) return elementwise(fold, operands, begin, end);
  reduction(fold, operands, begin, end);
}

void sgd(const KernelSpec& spec, const double* scalars, const float* g, float* v, float* w, Index n) {
  const double rate = scalars[0], factor = scalars[1], momentum = spec.momentum, decay = spec.weight_decay;
  MOTLEY_VECTOR
  for (Index i = 0; i < n; i++) {
    const double weight = w[i];
    const float velocity =
        static_cast<float>(momentum * static_cast<double>(v[i]) + (factor * static_cast<double>(g[i]) + decay * weight));
    v[i] = velocity;
    w[i] = static_cast<float>(weight - rate * static_cast<double>(velocity));
  }
}

void add_to(const float* g, double* a, Index n) {
  MOTLEY_VECTOR
  for (Index i = 0; i < n; i++) a[i] += static_cast<double>(g[i]);
}

void take_from(double* a, float* g, Index n) {
  MOTLEY_VECTOR
  for (Index i = 0; i < n; i++) {
    g[i] = static_cast<float>(a[i]);
    a[i] = 0;
  }
}

}  // namespace

extern const Loops MOTLEY_LOOPS;
const Loops MOTLEY_LOOPS{
    Simd::MOTLEY_SIMD, MOTLEY_TEXT(MOTLEY_SIMD), fold, pool_forward, pool_backward, pack_weights, sgd, add_to, take_from, activate};

}  // namespace motley::cpu
