// SPDX-License-Identifier: Apache-2.0
// y[g n f] = epilogue(x[g n c] w[g f c]^T + b[f]) and its gradients through cuBLASLt, a batch of g at equal distances. cuBLASLt is
// column-major and sees a row-major matrix as its transpose: every product is requested as its transpose. bf16: factors in bf16,
// sums in f32; a result that is more than the product is rounded after the rest, from f32 in the workspace.
#include <algorithm>
#include <optional>

#include "kernels/cuda/check.h"
#include "kernels/cuda/device_kernels.h"
#include "kernels/cuda/own_kernels.h"
#include "kernels/operands.h"

namespace motley::cuda {
namespace {

constexpr int kMost = 4;                                   // algorithms to choose from
constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // as advised by cuBLAS for Hopper; elsewhere less is used

// Column-major c[m n] = op(a) op(b), summed over k.
struct Product {
  Index m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;
  std::size_t a = 0, b = 0;  // operand numbers
};

// Row-major y[n f] is computed as y^T[f n] = w x^T, where w[f c] is seen as its transpose [c f]. dx^T[c n] = w^T dy^T; dw^T[c f] =
// x^T dy.
Product product_of(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  switch (spec.pass) {
    case PassKind::forward: return {e.f, e.n, e.c, true, false, 1, 0};
    case PassKind::backward_data: return {e.c, e.n, e.f, false, false, 1, 0};
    case PassKind::backward_filter: return {e.c, e.f, e.n, false, true, 0, 1};
  }
  return {};
}

// Algorithm number, tile, stages, parts of the sum and how they are reduced, order of the tiles, the algorithm's options.
std::string name_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string name = "cublasLt:";
  for (const auto& [letter, which] : {std::pair{'a', CUBLASLT_ALGO_CONFIG_ID},
                                      {'t', CUBLASLT_ALGO_CONFIG_TILE_ID},
                                      {'s', CUBLASLT_ALGO_CONFIG_STAGES_ID},
                                      {'k', CUBLASLT_ALGO_CONFIG_SPLITK_NUM},
                                      {'r', CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME},
                                      {'o', CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING},
                                      {'c', CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION},
                                      {'i', CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID},
                                      {'l', CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID}}) {
    std::uint32_t value = 0;
    std::size_t bytes = 0;  // 4 or 2
    MOTLEY_CUDA(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, which, nullptr, 0, &bytes));
    if (bytes > sizeof value) throw InternalError("cuBLASLt's options take at most 4 bytes each");
    MOTLEY_CUDA(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, which, &value, bytes, &bytes));
    name += letter + std::to_string(value);
  }
  return name;
}

class DenseKernel final : public Kernel {
 public:
  DenseKernel(const KernelSpec& spec, const Vendor& vendor) : spec_(spec), vendor_(vendor), p_(product_of(spec)) {
    const bool wide = spec.dtype == DType::f64, half = spec.dtype == DType::bf16,
               finishes = spec.pass == PassKind::forward && (spec.bias || !spec.epilogue.code.empty());
    const DType result = result_dtype(spec);
    apart_ = finishes && result == DType::bf16;
    const cublasComputeType_t compute = wide                   ? CUBLAS_COMPUTE_64F
                                        : vendor.tf32 && !half ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                               : CUBLAS_COMPUTE_32F;
    MOTLEY_CUDA(cublasLtMatmulDescCreate(&operation_, compute, wide ? CUDA_R_64F : CUDA_R_32F));
    try {
      describe(type_of(spec.dtype), type_of(apart_ ? DType::f32 : result));
      const Slice y = slices_of(spec).y;
      if (apart_) apart_bytes_ = (static_cast<std::size_t>(y.elements) * sizeof(float) + 255) / 256 * 256;
      if (finishes)
        finisher_.emplace(EpilogueOptions{y, y, apart_ ? DType::f32 : result, result, spec.bias, false, spec.epilogue},
                          *vendor.texts);
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~DenseKernel() override { destroy(); }
  DenseKernel(const DenseKernel&) = delete;
  DenseKernel& operator=(const DenseKernel&) = delete;
  std::size_t workspace_bytes() const override { return apart_bytes_ + found_[taken_].workspaceSize; }
  std::string implementation() const override { return name_of(found_[taken_].algo); }
  std::vector<std::string> implementations() const {
    std::vector<std::string> names;
    for (const auto& one : found_) names.push_back(name_of(one.algo));
    return names;
  }
  bool take(const std::string& name) {
    if (name.empty()) return !found_.empty();
    const std::vector<std::string> names = implementations();
    taken_ = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    return taken_ < names.size();
  }

  void run(std::span<void* const> operands, void* workspace) override {
    const void* bias = spec_.pass == PassKind::forward && spec_.bias ? operands[2] : nullptr;
    const float one = 1, zero = 0;
    const double one_wide = 1, zero_wide = 0;
    const bool wide = spec_.dtype == DType::f64;
    const void* alpha = wide ? static_cast<const void*>(&one_wide) : &one;
    const void* beta = wide ? static_cast<const void*>(&zero_wide) : &zero;
    void* const out = apart_ ? workspace : operands.back();
    MOTLEY_CUDA(cublasLtMatmul(vendor_.cublas, operation_, alpha, operands[p_.a], a_, operands[p_.b], b_, beta, out, c_, out, c_,
                               &found_[taken_].algo, static_cast<std::byte*>(workspace) + apart_bytes_,
                               found_[taken_].workspaceSize, vendor_.stream));
    if (finisher_) finisher_->run(bias, out, operands.back());
  }

 private:
  static cudaDataType_t type_of(DType dtype) {
    return dtype == DType::f64 ? CUDA_R_64F : dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
  }
  void describe(cudaDataType_t factors, cudaDataType_t result) {
    const auto transposed = [&](cublasLtMatmulDescAttributes_t which, bool yes) {
      const cublasOperation_t op = yes ? CUBLAS_OP_T : CUBLAS_OP_N;
      MOTLEY_CUDA(cublasLtMatmulDescSetAttribute(operation_, which, &op, sizeof op));
    };
    transposed(CUBLASLT_MATMUL_DESC_TRANSA, p_.a_transposed);
    transposed(CUBLASLT_MATMUL_DESC_TRANSB, p_.b_transposed);
    const auto layout = [&](cublasLtMatrixLayout_t& made, cudaDataType_t type, Index rows, Index cols, bool transposed_in_memory) {
      if (transposed_in_memory) std::swap(rows, cols);
      MOTLEY_CUDA(
          cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols), rows));
      if (spec_.roles.g == 1) return;
      const auto batch = static_cast<std::int32_t>(spec_.roles.g);
      const std::int64_t apart = rows * cols;
      MOTLEY_CUDA(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
      MOTLEY_CUDA(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof apart));
    };
    layout(a_, factors, p_.m, p_.k, p_.a_transposed);
    layout(b_, factors, p_.k, p_.n, p_.b_transposed);
    layout(c_, result, p_.m, p_.n, false);
    cublasLtMatmulPreference_t preference = nullptr;
    MOTLEY_CUDA(cublasLtMatmulPreferenceCreate(&preference));
    const auto ask = [&] {
      int found = 0;
      for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
        const std::uint32_t bytes = kDeviceAlignment;
        MOTLEY_CUDA(cublasLtMatmulPreferenceSetAttribute(preference, which, &bytes, sizeof bytes));
      }
      MOTLEY_CUDA(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                                       sizeof kWorkspace));
      found_.resize(kMost);
      const cublasStatus_t status =
          cublasLtMatmulAlgoGetHeuristic(vendor_.cublas, operation_, a_, b_, c_, c_, preference, kMost, found_.data(), &found);
      if (status != CUBLAS_STATUS_NOT_SUPPORTED) MOTLEY_CUDA(status);
      found_.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(found) : 0);
      std::erase_if(found_, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
    };
    try {
      ask();
    } catch (...) {
      cublasLtMatmulPreferenceDestroy(preference);
      throw;
    }
    cublasLtMatmulPreferenceDestroy(preference);
  }
  void destroy() {
    for (const cublasLtMatrixLayout_t layout : {a_, b_, c_})
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
  }

  KernelSpec spec_;
  Vendor vendor_;
  Product p_;
  bool apart_ = false;  // the product is written as f32 into the workspace
  std::size_t apart_bytes_ = 0;
  std::optional<Finisher> finisher_{};  // bias and epilogue
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> found_{};  // in cuBLASLt's order; none: it has no algorithm for this product
  std::size_t taken_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> dense_kernel(const KernelSpec& spec, const Vendor& vendor, const std::string& implementation) {
  auto kernel = std::make_unique<DenseKernel>(spec, vendor);
  return kernel->take(implementation) ? std::move(kernel) : nullptr;
}

std::vector<std::string> dense_implementations(const KernelSpec& spec, const Vendor& vendor) {
  return DenseKernel(spec, vendor).implementations();
}

}  // namespace motley::cuda
