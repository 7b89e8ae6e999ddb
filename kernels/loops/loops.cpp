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
#include <type_traits>

#define MOTLEY_TEXT_OF(name) #name
#define MOTLEY_TEXT(name) MOTLEY_TEXT_OF(name)
// An operand may be the result itself, element by element: never a dependence between elements.
#define MOTLEY_VECTOR _Pragma("GCC ivdep")
#define MOTLEY_UNROLL _Pragma("GCC unroll 4")
#define MOTLEY_INLINE __attribute__((always_inline))  // of a lambda, after its parameters

namespace motley::cpu {
namespace {
#include "kernels/loops/vector.inc"
//
#include "kernels/loops/math.inc"
//
#include "kernels/loops/square.inc"
//
#include "kernels/loops/map.inc"
//
#include "kernels/loops/reduce.inc"
//
#include "kernels/loops/pool.inc"
//
#include "kernels/loops/pack.inc"
//
#include "kernels/loops/attention.inc"

void widen(const Bf16* from, float* to, Index begin, Index end) {
  widen(from + begin, to + begin, end - begin);
}
void narrow(const float* from, Bf16* to, Index begin, Index end) {
  narrow(from + begin, to + begin, end - begin);
}

void map(const MapLoop& map, void* const* operands, Index begin, Index end) {
  if (map.reduced == 0) {
    elementwise(map, operands, begin, end);
    if (map.streamed) end_streaming();
    return;
  }
  reduction(map, operands, begin, end);
}

// The formulas that ops declare: one loop each, written by write_formulas when motley is built.
template <class T>
const T* in(const Strip& strip, int k) {
  return static_cast<const T*>(strip.in[k]);
}
template <class T>
T* out(const Strip& strip, int k) {
  return static_cast<T*>(strip.out[k]);
}
struct Compiled {
  std::uint64_t shape;
  bool wide;
  std::uint32_t still, fixed;
  FormulaLoop loop;
};
struct CompiledSums {
  std::uint64_t shape;
  std::uint32_t wide, still;
  SumLoops loops;
};
#include "formulas.inc"

FormulaLoop compiled(std::uint64_t shape, bool wide, std::uint32_t still, std::uint32_t fixed) {
  FormulaLoop out = nullptr;
  std::uint32_t most = 0;
  for (const Compiled& one : kCompiled)
    if (one.shape == shape && one.wide == wide && one.still == still && (one.fixed & ~fixed) == 0 && one.fixed >= most)
      out = one.loop, most = one.fixed;
  return out;
}
SumLoops sums(std::uint64_t shape, std::uint32_t wide, std::uint32_t still) {
  if (shape == 0) return {sums_alone, columns_alone};
  for (const CompiledSums& one : kCompiledSums)
    if (one.shape == shape && one.wide == wide && one.still == still) return one.loops;
  return {};
}

}  // namespace

extern const Loops MOTLEY_LOOPS;
const Loops MOTLEY_LOOPS{Simd::MOTLEY_SIMD, MOTLEY_TEXT(MOTLEY_SIMD), map,   pool_forward, pool_backward, pack_weights,
                         softmax_rows,      softmax_slopes,           widen, narrow,       compiled,      sums};

}  // namespace motley::cpu
