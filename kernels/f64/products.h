// SPDX-License-Identifier: Apache-2.0
// Products of f64 matrices by Eigen, compiled once per ISA (meson.build). One thread; the bits depend on the sizes and the ISA
// alone, never on where the matrices are.
#pragma once
#include <motley/dims.h>

namespace motley::f64 {

struct Matrix {  // row-major
  double* data = nullptr;
  Index rows = 0, cols = 0;
};

struct Products {
  const char* isa;
  void (*plain)(const Matrix& a, const Matrix& b, const Matrix& c);              // c += a b
  void (*first_transposed)(const Matrix& a, const Matrix& b, const Matrix& c);   // c += a^T b
  void (*second_transposed)(const Matrix& a, const Matrix& b, const Matrix& c);  // c += a b^T
};

const Products& products();  // for the best ISA of this CPU

// Of one ISA each; those that this CPU does not have must not be called.
namespace baseline {
extern const Products kProducts;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Products kProducts;
}
namespace avx512 {
extern const Products kProducts;
}
#endif

}  // namespace motley::f64
