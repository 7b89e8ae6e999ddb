// SPDX-License-Identifier: Apache-2.0
// Products of matrices by Eigen, compiled once per ISA (meson.build), in f32 and f64. One thread, no allocation; the bits depend on
// the sizes, the orders, the ISA and the sizes of the CPU's caches, never on the addresses of the matrices.
#pragma once
#include <motley/dims.h>

#include "kernels/loops/loops.h"

namespace motley::eigen {

template <class T>
struct Matrix {
  T* data = nullptr;
  Index rows = 0, cols = 0;
  Index row_stride = 0, col_stride = 1;  // elements; one of them is 1
};

// How much of a product is packed at a time: m x k of one operand, k x n of the other.
struct Blocks {
  Index m = 0, n = 0, k = 0;
};

template <class T>
struct Products {
  const char* version;                            // "Eigen 3.4.0"
  Blocks (*blocks)(const Matrix<T>& c, Index k);  // for products into matrices of c's order, no larger than c, over at most k
  Index (*packed)(const Blocks& blocks);          // elements that such a product needs
  // c += a b. packed: 64-byte aligned.
  void (*add)(const Matrix<T>& a, const Matrix<T>& b, const Matrix<T>& c, const Blocks& blocks, T* packed);
};

template <class T>
const Products<T>& products_of(cpu::Simd simd);  // the CPU must have this ISA
template <>
const Products<float>& products_of<float>(cpu::Simd simd);
template <>
const Products<double>& products_of<double>(cpu::Simd simd);

// One table per ISA.
extern const Products<float> kFloatsGeneric;
extern const Products<double> kDoublesGeneric;
#if defined(__x86_64__)
extern const Products<float> kFloatsSse41, kFloatsAvx2, kFloatsAvx512;
extern const Products<double> kDoublesSse41, kDoublesAvx2, kDoublesAvx512;
#endif

}  // namespace motley::eigen
