// SPDX-License-Identifier: Apache-2.0
// y[g n f] = epilogue(x[g n c] w[g f c]^T + b[f]) and its gradients as oneDNN matrix products on the operands as they are: its
// inner product with a layout of its own choice is at most 1.2x faster, and packing the weights costs more than it gains.
#include "kernels/cpu/dnnl_kernels.h"
#include "kernels/cpu/sequence.h"

namespace motley::cpu {
namespace {

using Desc = dnnl::memory::desc;

class DenseKernel final : public Kernel {
 public:
  DenseKernel(const KernelSpec& spec, const Vendor& vendor) : sequence_(vendor.engine) {
    const Roles& e = spec.roles;
    const auto matrix_of = [&](dnnl::memory::data_type type, Index rows, Index cols, Index row_stride, Index col_stride) {
      using Dims = dnnl::memory::dims;
      if (e.g == 1) return Desc({rows, cols}, type, Dims{row_stride, col_stride});
      return Desc({e.g, rows, cols}, type, Dims{rows * cols, row_stride, col_stride});
    };
    const auto matrix = [&](Index rows, Index cols, Index row_stride, Index col_stride) {
      return matrix_of(type_of(spec, false), rows, cols, row_stride, col_stride);
    };
    const auto result = [&](Index rows, Index cols) { return matrix_of(type_of(spec, true), rows, cols, cols, 1); };
    switch (spec.pass) {
      case PassKind::forward: {
        const Desc bias = spec.bias ? matrix_of(dnnl::memory::data_type::f32, 1, e.f, e.f, 1) : Desc();
        add(spec, vendor, matrix(e.n, e.c, e.c, 1), 0, matrix(e.c, e.f, 1, e.c), 1, bias, result(e.n, e.f));
        break;
      }
      case PassKind::backward_data:  // dx[n c] = dy[n f] w[f c]
        add(spec, vendor, matrix(e.n, e.f, e.f, 1), 0, matrix(e.f, e.c, e.c, 1), 1, Desc(), result(e.n, e.c));
        break;
      case PassKind::backward_filter:  // dw[f c] = dy[n f]^T x[n c]
        add(spec, vendor, matrix(e.f, e.n, 1, e.f), 1, matrix(e.n, e.c, e.c, 1), 0, Desc(), result(e.f, e.c));
        break;
    }
  }
  std::size_t workspace_bytes() const override { return sequence_.workspace_bytes(); }
  std::string implementation() const override { return implementation_; }
  void run(std::span<void* const> operands, void* workspace) override { sequence_.run(operands, workspace); }

 private:
  // c = epilogue(a b + bias); operand numbers as KernelSpec orders them
  void add(const KernelSpec& spec, const Vendor& vendor, const Desc& a, int a_operand, const Desc& b, int b_operand,
           const Desc& bias, const Desc& c) {
    const auto pd = vendor::matmul(vendor.engine, a, b, bias, c, vendor::attributes(spec.epilogue));
    implementation_ = pd.impl_info_str();
    std::vector<Sequence::Argument> arguments{{DNNL_ARG_SRC, a, {a_operand, 0}}, {DNNL_ARG_WEIGHTS, b, {b_operand, 0}}};
    const bool biased = spec.pass == PassKind::forward && spec.bias;
    if (biased) arguments.push_back({DNNL_ARG_BIAS, bias, {2, 0}});
    arguments.push_back({DNNL_ARG_DST, c, {biased ? 3 : 2, 0}});
    sequence_.add(dnnl::matmul(pd), pd.scratchpad_desc(), arguments);
  }

  Sequence sequence_;
  std::string implementation_{};
};

}  // namespace

std::unique_ptr<Kernel> dense_kernel(const KernelSpec& spec, const Vendor& vendor) {
  return std::make_unique<DenseKernel>(spec, vendor);
}

}  // namespace motley::cpu
