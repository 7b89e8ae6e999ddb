// SPDX-License-Identifier: Apache-2.0
// Compiled once per ISA, with MOTLEY_FLOATS and MOTLEY_DOUBLES (the tables' names) and Eigen (a separate name for the namespace)
// defined. Eigen's product is called below its expressions, which would allocate memory for packing the operands.
#include "kernels/eigen/products.h"

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

namespace motley::eigen {

namespace {

template <class T>
bool is_row_major(const Matrix<T>& m) {
  return m.col_stride == 1;
}

Index whole_lines(Index elements) {
  constexpr Index kLine = 16;  // elements: at least 64 bytes
  return (elements + kLine - 1) / kLine * kLine;
}

// Eigen's kernel requires a column-major result: for a row-major one c^T += b^T a^T.
template <class T>
Blocks blocks(const Matrix<T>& c, Index k) {
  if (c.rows == 0 || c.cols == 0 || k == 0) return {};
  Blocks out{is_row_major(c) ? c.cols : c.rows, is_row_major(c) ? c.rows : c.cols, k};
  Eigen::internal::computeProductBlockingSizes<T, T>(out.k, out.m, out.n);
  return out;
}

Index packed(const Blocks& blocks) {
  return whole_lines(blocks.m * blocks.k) + whole_lines(blocks.k * blocks.n);
}

template <class T>
class Memory final : public Eigen::internal::level3_blocking<T, T> {
 public:
  Memory(const Blocks& blocks, Index m, Index n, Index k, T* packed) {
    this->m_mc = blocks.m < m ? blocks.m : m;
    this->m_nc = blocks.n < n ? blocks.n : n;
    this->m_kc = blocks.k < k ? blocks.k : k;
    this->m_blockA = packed;
    this->m_blockB = packed + whole_lines(blocks.m * blocks.k);
  }
};

template <class T, int kOrderOfA, int kOrderOfB>
void add_columns(const Matrix<T>& a, const Matrix<T>& b, const Matrix<T>& c, const Blocks& blocks, T* packed) {
  Memory<T> memory(blocks, c.rows, c.cols, a.cols, packed);
  Eigen::internal::general_matrix_matrix_product<Index, T, kOrderOfA, false, T, kOrderOfB, false, Eigen::ColMajor, 1>::run(
      c.rows, c.cols, a.cols, a.data, is_row_major(a) ? a.row_stride : a.col_stride, b.data,
      is_row_major(b) ? b.row_stride : b.col_stride, c.data, 1, c.col_stride, T{1}, memory);
}

template <class T>
Matrix<T> transposed(const Matrix<T>& m) {
  return {m.data, m.cols, m.rows, m.col_stride, m.row_stride};
}

template <class T>
void add(const Matrix<T>& a, const Matrix<T>& b, const Matrix<T>& c, const Blocks& blocks, T* packed) {
  if (c.rows == 0 || c.cols == 0 || a.cols == 0) return;
  constexpr int kRows = Eigen::RowMajor, kCols = Eigen::ColMajor;
  const bool turned = is_row_major(c);
  const Matrix<T> first = turned ? transposed(b) : a, second = turned ? transposed(a) : b, result = turned ? transposed(c) : c;
  const bool rows_of_first = is_row_major(first), rows_of_second = is_row_major(second);
  const auto product = rows_of_first ? (rows_of_second ? add_columns<T, kRows, kRows> : add_columns<T, kRows, kCols>)
                                     : (rows_of_second ? add_columns<T, kCols, kRows> : add_columns<T, kCols, kCols>);
  product(first, second, result, blocks, packed);
}

}  // namespace

#define MOTLEY_TEXT_OF(number) #number
#define MOTLEY_TEXT(number) MOTLEY_TEXT_OF(number)
#define MOTLEY_EIGEN_VERSION \
  "Eigen " MOTLEY_TEXT(EIGEN_WORLD_VERSION) "." MOTLEY_TEXT(EIGEN_MAJOR_VERSION) "." MOTLEY_TEXT(EIGEN_MINOR_VERSION)

const Products<float> MOTLEY_FLOATS{MOTLEY_EIGEN_VERSION, blocks<float>, packed, add<float>};
const Products<double> MOTLEY_DOUBLES{MOTLEY_EIGEN_VERSION, blocks<double>, packed, add<double>};

}  // namespace motley::eigen
