// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>

#include "kernels/eigen/products.h"

namespace motley::eigen {

template <>
const Products<float>& products_of<float>(cpu::Simd simd) {
#if defined(__x86_64__)
  if (simd == cpu::Simd::avx512) return kFloatsAvx512;
  if (simd == cpu::Simd::avx2) return kFloatsAvx2;
  if (simd == cpu::Simd::sse41) return kFloatsSse41;
#endif
  check(simd == cpu::Simd::generic, "an ISA of another architecture");
  return kFloatsGeneric;
}

template <>
const Products<double>& products_of<double>(cpu::Simd simd) {
#if defined(__x86_64__)
  if (simd == cpu::Simd::avx512) return kDoublesAvx512;
  if (simd == cpu::Simd::avx2) return kDoublesAvx2;
  if (simd == cpu::Simd::sse41) return kDoublesSse41;
#endif
  check(simd == cpu::Simd::generic, "an ISA of another architecture");
  return kDoublesGeneric;
}

}  // namespace motley::eigen
