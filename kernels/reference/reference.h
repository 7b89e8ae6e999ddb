// SPDX-License-Identifier: Apache-2.0
// Shared by the reference's ops: the positions of elements. All arithmetic is f64.
#pragma once
#include <motley/error.h>
#include <motley/kernel_spec.h>

#include <array>
#include <cmath>
#include <span>

#include "kernels/evaluate.h"

namespace motley::reference {

using Operands = std::span<void* const>;
using Run = void (*)(const KernelSpec& spec, Operands operands, void* workspace);

// The loops for a spec's pass and dtype. InternalError: a pass that the op does not have.
Run conv2d(const KernelSpec& spec);
Run dense(const KernelSpec& spec);
Run max_pool2d(const KernelSpec& spec);
Run avg_pool2d(const KernelSpec& spec);
Run map(const KernelSpec& spec);
Run attention(const KernelSpec& spec);

// A dense slice [a b c d] in any format.
template <class T>
class Slice {
 public:
  Slice(void* data, Format format, const std::array<Index, 4>& extents) : data_(static_cast<T*>(data)) {
    const std::vector<Index> strides = strides_of(format, {extents.begin(), extents.end()});
    for (std::size_t i = 0; i < 4; i++) strides_[i] = strides[i];
  }
  T& operator()(Index a, Index b, Index c, Index d) const {
    return data_[a * strides_[0] + b * strides_[1] + c * strides_[2] + d * strides_[3]];
  }
  Index step() const { return strides_[3]; }  // elements from one d to the next
 private:
  T* data_;
  std::array<Index, 4> strides_{};
};

// x[n gc h w], w[gf c r s], y[n gf p q] of conv2d; x[n c h w], y[n c p q] of the pools.
template <class T>
Slice<T> x_slice(void* data, const KernelSpec& spec) {
  return {data, spec.x_format, {spec.roles.n, spec.roles.g * spec.roles.c, spec.roles.h, spec.roles.w}};
}
template <class T>
Slice<T> x_slice_with_halo(void* data, const KernelSpec& spec) {
  const std::array<Index, 4>& m = spec.halo;
  return {data, spec.x_format, {spec.roles.n, spec.roles.c, spec.roles.h + m[0] + m[1], spec.roles.w + m[2] + m[3]}};
}
template <class T>
Slice<T> w_slice(void* data, const KernelSpec& spec) {
  return {data, spec.w_format, {spec.roles.g * spec.roles.f, spec.roles.c, spec.roles.r, spec.roles.s}};
}
template <class T>
Slice<T> y_slice(void* data, const KernelSpec& spec) {
  const Index channels = spec.op == KernelOp::conv2d ? spec.roles.g * spec.roles.f : spec.roles.c;
  return {data, spec.y_format, {spec.roles.n, channels, spec.roles.p, spec.roles.q}};
}

// The row and column of x that window element (r, s) of output (p, q) reads; outside of 0..h-1, 0..w-1 is padding.
inline Index row_of(const KernelSpec& spec, Index p, Index r) {
  return p * spec.stride[0] - spec.padding[0] + r * spec.dilation[0];
}
inline Index col_of(const KernelSpec& spec, Index q, Index s) {
  return q * spec.stride[1] - spec.padding[2] + s * spec.dilation[1];
}

// Pools: calls with (h, w) for every real element of the window of (p, q), in row-major order, including those in the halo; returns
// their number.
template <class Call>
Index for_each_real(const KernelSpec& spec, Index p, Index q, Call&& call) {
  const Roles& e = spec.roles;
  Index count = 0;
  for (Index r = 0; r < e.r; r++) {
    const Index h = row_of(spec, p, r);
    if (h < -spec.halo[0] || h >= e.h + spec.halo[1]) continue;
    for (Index s = 0; s < e.s; s++) {
      const Index w = col_of(spec, q, s);
      if (w < -spec.halo[2] || w >= e.w + spec.halo[3]) continue;
      call(h, w);
      count++;
    }
  }
  return count;
}
inline bool in_slice(const KernelSpec& spec, Index h, Index w) {
  return h >= 0 && h < spec.roles.h && w >= 0 && w < spec.roles.w;
}

inline constexpr std::size_t kMostExtents = 16;  // of a map

// The instance, for the storage type, of loops that are templates over it.
inline Run by_dtype(const KernelSpec& spec, Run f32, Run f64) {
  check(spec.dtype != DType::i32, "kernels compute in f32 or f64");
  return spec.dtype == DType::f32 ? f32 : f64;
}

}  // namespace motley::reference
