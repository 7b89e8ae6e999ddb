// SPDX-License-Identifier: Apache-2.0
// Compiled once per ISA, with MOTLEY_PRODUCTS (the ISA's name) and Eigen (a name of its own for the namespace) defined.
#include "kernels/f64/products.h"

#define EIGEN_DONT_PARALLELIZE
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 0  // small products too by one path, whatever their addresses are aligned to
#include <Eigen/Core>

namespace motley::f64 {

namespace MOTLEY_PRODUCTS {

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<RowMajor> view(const Matrix& m) {
  return {m.data, m.rows, m.cols};
}

bool is_empty(const Matrix& a, const Matrix& c) {
  return a.rows * a.cols == 0 || c.rows * c.cols == 0;
}

void plain(const Matrix& a, const Matrix& b, const Matrix& c) {
  if (!is_empty(a, c)) view(c).noalias() += view(a) * view(b);
}

void first_transposed(const Matrix& a, const Matrix& b, const Matrix& c) {
  if (!is_empty(a, c)) view(c).noalias() += view(a).transpose() * view(b);
}

void second_transposed(const Matrix& a, const Matrix& b, const Matrix& c) {
  if (!is_empty(a, c)) view(c).noalias() += view(a) * view(b).transpose();
}

#define MOTLEY_TEXT(name) #name
#define MOTLEY_NAME_OF(name) MOTLEY_TEXT(name)

}  // namespace

const Products kProducts{MOTLEY_NAME_OF(MOTLEY_PRODUCTS), plain, first_transposed, second_transposed};

}  // namespace MOTLEY_PRODUCTS

}  // namespace motley::f64
