// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's own kernels, run by plain loops on the host: the formulas and all that is made ready for them, without a GPU.
// Convolutions go as they go to cuDNN, with the reference in its place.
#pragma once
#include "kernels/cuda/attention_in_parts.h"
#include "kernels/cuda/staged_convolution.h"

namespace motley::testing {

struct HostLaunch {
  template <class F>
  void operator()(Index n, const F& formula) const {
    for (Index i = n; i-- > 0;) formula(i);  // no element may lean on one before it
  }
};

class HostEngine {
 public:
  explicit HostEngine(const KernelSpec& spec) : pass_(spec.pass), dtype_(spec.dtype) {
    const cuda::Reach reach = cuda::reach_of(spec);
    KernelSpec taken = spec;
    taken.roles.h = reach.h;
    taken.roles.w = reach.w;
    taken.padding = {reach.before[0], reach.after[0], reach.before[1], reach.after[1]};
    taken.x_format = taken.w_format = taken.y_format = Format::channels_last;
    taken.bias = taken.accumulate = false;
    taken.epilogue = {};
    kernel_ = reference_backend()->compile(taken);
  }
  std::string name() const { return "host"; }
  std::size_t scratch_bytes() const { return kernel_->workspace_bytes(); }
  bool takes_bias() const { return false; }
  bool takes_epilogue() const { return false; }
  bool takes_sum() const { return false; }
  void move(const cuda::MoveOptions& options, const void* from, void* to) const {
    if (dtype_ == DType::f64)
      HostLaunch()(options.to.elements, cuda::Move<double>{options, static_cast<const double*>(from), static_cast<double*>(to)});
    else
      HostLaunch()(options.to.elements, cuda::Move<float>{options, static_cast<const float*>(from), static_cast<float*>(to)});
  }
  void finish(const cuda::EpilogueOptions& o, const void* bias, const void* sum, void* y) const {
    if (dtype_ == DType::f64)
      HostLaunch()(o.to.elements, cuda::Epilogue<double>{o, static_cast<const double*>(bias), static_cast<const double*>(sum),
                                                         static_cast<double*>(y)});
    else
      HostLaunch()(o.to.elements, cuda::Epilogue<float>{o, static_cast<const float*>(bias), static_cast<const float*>(sum),
                                                        static_cast<float*>(y)});
  }
  void execute(void* const (&data)[3], const void*, void* scratch) {
    const auto [x, w, y] = data;
    std::vector<void*> operands{x, w, y};
    if (pass_ == PassKind::backward_data) operands = {y, w, x};
    if (pass_ == PassKind::backward_filter) operands = {x, y, w};
    kernel_->run(operands, scratch);
  }

 private:
  PassKind pass_;
  DType dtype_;
  std::unique_ptr<Kernel> kernel_{};
};

// Convolutions by our own formula, or moved and padded as an engine of cuDNN takes them.
class FormulaBackend final : public Backend {
 public:
  enum class Convolutions : std::uint8_t { direct, as_for_cudnn };
  explicit FormulaBackend(Convolutions convolutions = Convolutions::direct) : convolutions_(convolutions) {}
  bool supports(const KernelSpec& spec) const override { return cuda::supports_own_kernel(spec); }
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    if (spec.dtype == DType::bf16 && spec.op != KernelOp::map)
      return converted(spec, compile(in_f32(spec)), cuda::conversion_by(HostLaunch{}));
    if (convolutions_ == Convolutions::as_for_cudnn && spec.op == KernelOp::conv2d && cuda::reach_of(spec).possible)
      return std::make_unique<cuda::StagedConvolution<HostEngine>>(spec, HostEngine(spec));
    if (spec.op == KernelOp::attention)  // so few scores at once that there are several parts
      return cuda::attention_in_parts(
          spec, [](const KernelSpec& part, bool) { return cuda::make_own_kernel(part, HostLaunch{}); }, 200);
    return cuda::make_own_kernel(spec, HostLaunch{});
  }
  std::string model() const override { return "formulas"; }
  std::string isa() const override { return "generic"; }
  std::string library() const override { return "none"; }
  int threads() const override { return 1; }
  Index memory_bytes() const override { return 0; }

 private:
  Convolutions convolutions_;
};

}  // namespace motley::testing
