// SPDX-License-Identifier: Apache-2.0
// Kernels built from the formulas. Launch runs a formula for every index 0..n-1: on the device (own_kernels.cu), or in a plain loop
// where kernels are checked on the host (tests/support/host_launch.h).
#pragma once
#include <motley/backend.h>
#include <motley/error.h>

#include <algorithm>
#include <utility>

#include "kernels/converted.h"
#include "kernels/cuda/map_plan.h"
#include "kernels/cuda/window_formulas.h"
#include "kernels/operands.h"

namespace motley::cuda {

inline Slice slice_of(Format format, const std::vector<Index>& extents) {
  Slice slice;
  const std::vector<Index> strides = strides_of(format, extents);
  for (std::size_t d = 0; d < 4; d++) {
    slice.extents[d] = extents[d];
    slice.strides[d] = strides[d];
  }
  slice.elements = extents[0] * extents[1] * extents[2] * extents[3];
  slice.channels_last = format == Format::channels_last;
  return slice;
}

// conv2d and pools; dense as a convolution of one element: x[gn c 1 1], w[gf c 1 1], y[gn f 1 1].
inline Window window_of(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  Window g;
  const bool dense = spec.op == KernelOp::dense, pool = spec.op == KernelOp::max_pool2d || spec.op == KernelOp::avg_pool2d;
  const Index one = 1;
  if (dense) {
    g.x = slice_of(Format::plain, {e.g * e.n, e.c, one, one});
    g.w = slice_of(Format::plain, {e.g * e.f, e.c, one, one});
    g.y = slice_of(Format::plain, {e.g * e.n, e.f, one, one});
  } else {
    g.x = slice_of(spec.x_format, {e.n, e.g * e.c, e.h, e.w});
    g.w = slice_of(spec.w_format, {e.g * e.f, e.c, e.r, e.s});
    g.y = slice_of(spec.y_format, {e.n, e.g * (pool ? e.c : e.f), e.p, e.q});
  }
  g.c = e.c;
  g.f = e.f;
  const std::array<Index, 4>& m = spec.halo;
  g.whole = slice_of(spec.x_format, {e.n, e.c, e.h + m[0] + m[1], e.w + m[2] + m[3]});
  g.above = m[0];
  g.left = m[2];
  g.r = dense ? one : e.r;
  g.s = dense ? one : e.s;
  for (std::size_t axis = 0; axis < 2 && !dense; axis++) {
    g.stride[axis] = spec.stride[axis];
    g.dilation[axis] = spec.dilation[axis];
    g.padding[axis] = spec.padding[2 * axis];
  }
  g.epilogue = plain_of(spec.epilogue);
  g.accumulate = spec.accumulate;
  return g;
}

template <class T, class Launch>
class WindowKernel final : public Kernel {
 public:
  WindowKernel(const KernelSpec& spec, Launch launch) : spec_(spec), g_(window_of(one_product(spec))), launch_(launch) {}
  std::string implementation() const override { return "motley:direct"; }
  void run(std::span<void* const> operands, void*) override {
    for (Index i = 0; i < (spec_.op == KernelOp::dense ? spec_.roles.g : 1); i++) run(operands, i);
  }

 private:
  // For a batch of products each product is one launch.
  static KernelSpec one_product(KernelSpec spec) {
    if (spec.op == KernelOp::dense) spec.roles.g = 1;
    return spec;
  }
  void run(std::span<void* const> operands, Index product) const {
    const auto slices = [&]() -> std::array<Index, 3> {  // number of elements of each operand of one product
      switch (spec_.pass) {
        case PassKind::forward: return {g_.x.elements, g_.w.elements, g_.y.elements};
        case PassKind::backward_data: return {g_.y.elements, g_.w.elements, g_.x.elements};
        case PassKind::backward_filter: return {g_.x.elements, g_.y.elements, g_.w.elements};
      }
      return {};
    }();
    const auto in = [&](std::size_t k) {  // 2: a bias, which a batch of products does not have
      return static_cast<const T*>(operands[k]) + (product == 0 ? 0 : product * slices[k]);
    };
    T* out = static_cast<T*>(operands.back()) + product * slices[2];
    const bool forward = spec_.pass == PassKind::forward;
    switch (spec_.op) {
      case KernelOp::max_pool2d:
        return forward ? launch_(g_.y.elements, MaxForward<T>{g_, in(0), out})
                       : launch_(g_.x.elements, MaxBackward<T>{g_, in(0), in(1), out});
      case KernelOp::avg_pool2d:
        return forward ? launch_(g_.y.elements, MeanForward<T>{g_, in(0), out})
                       : launch_(g_.x.elements, MeanBackward<T>{g_, in(0), out});
      default: break;
    }
    switch (spec_.pass) {
      case PassKind::forward:
        return launch_(g_.y.elements, ConvolutionForward<T>{g_, in(0), in(1), spec_.bias ? in(2) : nullptr, out});
      case PassKind::backward_data: return launch_(g_.x.elements, ConvolutionBackwardData<T>{g_, in(0), in(1), out});
      case PassKind::backward_filter: return launch_(g_.w.elements, ConvolutionBackwardFilter<T>{g_, in(0), in(1), out});
    }
  }

  KernelSpec spec_;
  Window g_;
  Launch launch_;
};

template <class Real, class Launch>
class MapKernel final : public Kernel {
 public:
  MapKernel(const KernelSpec& spec, Launch launch) : MapKernel(plan_map(spec), launch) {}
  std::size_t workspace_bytes() const override { return partial_bytes() + more_.size() * sizeof(MapOperandAt); }
  std::string implementation() const override { return "motley:map"; }
  void run(std::span<void* const> operands, void* workspace) override {
    auto* table = reinterpret_cast<MapOperandAt*>(static_cast<std::byte*>(workspace) + partial_bytes());
    write(operands, table);
    Map<Real> map{plan_, formula_, {}, table, {}, static_cast<double*>(workspace)};
    for (int k = 0; k < plan_.arguments; k++) map.operand[k] = operands[at(k)];
    for (int k = 0; k < plan_.results; k++) map.result[k] = operands[static_cast<std::size_t>(plan_.inputs + k)];
    launch_(plan_.parts * plan_.elements, map);
    if (plan_.parts > 1) launch_(plan_.elements, MapParts<Real>{map});
  }

 private:
  MapKernel(PlannedMap&& planned, Launch launch)
      : plan_(planned.plan), formula_(planned.formula), more_(std::move(planned.more)), launch_(launch) {}
  std::size_t partial_bytes() const {
    return plan_.parts == 1 ? 0 : static_cast<std::size_t>(plan_.results * plan_.parts * plan_.elements) * sizeof(double);
  }
  // The kernel operand that is argument k: arguments are the last inputs, so that all inputs but summands are among them.
  std::size_t at(int k) const { return more_.size() + static_cast<std::size_t>(k); }
  // Writes the table of the operands that are not arguments: the first summands. All kernels share the workspace, so it is written
  // at each run.
  void write(std::span<void* const> operands, MapOperandAt* table) const {
    for (std::size_t first = 0; first < more_.size(); first += kTableOperands) {
      MapTable part{{}, table + first};
      const std::size_t entries = std::min(more_.size() - first, static_cast<std::size_t>(kTableOperands));
      for (std::size_t i = 0; i < entries; i++) {
        part.entries[i] = more_[first + i];
        part.entries[i].data = operands[first + i];
      }
      launch_(static_cast<Index>(entries), part);
    }
  }

  MapPlan plan_;
  PlainFormula formula_;
  std::vector<MapOperandAt> more_;
  Launch launch_;
};

template <class Launch>
Conversion conversion_by(Launch launch) {
  return {[launch](const Bf16* from, float* to, Index n) {
            launch(n, Widen{from, to});
          },
          [launch](const float* from, Bf16* to, Index n) {
            launch(n, Narrow{from, to});
          }};
}

inline bool supports_own_kernel(const KernelSpec& spec) {
  return spec.op == KernelOp::map ? supports_map(spec) : spec.dtype != DType::i32;
}
// DeviceError, if not supported: a map with more extents or operands than a kernel's arguments hold.
template <class Launch>
std::unique_ptr<Kernel> make_own_kernel(const KernelSpec& spec, Launch launch) {
  if (spec.op == KernelOp::map) {
    if (is_wide(spec)) return std::make_unique<MapKernel<double, Launch>>(spec, launch);
    return std::make_unique<MapKernel<float, Launch>>(spec, launch);
  }
  if (spec.dtype == DType::bf16) return converted(spec, make_own_kernel(in_f32(spec), launch), conversion_by(launch));
  check(spec.dtype != DType::i32, "kernels compute in f32 or f64");
  if (spec.dtype == DType::f32) return std::make_unique<WindowKernel<float, Launch>>(spec, launch);
  return std::make_unique<WindowKernel<double, Launch>>(spec, launch);
}

}  // namespace motley::cuda
