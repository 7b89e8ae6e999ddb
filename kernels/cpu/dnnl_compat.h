// SPDX-License-Identifier: Apache-2.0
// The one file that knows how oneDNN 2.x and 3.x differ. Everything else stays inside what both have.
#pragma once
#include <motley/kernel_spec.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string>

namespace motley::cpu::vendor {

// Strides, dilations (0: dense) and paddings of a convolution, each per axis (rows, columns).
struct Window {
  dnnl::memory::dims strides{}, dilations{}, padding_l{}, padding_r{};
};
struct ConvolutionDescs {
  dnnl::memory::desc x{}, w{}, b{}, y{};  // an empty b: none
  Window window{};
};

inline dnnl::algorithm eltwise(Activation activation) {
  switch (activation) {
    case Activation::sigmoid: return dnnl::algorithm::eltwise_logistic;
    case Activation::tanh: return dnnl::algorithm::eltwise_tanh;
    case Activation::elu: return dnnl::algorithm::eltwise_elu;
    default: return dnnl::algorithm::eltwise_relu;
  }
}

// Scratchpad from the caller; the activation behind the sum.
inline dnnl::primitive_attr attributes(Activation activation = Activation::none) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (activation == Activation::none) return attr;
  dnnl::post_ops post;
  const float alpha = activation == Activation::elu ? 1.0f : 0.0f;
#if DNNL_VERSION_MAJOR >= 3
  post.append_eltwise(eltwise(activation), alpha, 0.0f);
#else
  post.append_eltwise(1.0f, eltwise(activation), alpha, 0.0f);
#endif
  attr.set_post_ops(post);
  return attr;
}

#if DNNL_VERSION_MAJOR >= 3
inline auto forward(const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::primitive_attr& attr) {
  const Window& w = d.window;
  return dnnl::convolution_forward::primitive_desc(engine, dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, d.x,
                                                   d.w, d.b, d.y, w.strides, w.dilations, w.padding_l, w.padding_r, attr);
}
inline auto backward_data(const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::primitive_attr& attr,
                          const dnnl::convolution_forward::primitive_desc& hint) {
  const Window& w = d.window;
  return dnnl::convolution_backward_data::primitive_desc(engine, dnnl::algorithm::convolution_direct, d.x, d.w, d.y, w.strides,
                                                         w.dilations, w.padding_l, w.padding_r, hint, attr);
}
inline auto backward_filter(const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::primitive_attr& attr,
                            const dnnl::convolution_forward::primitive_desc& hint) {
  const Window& w = d.window;
  return dnnl::convolution_backward_weights::primitive_desc(engine, dnnl::algorithm::convolution_direct, d.x, d.w, d.y, w.strides,
                                                            w.dilations, w.padding_l, w.padding_r, hint, attr);
}
inline auto matmul(const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                   const dnnl::memory::desc& bias, const dnnl::memory::desc& c, const dnnl::primitive_attr& attr) {
  return dnnl::matmul::primitive_desc(engine, a, b, bias, c, attr);
}
#else
inline auto forward(const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::primitive_attr& attr) {
  const Window& w = d.window;
  return dnnl::convolution_forward::primitive_desc({dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, d.x, d.w,
                                                    d.b, d.y, w.strides, w.dilations, w.padding_l, w.padding_r},
                                                   attr, engine);
}
inline auto backward_data(const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::primitive_attr& attr,
                          const dnnl::convolution_forward::primitive_desc& hint) {
  const Window& w = d.window;
  return dnnl::convolution_backward_data::primitive_desc(
      {dnnl::algorithm::convolution_direct, d.x, d.w, d.y, w.strides, w.dilations, w.padding_l, w.padding_r}, attr, engine, hint);
}
inline auto backward_filter(const dnnl::engine& engine, const ConvolutionDescs& d, const dnnl::primitive_attr& attr,
                            const dnnl::convolution_forward::primitive_desc& hint) {
  const Window& w = d.window;
  return dnnl::convolution_backward_weights::primitive_desc(
      {dnnl::algorithm::convolution_direct, d.x, d.w, d.y, w.strides, w.dilations, w.padding_l, w.padding_r}, attr, engine, hint);
}
inline auto matmul(const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                   const dnnl::memory::desc& bias, const dnnl::memory::desc& c, const dnnl::primitive_attr& attr) {
  return dnnl::matmul::primitive_desc({a, b, bias, c}, attr, engine);
}
#endif

// ISAs as bit masks: a contains b when (a & b) == b. Empty name: unknown to this version.
struct IsaName {
  const char* name;
  dnnl::cpu_isa isa;
};
inline const std::vector<IsaName>& isas() {  // slowest first
  static const std::vector<IsaName> list{
      {"sse41", dnnl::cpu_isa::sse41},
      {"avx", dnnl::cpu_isa::avx},
      {"avx2", dnnl::cpu_isa::avx2},
      {"avx2_vnni", dnnl::cpu_isa::avx2_vnni},
      {"avx512_core", dnnl::cpu_isa::avx512_core},
      {"avx512_core_vnni", dnnl::cpu_isa::avx512_core_vnni},
      {"avx512_core_bf16", dnnl::cpu_isa::avx512_core_bf16},
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
