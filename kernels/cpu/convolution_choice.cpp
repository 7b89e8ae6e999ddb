// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/convolution_choice.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace motley::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

// Least flops per staged byte for which two reorders gain: a reorder moves about 10 bytes per ns, in and out together, and the
// faster implementation gains some 3 ps per flop (bench/kernels).
constexpr double kWorthStaging = 75;
// backward_filter on AVX2, batch 8, channels_last against staged: 256 channels, 16x16 (576 flops per byte) 29.1 ms and 26.0; 512
// channels, 8x8 42.0 and 33.9; 64 channels (144 flops per byte) 1.51 and 1.54. With gemm in both cases, 512 channels, 2x2 (1152)
// 5.7 and 3.0.
constexpr double kWorthStagingOnAvx2 = 400, kWorthStagingForGemm = 1000;
// forward on SSE4.1, as given against staged: batch 32, 3x3, 3 channels, 10x10 (7 flops per byte) 0.086 ms and 0.059; 64 channels,
// 8x8, 16 filters (58) 2.06 and 1.03. Only jit_1x1 is as fast on channels_last: 64 channels, 8x8, 64 filters 0.42 and 0.45.
constexpr double kWorthStagingOnSse41 = 6;

enum class Speed { reference, gemm, jit };

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

Speed speed_of(std::string_view implementation) {
  if (starts_with(implementation, "ref") || starts_with(implementation, "simple")) return Speed::reference;
  return implementation.find("gemm:") != std::string_view::npos ? Speed::gemm : Speed::jit;
}

enum class Verdict { good, slow, wrong };

// How many columns of y have windows that reach beyond the last column of x.
Index clipped_columns(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  const Index inside = e.w - (e.s - 1) * spec.dilation[1] - 1 + spec.padding[2];
  return inside < 0 ? e.q : std::max<Index>(0, e.q - 1 - inside / spec.stride[1]);
}

// Whether some row of y has only windows that read no row of x.
bool has_row_beyond(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  const auto is_beyond = [&](Index p) {
    for (Index r = 0; r < e.r; r++) {
      const Index row = p * spec.stride[0] - spec.padding[0] + r * spec.dilation[0];
      if (row >= 0 && row < e.h) return false;
    }
    return true;
  };
  for (Index p = 0; p < e.p; p++)
    if (is_beyond(p)) return true;
  return false;
}

// Found by comparison with the reference, oneDNN 2.6.3:
//
// jit_bf16, the gradient of w, reads columns that it has not written, if x is no wider than a window with a stride, and in wide
// images whose window has dilated rows (NaN, other values, accesses outside of the operands).
//
// jit_bf16_1x1, the gradient of x, adds something beyond an odd number of filters, in some image sizes (30 positions are one).
//
// brgconv, f32 and bf16: in some sizes all columns from the first clipped one on are wrong (9x9 windows around each of 7 columns,
// 64 filters), 49 of 96,566 random convolutions, none with fewer than 4 clipped columns. With an addition to y and a bias or an
// epilogue, a row of y whose windows read no row of x is wrong, or read from anywhere. bf16: with an odd number of channels above
// 32 the 2 bytes after x are multiplied by 0 in some sizes, which is NaN if they are infinite or NaN; 408 of 2645 random ones.
//
// jit:avx512_core, the gradient of w, where windows begin far to the left of x: 1320 of 1320 such convolutions.
bool is_wrong(std::string_view implementation, const KernelSpec& spec) {
  const Roles& e = spec.roles;
  if (starts_with(implementation, "brgconv:"))
    return clipped_columns(spec) >= 4 || (spec.accumulate && (spec.bias || !spec.epilogue.code.empty()) && has_row_beyond(spec)) ||
           (spec.dtype == DType::bf16 && e.c > 32 && e.c % 2 != 0);
  if (starts_with(implementation, "jit:avx512_core") && spec.pass == PassKind::backward_filter && spec.stride[1] > 1 && e.q > 28 &&
      spec.padding[2] >= 15)
    return true;
  if (spec.pass == PassKind::backward_filter && starts_with(implementation, "jit_bf16:"))
    return spec.dilation[0] > 1 || (spec.stride[1] > 1 && e.w <= (e.s - 1) * spec.dilation[1] + 1);
  return spec.pass == PassKind::backward_data && starts_with(implementation, "jit_bf16_1x1:") && e.f % 2 != 0;
}

// The verdict on implementations that oneDNN offers before others. All cases are in channels_last, times by bench/kernels, batch
// 32.
Verdict verdict_on(std::string_view implementation, const KernelSpec& spec) {
  const Roles& e = spec.roles;
  const bool strided = spec.stride[0] > 1 || spec.stride[1] > 1, small = e.p * e.q <= 16;
  // oneDNN 2.6.3 writes past its scratchpad (found by guards around it, AVX2 and AVX-512).
  if (spec.pass == PassKind::backward_filter && implementation.find("1x1") != std::string_view::npos && strided && e.c % 16 != 0)
    return Verdict::wrong;
  // oneDNN 2.6.3 adds to y by instructions that need aligned memory, and the channels of a pixel are not aligned.
  if (spec.accumulate && starts_with(implementation, "jit_dw:sse41")) return Verdict::wrong;
  // 4x4, 512 channels: 15.3 ms, against 8.5 ms by jit:avx512_core. At 6x6 it is the faster one.
  if (starts_with(implementation, "brgconv:") && small) return Verdict::slow;
  // 8x8, 256 channels: 68.0 ms, against 54.9 ms by gemm. At 2x2, 512 channels: 16.7 ms, against 27.3 ms by gemm.
  if (starts_with(implementation, "jit:sse41") && !small) return Verdict::slow;
  return Verdict::good;
}

// The first good implementation; if there are only slow ones: the first of these, unless oneDNN offers only its reference after it.
// describe(choice, pd) sets x, w, y.
template <class Primitive, class Describe>
std::optional<Choice> first_of(const KernelSpec& spec, vendor::Described<Primitive> described, const Desc& channels_last,
                               Describe&& describe) {
  std::optional<Choice> slow;
  auto& pd = described.pd;
  do {
    Choice choice{{}, {}, {}, {}, pd.scratchpad_desc(), pd.impl_info_str()};
    describe(choice, pd);
    const Verdict verdict = is_wrong(choice.implementation, spec) ? Verdict::wrong
                            : choice.x == channels_last           ? verdict_on(choice.implementation, spec)
                                                                  : Verdict::good;
    if (verdict == Verdict::wrong || (verdict == Verdict::slow && slow)) continue;
    if (slow && speed_of(choice.implementation) == Speed::reference) break;
    choice.primitive = Primitive(pd);
    if (verdict == Verdict::good) return choice;
    slow = std::move(choice);
  } while (pd.next_impl());
  return slow;
}

// hint: for a gradient, the descriptor of the forward pass.
std::optional<Choice> choose(const KernelSpec& spec, const Vendor& vendor, const vendor::ConvolutionDescs& descs,
                             const vendor::ConvolutionDescs& hint, const Desc& channels_last) {
  try {
    const auto forward = vendor::forward(vendor.engine, spec.pass == PassKind::forward ? descs : hint,
                                         vendor::attributes(spec.epilogue, spec.accumulate));
    switch (spec.pass) {
      case PassKind::forward:
        return first_of<dnnl::convolution_forward>(spec, *forward, channels_last, [](Choice& c, const auto& pd) {
          c.x = pd.src_desc(), c.w = pd.weights_desc(), c.y = pd.dst_desc();
        });
      case PassKind::backward_data: {
        using Primitive = dnnl::convolution_backward_data;
        const auto pass = vendor::backward<Primitive>(vendor.engine, descs, vendor::attributes(), forward);
        return first_of<Primitive>(spec, pass, channels_last, [](Choice& c, const auto& pd) {
          c.x = pd.diff_src_desc(), c.w = pd.weights_desc(), c.y = pd.diff_dst_desc();
        });
      }
      case PassKind::backward_filter: {
        using Primitive = dnnl::convolution_backward_weights;
        const auto pass = vendor::backward<Primitive>(vendor.engine, descs, vendor::attributes(), forward);
        return first_of<Primitive>(spec, pass, channels_last, [](Choice& c, const auto& pd) {
          c.x = pd.src_desc(), c.w = pd.diff_weights_desc(), c.y = pd.diff_dst_desc();
        });
      }
    }
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
  }
  return std::nullopt;
}

// Whether jit code in formats of oneDNN's choice would be faster than `given`.
bool may_gain_by_staging(const KernelSpec& spec, Simd simd, const Choice& given) {
  const bool forward = spec.pass == PassKind::forward;
  if (speed_of(given.implementation) == Speed::gemm && (forward || simd != Simd::sse41)) return true;
  if (spec.x_format != Format::channels_last) return false;
  // channels_last, 512 channels: SSE4.1 2x2 forward 16.7 ms, against 8.6 in blocked formats; AVX-512 4x4 backward_data 9.9 ms,
  // against 7.6.
  if (simd == Simd::sse41) return forward && !starts_with(given.implementation, "jit_1x1:");
  if (simd == Simd::avx2) return spec.pass == PassKind::backward_filter;
  const Index outputs = spec.roles.p * spec.roles.q;
  return simd == Simd::avx512 && spec.pass == PassKind::backward_data && outputs > 4 && outputs <= 16;
}

// Least flops per staged byte for which staging gains.
double worth_staging(const KernelSpec& spec, Simd simd, const Choice& given, const Choice& staged) {
  const bool filter = simd == Simd::avx2 && spec.pass == PassKind::backward_filter && spec.x_format == Format::channels_last;
  if (speed_of(staged.implementation) == Speed::gemm)
    return filter && spec.roles.p * spec.roles.q > 1 ? kWorthStagingForGemm : HUGE_VAL;
  if (simd == Simd::sse41) return kWorthStagingOnSse41;
  return filter && speed_of(given.implementation) == Speed::jit ? kWorthStagingOnAvx2 : kWorthStaging;
}

}  // namespace

Dims dims_of_y(const KernelSpec& spec) {
  return {spec.roles.n, spec.roles.g * spec.roles.f, spec.roles.p, spec.roles.q};
}

Tag tag_of(Format format) {
  switch (format) {
    case Format::plain: return Tag::abcd;
    case Format::channels_last: return Tag::acdb;
  }
  return Tag::undef;
}

Desc desc_of_x(const KernelSpec& spec, const Dims& dims, Tag tag) {
  return Desc(dims, type_of(spec, spec.pass == PassKind::backward_data), tag);
}
Desc desc_of_y(const KernelSpec& spec, Tag tag) {
  return Desc(dims_of_y(spec), type_of(spec, spec.pass == PassKind::forward), tag);
}
Desc desc_of_bias(const KernelSpec& spec) {
  return Desc({spec.roles.g * spec.roles.f}, dnnl::memory::data_type::f32, Tag::a);
}

Dims dims_of_w(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  return e.g == 1 ? Dims{e.f, e.c, e.r, e.s} : Dims{e.g, e.f, e.c, e.r, e.s};
}

Desc desc_of_w(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  const auto type = type_of(spec, spec.pass == PassKind::backward_filter);
  if (e.g == 1) return Desc(dims_of_w(spec), type, tag_of(spec.w_format));
  const std::vector<Index> strides = strides_of(spec.w_format, {e.g * e.f, e.c, e.r, e.s});
  return Desc(dims_of_w(spec), type, Dims{e.f * strides[0], strides[0], strides[1], strides[2], strides[3]});
}

Choice choose_convolution(const KernelSpec& spec, const Vendor& vendor, const Dims& x, const vendor::Window& window) {
  const Simd simd = vendor.loops->simd;
  const Desc channels_last = desc_of_x(spec, x, Tag::acdb);
  const auto descs_of = [&](const KernelSpec& of, Tag x_tag, Tag y_tag) {
    vendor::ConvolutionDescs descs{desc_of_x(of, x, x_tag),
                                   Desc(dims_of_w(of), type_of(of, of.pass == PassKind::backward_filter), Tag::any),
                                   {},
                                   desc_of_y(of, y_tag),
                                   window};
    if (of.pass == PassKind::forward && of.bias) descs.b = desc_of_bias(of);
    return descs;
  };
  KernelSpec same = spec;  // for the forward pass of a gradient: none of its operands is a result
  same.result = same.dtype;
  const auto choose_by = [&](Tag x_tag, Tag y_tag) {
    return choose(spec, vendor, descs_of(spec, x_tag, y_tag), descs_of(same, x_tag, y_tag), channels_last);
  };
  const Desc user_x = desc_of_x(spec, x, tag_of(spec.x_format)), user_y = desc_of_y(spec, tag_of(spec.y_format));
  auto given = choose_by(tag_of(spec.x_format), tag_of(spec.y_format));
  const bool slow = !given || speed_of(given->implementation) == Speed::reference;
  if (!slow && !may_gain_by_staging(spec, simd, *given)) return *given;
  // oneDNN's formats; without jit code its gemm is faster in channels_last than in the plain format that it would pick.
  const bool any = spec.pass == PassKind::forward || simd != Simd::sse41;
  auto staged = choose_by(any ? Tag::any : Tag::acdb, any ? Tag::any : Tag::acdb);
  if (!given && !staged) throw dnnl::error(dnnl_unimplemented, "no implementation");
  if (slow) return staged ? *staged : *given;
  if (!staged || speed_of(staged->implementation) == Speed::reference) return *given;
  const std::size_t bytes = (staged->x == user_x ? 0 : staged->x.get_size()) + (staged->y == user_y ? 0 : staged->y.get_size());
  return flops(spec) >= worth_staging(spec, simd, *given, *staged) * static_cast<double>(bytes) ? *staged : *given;
}

}  // namespace motley::cpu
