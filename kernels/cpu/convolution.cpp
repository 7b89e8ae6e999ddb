// SPDX-License-Identifier: Apache-2.0
// y[n f p q] = activation(b[f] + conv(x[n c h w], w[f c r s])) and its two gradients by oneDNN. Weights are packed into the layout
// that oneDNN picks, in run(); x and y are staged (copied into the workspace) only where oneDNN cannot take them as they are:
// rows that no window reaches, windows wholly in padding, or formats that only its slow implementations know.
#include <algorithm>
#include <optional>
#include <string_view>

#include "kernels/cpu/dnnl_kernels.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/sequence.h"
#include "kernels/cpu/weights.h"
#include "kernels/operands.h"

namespace motley::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

Tag tag_of(Format format) {
  switch (format) {
    case Format::plain: return Tag::abcd;
    case Format::channels_last: return Tag::acdb;
    case Format::blocked8: return Tag::aBcd8b;
    case Format::blocked16: return Tag::aBcd16b;
  }
  return Tag::undef;
}

Desc desc_of(const Dims& dims, Tag tag) { return Desc(dims, dnnl::memory::data_type::f32, tag); }

// ---- geometry: the rows (columns) of x that oneDNN is given, begin..end-1 in x's own numbers
struct Axis {
  Index begin = 0, end = 0, extent = 0;         // of what it is given; x's own extent
  Index padding_l = 0, padding_r = 0;           // left for oneDNN to imagine
  bool is_staged() const { return begin != 0 || end != extent; }
  Range real() const { return intersect(Range{begin, end}, Range{0, extent}); }
};

Axis axis_of(const KernelSpec& spec, std::size_t i) {
  const Roles& e = spec.roles;
  const Index extent = i == 0 ? e.h : e.w, outputs = i == 0 ? e.p : e.q;
  const Index window = ((i == 0 ? e.r : e.s) - 1) * spec.dilation[i] + 1;
  const Index first = -spec.padding[2 * i], last = first + (outputs - 1) * spec.stride[i] + window;  // the windows reach first..last-1
  const Index left = -first, right = last - extent;
  const bool fits = left >= 0 && left < window && right > -spec.stride[i] && right < window;
  if (fits) return {0, extent, extent, left, right};
  return {first, last, extent, 0, 0};
}

// ---- which of oneDNN's implementations
enum class Speed { reference, gemm, jit };

Speed speed_of(std::string_view implementation) {
  if (implementation.find("ref") == 0 || implementation.find("simple") == 0) return Speed::reference;
  return implementation.find("gemm:") != std::string_view::npos ? Speed::gemm : Speed::jit;
}

// One pass of one convolution as oneDNN would do it.
struct Choice {
  dnnl::primitive primitive{};
  Desc x{}, w{}, y{}, scratchpad{};
  std::string implementation{};
  bool fused = true;  // the activation inside
  Speed speed() const { return speed_of(implementation); }
};

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

enum class Verdict { good, slow, wrong };

// Of implementations that oneDNN offers before others.
Verdict verdict_on(std::string_view implementation, const KernelSpec& spec, bool channels_last) {
  const Roles& e = spec.roles;
  const bool strided = spec.stride[0] > 1 || spec.stride[1] > 1;
  if (!channels_last) return Verdict::good;
  // oneDNN 2.6.3 writes past its scratchpad (found by guards around it, AVX2 and AVX-512).
  if (spec.pass == PassKind::backward_filter && starts_with(implementation, "jit_1x1:") && strided && e.c % 16 != 0)
    return Verdict::wrong;
  // Measured, AVX-512, 4x4, 512 channels: 15.3 ms against 8.5 ms for jit; at 6x6 it is the faster one.
  if (starts_with(implementation, "brgconv:") && e.p * e.q <= 16) return Verdict::slow;
  // Measured, SSE4.1: 68.0 ms against 54.9 ms for gemm (8x8, 256 channels), 1.7 against 0.85 (3 channels); 16.7 against 27.3 at 2x2.
  if (starts_with(implementation, "jit:sse41") && e.p * e.q > 16) return Verdict::slow;
  return Verdict::good;
}

// The first implementation that is not passed over; all are: the first one that is right. describe(choice, pd) sets x, w, y.
template <class Primitive, class Describe>
std::optional<Choice> first_of(const KernelSpec& spec, vendor::Described<Primitive> described, bool channels_last, Describe&& describe) {
  std::optional<Choice> fallback;
  auto& pd = described.pd;
  do {
    const std::string name = pd.impl_info_str();
    const Verdict verdict = verdict_on(name, spec, channels_last);
    if (verdict == Verdict::wrong || (verdict == Verdict::slow && fallback)) continue;
    if (verdict == Verdict::good && fallback && speed_of(name) == Speed::reference) break;
    Choice choice{Primitive(pd), {}, {}, {}, pd.scratchpad_desc(), name, true};
    describe(choice, pd);
    if (verdict == Verdict::good) return choice;
    fallback = std::move(choice);
  } while (pd.next_impl());
  return fallback;
}

std::optional<Choice> choose(const KernelSpec& spec, const Vendor& vendor, const vendor::ConvolutionDescs& descs, bool fused,
                             bool channels_last) {
  try {
    const auto forward = vendor::forward(vendor.engine, descs, vendor::attributes(fused ? spec.activation : Activation::none));
    switch (spec.pass) {
      case PassKind::forward: {
        auto choice = first_of<dnnl::convolution_forward>(spec, *forward, channels_last, [](Choice& c, const auto& pd) {
          c.x = pd.src_desc(), c.w = pd.weights_desc(), c.y = pd.dst_desc();
        });
        if (choice) choice->fused = fused;
        return choice;
      }
      case PassKind::backward_data:
        return first_of<dnnl::convolution_backward_data>(
            spec, vendor::backward<dnnl::convolution_backward_data>(vendor.engine, descs, vendor::attributes(), forward), channels_last,
            [](Choice& c, const auto& pd) { c.x = pd.diff_src_desc(), c.w = pd.weights_desc(), c.y = pd.diff_dst_desc(); });
      case PassKind::backward_filter:
        return first_of<dnnl::convolution_backward_weights>(
            spec, vendor::backward<dnnl::convolution_backward_weights>(vendor.engine, descs, vendor::attributes(), forward), channels_last,
            [](Choice& c, const auto& pd) { c.x = pd.src_desc(), c.w = pd.diff_weights_desc(), c.y = pd.diff_dst_desc(); });
    }
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
  }
  return std::nullopt;
}

// Flops per staged byte: a reorder moves about 10 bytes (in and out) per ns, the gain is some 3 ps per flop.
constexpr double kWorthStaging = 75;

class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(const KernelSpec& spec, const Vendor& vendor)
      : spec_(spec), vendor_(vendor), sequence_(vendor.engine), rows_(axis_of(spec, 0)), cols_(axis_of(spec, 1)) {
    const Roles& e = spec.roles;
    descs_.x = desc_of(x_dims(), tag_of(spec.x_format));
    descs_.w = desc_of({e.f, e.c, e.r, e.s}, Tag::any);
    descs_.y = desc_of(y_dims(), tag_of(spec.y_format));
    if (spec.pass == PassKind::forward && spec.bias) descs_.b = desc_of({e.f}, Tag::a);
    descs_.window = {{spec.stride[0], spec.stride[1]},
                     {spec.dilation[0] - 1, spec.dilation[1] - 1},
                     {rows_.padding_l, cols_.padding_l},
                     {rows_.padding_r, cols_.padding_r}};
    choice_ = best_choice();
    switch (spec.pass) {
      case PassKind::forward: make_forward(); break;
      case PassKind::backward_data: make_backward_data(); break;
      case PassKind::backward_filter: make_backward_filter(); break;
    }
  }
  std::size_t workspace_bytes() const override { return sequence_.workspace_bytes(); }
  std::string implementation() const override { return choice_.implementation; }
  void run(std::span<void* const> operands, void* workspace) override { sequence_.run(operands, workspace); }

 private:
  using Place = Sequence::Place;

  Dims x_dims() const { return {spec_.roles.n, spec_.roles.c, rows_.end - rows_.begin, cols_.end - cols_.begin}; }  // what oneDNN is given
  Dims y_dims() const { return {spec_.roles.n, spec_.roles.f, spec_.roles.p, spec_.roles.q}; }

  // Where formats of oneDNN's own choice are worth two reorders if they can be had with jit code.
  bool may_gain_by_staging(const Choice& given) const {
    const bool vectors = (static_cast<unsigned>(vendor_.isa) & static_cast<unsigned>(dnnl::cpu_isa::avx2)) == static_cast<unsigned>(dnnl::cpu_isa::avx2);
    const bool avx512 = starts_with(vendor_.loops->name, "avx512");
    if (given.speed() == Speed::gemm && (vectors || spec_.pass == PassKind::forward)) return true;
    if (spec_.x_format != Format::channels_last) return false;
    // Measured in channels_last, 512 channels: SSE4.1 forward 2x2 16.7 ms against 8.6; AVX-512 backward_data 4x4 9.9 against 7.6.
    if (!vectors) return spec_.pass == PassKind::forward;
    return avx512 && spec_.pass == PassKind::backward_data && spec_.roles.p * spec_.roles.q <= 16;
  }

  // The formats to stage x and y in: oneDNN's own, but its gemm is faster in channels_last than in the plain format that it names.
  vendor::ConvolutionDescs staged_descs() const {
    const bool jit = spec_.pass == PassKind::forward || !starts_with(vendor_.loops->name, "sse41");
    vendor::ConvolutionDescs staged = descs_;
    staged.x = desc_of(x_dims(), jit ? Tag::any : Tag::acdb);
    staged.y = desc_of(y_dims(), jit ? Tag::any : Tag::acdb);
    return staged;
  }

  Choice best_choice() const {
    for (const bool fused : {true, false}) {
      const auto given = choose(spec_, vendor_, descs_, fused, spec_.x_format == Format::channels_last);
      const bool slow = !given || given->speed() == Speed::reference;
      if (!slow && !may_gain_by_staging(*given)) return *given;
      const auto staged = choose(spec_, vendor_, staged_descs(), fused, false);
      if (slow && staged) return *staged;
      if (!given) continue;
      if (!staged || staged->speed() != Speed::jit) return *given;
      const std::size_t bytes = (staged->x == descs_.x ? 0 : staged->x.get_size()) + (staged->y == descs_.y ? 0 : staged->y.get_size());
      return flops(spec_) >= kWorthStaging * static_cast<double>(bytes) ? *staged : *given;
    }
    throw dnnl::error(dnnl_unimplemented, "no implementation");
  }

  Desc user_x() const {
    const Roles& e = spec_.roles;
    return desc_of({e.n, e.c, e.h, e.w}, tag_of(spec_.x_format));
  }
  Desc user_w() const {
    const Roles& e = spec_.roles;
    return desc_of({e.f, e.c, e.r, e.s}, tag_of(spec_.w_format));
  }
  Desc user_y() const { return desc_of(y_dims(), tag_of(spec_.y_format)); }

  // Where oneDNN finds an operand that it takes as `wanted`: as it lies, or copied into the workspace.
  Place input(int operand, const Desc& given, const Desc& wanted) {
    if (given == wanted) return {operand, 0};
    const Place place = sequence_.reserve(wanted.get_size());
    sequence_.add_reorder(given, {operand, 0}, wanted, place);
    return place;
  }

  // w packed for oneDNN (back: dw unpacked) between an operand and the workspace.
  void add_packing(int operand, Place packed, bool back) {
    const Place given{operand, 0};
    if (auto plan = plan_packing(spec_, choice_.w, back)) {
      sequence_.add_work(given, packed, [plan = std::move(*plan), loops = vendor_.loops, threads = vendor_.threads](void* w, void* to) {
        PackLoop loop = plan.loop;
        loop.offsets = plan.offsets.data();
        for_parts(threads, plan.units, [&](Index begin, Index end) {
          loops->pack_weights(loop, static_cast<float*>(w), static_cast<float*>(to), begin, end);
        });
      });
    } else if (back) {
      sequence_.add_reorder(choice_.w, packed, user_w(), given);
    } else {
      sequence_.add_reorder(user_w(), given, choice_.w, packed);
    }
  }
  Place input_w(int operand) {
    if (user_w() == choice_.w) return {operand, 0};
    const Place place = sequence_.reserve(choice_.w.get_size());
    add_packing(operand, place, false);
    return place;
  }

  // x's rows and columns that windows reach, as parts of x and of what oneDNN is given; no elements: none
  struct Views {
    Desc x{}, staged{};
    bool any = false, whole = false;  // whole: all that oneDNN is given is real
  };
  Views views() const {
    const Roles& e = spec_.roles;
    const Range h = rows_.real(), w = cols_.real();
    Views views;
    views.any = h.size() > 0 && w.size() > 0;
    views.whole = h == Range{rows_.begin, rows_.end} && w == Range{cols_.begin, cols_.end};
    if (!views.any) return views;
    const Dims part{e.n, e.c, h.size(), w.size()};
    views.x = user_x().submemory_desc(part, {0, 0, h.begin, w.begin});
    views.staged = choice_.x.submemory_desc(part, {0, 0, h.begin - rows_.begin, w.begin - cols_.begin});
    return views;
  }
  bool is_cropped() const { return rows_.is_staged() || cols_.is_staged(); }

  void zero(Place place, std::size_t bytes) {
    sequence_.add_work(place, place, [bytes](void* data, void*) { std::fill_n(static_cast<std::byte*>(data), bytes, std::byte{0}); });
  }

  Place input_x(int operand) {
    if (!is_cropped()) return input(operand, user_x(), choice_.x);
    const Place place = sequence_.reserve(choice_.x.get_size());
    const Views parts = views();
    if (!parts.whole) zero(place, choice_.x.get_size());
    if (parts.any) sequence_.add_reorder(parts.x, {operand, 0}, parts.staged, place);
    return place;
  }

  void make_forward() {
    const Place x = input_x(0), w = input_w(1);
    const int result = spec_.bias ? 3 : 2;
    const Desc given = user_y();
    const bool staged = given != choice_.y;
    const Place y = staged ? sequence_.reserve(choice_.y.get_size()) : Place{result, 0};
    std::vector<Sequence::Argument> arguments{{DNNL_ARG_SRC, choice_.x, x}, {DNNL_ARG_WEIGHTS, choice_.w, w}, {DNNL_ARG_DST, choice_.y, y}};
    if (spec_.bias) arguments.push_back({DNNL_ARG_BIAS, descs_.b, {2, 0}});
    sequence_.add(choice_.primitive, choice_.scratchpad, arguments);
    if (staged) sequence_.add_reorder(choice_.y, y, given, {result, 0});
    if (!choice_.fused && spec_.activation != Activation::none) {
      const Index elements = static_cast<Index>(given.get_size() / sizeof(float));
      sequence_.add_work({result, 0}, {result, 0}, [loops = vendor_.loops, activation = spec_.activation, elements](void* data, void*) {
        loops->activate(activation, static_cast<float*>(data), elements);
      });
    }
  }

  void make_backward_data() {
    const Place dy = input(0, user_y(), choice_.y), w = input_w(1);
    const bool staged = is_cropped() || user_x() != choice_.x;
    const Place dx = staged ? sequence_.reserve(choice_.x.get_size()) : Place{2, 0};
    sequence_.add(choice_.primitive, choice_.scratchpad,
                  {{DNNL_ARG_DIFF_DST, choice_.y, dy}, {DNNL_ARG_WEIGHTS, choice_.w, w}, {DNNL_ARG_DIFF_SRC, choice_.x, dx}});
    if (!staged) return;
    if (!is_cropped()) return sequence_.add_reorder(choice_.x, dx, user_x(), {2, 0});
    const Views parts = views();
    zero({2, 0}, user_x().get_size());  // the rows that no window reaches
    if (parts.any) sequence_.add_reorder(parts.staged, dx, parts.x, {2, 0});
  }

  void make_backward_filter() {
    const Place x = input_x(0), dy = input(1, user_y(), choice_.y);
    const bool packed = user_w() != choice_.w;
    const Place dw = packed ? sequence_.reserve(choice_.w.get_size()) : Place{2, 0};
    sequence_.add(choice_.primitive, choice_.scratchpad,
                  {{DNNL_ARG_SRC, choice_.x, x}, {DNNL_ARG_DIFF_DST, choice_.y, dy}, {DNNL_ARG_DIFF_WEIGHTS, choice_.w, dw}});
    if (packed) add_packing(2, dw, true);
  }

  KernelSpec spec_;
  Vendor vendor_;
  Sequence sequence_;
  Axis rows_, cols_;
  vendor::ConvolutionDescs descs_{};
  Choice choice_{};
};

}  // namespace

std::unique_ptr<Kernel> convolution_kernel(const KernelSpec& spec, const Vendor& vendor) {
  return std::make_unique<ConvolutionKernel>(spec, vendor);
}

}  // namespace motley::cpu
