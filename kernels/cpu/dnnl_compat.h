// SPDX-License-Identifier: Apache-2.0
// The only file that handles differences between oneDNN 2.x and 3.x. All other code uses what both have.
#pragma once
#include <motley/kernel_spec.h>

#include <algorithm>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "kernels/value.h"

namespace motley::cpu::vendor {

// Strides, dilations (0: dense) and paddings of a convolution, each per axis (rows, columns).
struct Window {
  dnnl::memory::dims strides{}, dilations{}, padding_l{}, padding_r{};
};
struct ConvolutionDescs {
  dnnl::memory::desc x{}, w{}, b{}, y{};  // an empty b: none
  Window window{};
};

// oneDNN 2.6.3's generated code computes relu as max(x, 0), so NaN becomes 0 (not in its gemm convolutions). Measured cost of
// alternatives, relative to a convolution: a separate pass over y 2-99 %; linear(-1), clip(-inf, 0), abs, which makes NaN infinite,
// 1-3 %, with few channels or 1x1 4-12 %, in gemm 100 %.
struct Eltwise {
  Formula formula;
  dnnl::algorithm algorithm;
  float alpha;
};
inline const std::vector<Eltwise>& eltwise() {
  static const Value x = operand(0);
  static const std::vector<Eltwise> list{
      {formula({select(x <= 0.0, 0.0, x)}), dnnl::algorithm::eltwise_relu, 0},
      {formula({1.0 / (1.0 + exp(-x))}), dnnl::algorithm::eltwise_logistic, 0},
      {formula({tanh(x)}), dnnl::algorithm::eltwise_tanh, 0},
      {formula({select(0.0 < x, x, expm1(x))}), dnnl::algorithm::eltwise_elu, 1},
      {formula({x / (1.0 + exp(-x))}), dnnl::algorithm::eltwise_swish, 1},
      {formula({0.5 * x * (1.0 + erf(0.70710678118654752440 * x))}), dnnl::algorithm::eltwise_gelu_erf, 0}};
  return list;
}
inline bool knows(const Formula& epilogue) {
  return epilogue.code.empty() ||
         std::any_of(eltwise().begin(), eltwise().end(), [&](const Eltwise& e) { return e.formula == epilogue; });
}

// Scratchpad from the caller; with `sum` the result is added to what y holds, and the epilogue is applied after that.
inline dnnl::primitive_attr attributes(const Formula& epilogue = {}, bool sum = false) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops post;
  if (sum) post.append_sum(1.0f);
  for (const Eltwise& e : eltwise()) {
    if (e.formula != epilogue) continue;
#if DNNL_VERSION_MAJOR >= 3
    post.append_eltwise(e.algorithm, e.alpha, 0.0f);
#else
    post.append_eltwise(1.0f, e.algorithm, e.alpha, 0.0f);
#endif
  }
  attr.set_post_ops(post);
  return attr;
}

// A primitive descriptor, and what its next_impl() needs: in 2.x the operation's descriptor, and the hint.
template <class Primitive>
struct Described {
  std::shared_ptr<const void> operation{}, hint{};
  typename Primitive::primitive_desc pd{};
};
using Forward = Described<dnnl::convolution_forward>;

#if DNNL_VERSION_MAJOR >= 3
inline std::shared_ptr<Forward> forward(const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::primitive_attr& attr) {
  const Window& w = d.window;
  return std::make_shared<Forward>(Forward{{},
                                           {},
                                           {engine, dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, d.x,
                                            d.w, d.b, d.y, w.strides, w.dilations, w.padding_l, w.padding_r, attr}});
}
template <class Primitive>
Described<Primitive> backward(const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::primitive_attr& attr,
                              const std::shared_ptr<Forward>& hint) {
  const Window& w = d.window;
  return {{},
          hint,
          {engine, dnnl::algorithm::convolution_direct, d.x, d.w, d.y, w.strides, w.dilations, w.padding_l, w.padding_r, hint->pd,
           attr}};
}
inline dnnl::matmul::primitive_desc matmul(const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                           const dnnl::memory::desc& bias, const dnnl::memory::desc& c,
                                           const dnnl::primitive_attr& attr) {
  return {engine, a, b, bias, c, attr};
}
#else
inline std::shared_ptr<Forward> forward(const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::primitive_attr& attr) {
  const Window& w = d.window;
  const auto operation =
      std::make_shared<dnnl::convolution_forward::desc>(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, d.x,
                                                        d.w, d.b, d.y, w.strides, w.dilations, w.padding_l, w.padding_r);
  return std::make_shared<Forward>(Forward{operation, {}, {*operation, attr, engine}});
}
template <class Primitive>
Described<Primitive> backward(const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::primitive_attr& attr,
                              const std::shared_ptr<Forward>& hint) {
  const Window& w = d.window;
  const auto operation = std::make_shared<typename Primitive::desc>(dnnl::algorithm::convolution_direct, d.x, d.w, d.y, w.strides,
                                                                    w.dilations, w.padding_l, w.padding_r);
  return {operation, hint, {*operation, attr, engine, hint->pd}};
}
inline dnnl::matmul::primitive_desc matmul(const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                           const dnnl::memory::desc& bias, const dnnl::memory::desc& c,
                                           const dnnl::primitive_attr& attr) {
  return {{a, b, bias, c}, attr, engine};
}
#endif

// Of a 4-dim descriptor: the strides of its (blocked) dims, and the inner blocks, outermost first.
struct Blocking {
  std::vector<dnnl_dim_t> strides{}, sizes{}, dims{};
};
inline Blocking blocking_of(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  if (desc.get_format_kind() != dnnl::memory::format_kind::blocked) return {};
  return {desc.get_strides(), desc.get_inner_blks(), desc.get_inner_idxs()};
#else
  if (desc.data.format_kind != dnnl_blocked) return {};
  const dnnl_blocking_desc_t& b = desc.data.format_desc.blocking;
  return {{b.strides, b.strides + desc.data.ndims},
          {b.inner_blks, b.inner_blks + b.inner_nblks},
          {b.inner_idxs, b.inner_idxs + b.inner_nblks}};
#endif
}

// ISAs as bit masks: a contains b if (a & b) == b. Empty name: an ISA that this version does not know.
struct IsaName {
  const char* name;
  dnnl::cpu_isa isa;
};
inline const std::vector<IsaName>& isas() {  // slowest first
  static const std::vector<IsaName> list {
    {"sse41", dnnl::cpu_isa::sse41}, {"avx", dnnl::cpu_isa::avx}, {"avx2", dnnl::cpu_isa::avx2},
        {"avx2_vnni", dnnl::cpu_isa::avx2_vnni}, {"avx512_core", dnnl::cpu_isa::avx512_core},
        {"avx512_core_vnni", dnnl::cpu_isa::avx512_core_vnni}, {"avx512_core_bf16", dnnl::cpu_isa::avx512_core_bf16},
#if DNNL_VERSION_MAJOR >= 3
        {"avx512_core_fp16", dnnl::cpu_isa::avx512_core_fp16},
#endif
        {"avx512_core_amx", dnnl::cpu_isa::avx512_core_amx},
  };
  return list;
}

inline std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace motley::cpu::vendor
