// SPDX-License-Identifier: Apache-2.0
// y[g n f] = epilogue(x[g n c] w[g f c]^T + b[f]) and its gradients as oneDNN matrix products on the operands as they are: oneDNN's
// inner product with a layout of its choice is at most 1.2x faster, and packing the weights for it costs more than it gains.
#include <algorithm>

#include "kernels/cpu/dnnl_kernels.h"
#include "kernels/cpu/sequence.h"

namespace motley::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

// Columns of one product. With more than 2048, if the rows of b are contiguous, oneDNN's products on AVX-512 take up to three times
// as long (2.6.3; 768 x 3072, 5120 columns; not 4096); with at most 1024 never longer. On AVX2 it makes no difference.
constexpr Index kMostColumns = 1024;

class DenseKernel final : public Kernel {
 public:
  DenseKernel(const KernelSpec& spec, const Vendor& vendor)
      : spec_(spec), type_(type_of(spec, false)), result_type_(type_of(spec, true)), sequence_(vendor.engine) {
    const Roles& e = spec.roles;
    switch (spec.pass) {
      case PassKind::forward: add(vendor, {0, e.c, 1}, {1, 1, e.c}, e.n, e.c, 0, e.f, e.f); break;
      case PassKind::backward_data:  // dx[n c] = dy[n f] w[f c]
        add_in_parts(vendor, {0, e.f, 1}, {1, e.c, 1}, e.n, e.f, e.c);
        break;
      case PassKind::backward_filter:  // dw[f c] = dy[n f]^T x[n c]
        add_in_parts(vendor, {1, 1, e.f}, {0, e.c, 1}, e.f, e.n, e.c);
        break;
    }
  }
  std::size_t workspace_bytes() const override { return sequence_.workspace_bytes(); }
  std::string implementation() const override { return implementation_; }
  void run(std::span<void* const> operands, void* workspace) override { sequence_.run(operands, workspace); }

 private:
  // An operand, numbered as in KernelSpec, seen as a matrix: steps to the next row and column, in elements.
  struct Matrix {
    int operand;
    Index row_stride, column_stride;
  };
  // g matrices, each `all` elements after the previous one.
  Desc described(dnnl::memory::data_type type, Index rows, Index columns, Index row_stride, Index column_stride, Index all) const {
    if (spec_.roles.g == 1) return Desc({rows, columns}, type, Dims{row_stride, column_stride});
    return Desc({spec_.roles.g, rows, columns}, type, Dims{all, row_stride, column_stride});
  }

  // result[rows columns] = a[rows inner] b[inner columns], by parts of the columns if all columns are in rows of b.
  void add_in_parts(const Vendor& vendor, Matrix a, Matrix b, Index rows, Index inner, Index columns) {
    const Index parts = std::max<Index>(1, (columns + kMostColumns - 1) / kMostColumns);
    const Index width = ((columns + parts - 1) / parts + 15) / 16 * 16;  // whole cache lines
    for (Index first = 0; first == 0 || first < columns; first += width)
      add(vendor, a, b, rows, inner, first, std::min(columns - first, width), columns);
  }

  // result[:, first..] = epilogue(a b[:, first..] + bias), for `columns` of `all` columns
  void add(const Vendor& vendor, Matrix a, Matrix b, Index rows, Index inner, Index first, Index columns, Index all) {
    const bool biased = spec_.pass == PassKind::forward && spec_.bias;
    const Desc left = described(type_, rows, inner, a.row_stride, a.column_stride, rows * inner),
               right = described(type_, inner, columns, b.row_stride, b.column_stride, inner * all),
               bias = biased ? described(dnnl::memory::data_type::f32, 1, columns, columns, 1, columns) : Desc(),
               result = described(result_type_, rows, columns, all, 1, rows * all);
    const auto pd = vendor::matmul(vendor.engine, left, right, bias, result, vendor::attributes(spec_.epilogue));
    implementation_ = pd.impl_info_str();
    const auto at_column = [&](int operand, dnnl::memory::data_type type, Index stride) {
      return Sequence::Place{operand, static_cast<std::size_t>(first * stride) * dnnl::memory::data_type_size(type)};
    };
    std::vector<Sequence::Argument> arguments{{DNNL_ARG_SRC, left, {a.operand, 0}},
                                              {DNNL_ARG_WEIGHTS, right, at_column(b.operand, type_, b.column_stride)}};
    if (biased) arguments.push_back({DNNL_ARG_BIAS, bias, {2, 0}});
    arguments.push_back({DNNL_ARG_DST, result, at_column(biased ? 3 : 2, result_type_, 1)});
    sequence_.add(dnnl::matmul(pd), pd.scratchpad_desc(), arguments);
  }

  const KernelSpec spec_;
  const dnnl::memory::data_type type_, result_type_;
  Sequence sequence_;
  std::string implementation_{};
};

}  // namespace

std::unique_ptr<Kernel> dense_kernel(const KernelSpec& spec, const Vendor& vendor) {
  return std::make_unique<DenseKernel>(spec, vendor);
}

}  // namespace motley::cpu
