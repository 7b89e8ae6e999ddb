// SPDX-License-Identifier: Apache-2.0
// y[n f p q] = epilogue([y[n f p q] +] b[f] + conv(x[n c h w], w[f c r s])) and its two gradients by oneDNN. Weights are packed
// into the layout that oneDNN picks, in run(); x and y are staged (copied into the workspace) only where oneDNN cannot take them as
// they are: rows that no window covers, windows entirely in padding, or formats for which oneDNN has only slow implementations.
#include <algorithm>

#include "kernels/cpu/convolution_choice.h"
#include "kernels/cpu/weights.h"

namespace motley::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

// ---- geometry: the rows (columns) of x that oneDNN is given: begin..end-1, numbered as in x
struct GivenAxis {
  Index begin = 0, end = 0, extent = 0;  // of what oneDNN is given; `extent`: x's own
  Index padding_l = 0, padding_r = 0;    // padding that oneDNN adds
  bool is_staged() const { return begin != 0 || end != extent; }
  Range real() const { return intersect(Range{begin, end}, Range{0, extent}); }
};

GivenAxis axis_of(const KernelSpec& spec, std::size_t i) {
  const Roles& e = spec.roles;
  const Index extent = i == 0 ? e.h : e.w, outputs = i == 0 ? e.p : e.q;
  const Index window = ((i == 0 ? e.r : e.s) - 1) * spec.dilation[i] + 1;
  const Index first = -spec.padding[2 * i],
              last = first + (outputs - 1) * spec.stride[i] + window;  // the windows cover first..last-1
  const Index left = -first, right = last - extent;
  const bool fits = left >= 0 && left < window && right > -spec.stride[i] && right < window;
  if (fits) return {0, extent, extent, left, right};
  return {first, last, extent, 0, 0};
}

class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(const KernelSpec& spec, const Vendor& vendor)
      : spec_(spec), vendor_(vendor), sequence_(vendor.engine), rows_(axis_of(spec, 0)), cols_(axis_of(spec, 1)) {
    const vendor::Window window{{spec.stride[0], spec.stride[1]},
                                {spec.dilation[0] - 1, spec.dilation[1] - 1},
                                {rows_.padding_l, cols_.padding_l},
                                {rows_.padding_r, cols_.padding_r}};
    const Dims x{spec.roles.n, spec.roles.g * spec.roles.c, rows_.end - rows_.begin, cols_.end - cols_.begin};
    choice_ = choose_convolution(spec, vendor, x, window);
    switch (spec.pass) {
      case PassKind::forward: make_forward(); break;
      case PassKind::backward_data: make_backward_data(); break;
      case PassKind::backward_filter: make_backward_filter(); break;
    }
  }
  std::size_t workspace_bytes() const override { return sequence_.workspace_bytes(); }
  std::string implementation() const override { return choice_.implementation + (is_staged() ? " staged" : ""); }
  void run(std::span<void* const> operands, void* workspace) override { sequence_.run(operands, workspace); }

 private:
  using Place = Sequence::Place;

  Desc user_x() const {
    const Roles& e = spec_.roles;
    return desc_of_x(spec_, {e.n, e.g * e.c, e.h, e.w}, tag_of(spec_.x_format));
  }
  Desc user_w() const { return desc_of_w(spec_); }
  Desc user_y() const { return desc_of_y(spec_, tag_of(spec_.y_format)); }

  // The place of an operand that oneDNN takes as `wanted`: where it is, or copied into the workspace.
  Place input(int operand, const Desc& given, const Desc& wanted) {
    if (given == wanted) return {operand, 0};
    const Place place = sequence_.reserve(wanted.get_size());
    sequence_.add_reorder(given, {operand, 0}, wanted, place);
    return place;
  }

  Place input_w(int operand) {
    if (user_w() == choice_.w) return {operand, 0};
    const Place place = sequence_.reserve(choice_.w.get_size());
    add_packing(sequence_, spec_, vendor_, choice_.w, {operand, 0}, place);
    return place;
  }

  // x's rows and columns that windows cover, as parts of x and of what oneDNN is given; no elements: none
  struct Views {
    Desc x{}, staged{};
    bool any = false, whole = false;  // whole: everything that oneDNN is given is real
  };
  Views views() const {
    const Roles& e = spec_.roles;
    const Range h = rows_.real(), w = cols_.real();
    Views views;
    views.any = h.size() > 0 && w.size() > 0;
    views.whole = h == Range{rows_.begin, rows_.end} && w == Range{cols_.begin, cols_.end};
    if (!views.any) return views;
    const Dims part{e.n, e.g * e.c, h.size(), w.size()};
    views.x = user_x().submemory_desc(part, {0, 0, h.begin, w.begin});
    views.staged = choice_.x.submemory_desc(part, {0, 0, h.begin - rows_.begin, w.begin - cols_.begin});
    return views;
  }
  bool is_staged() const { return is_cropped() || choice_.x != user_x() || choice_.y != user_y(); }
  bool is_cropped() const { return rows_.is_staged() || cols_.is_staged(); }

  void zero(Place place, std::size_t bytes) {
    sequence_.add_work(place, place,
                       [bytes](void* data, void*) { std::fill_n(static_cast<std::byte*>(data), bytes, std::byte{0}); });
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
    if (staged && spec_.accumulate) sequence_.add_reorder(given, {result, 0}, choice_.y, y);
    std::vector<Sequence::Argument> arguments{
        {DNNL_ARG_SRC, choice_.x, x}, {DNNL_ARG_WEIGHTS, choice_.w, w}, {DNNL_ARG_DST, choice_.y, y}};
    if (spec_.bias) arguments.push_back({DNNL_ARG_BIAS, desc_of_bias(spec_), {2, 0}});
    sequence_.add(choice_.primitive, choice_.scratchpad, arguments);
    if (staged) sequence_.add_reorder(choice_.y, y, given, {result, 0});
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
    zero({2, 0}, user_x().get_size());  // the rows that no window covers
    if (parts.any) sequence_.add_reorder(parts.staged, dx, parts.x, {2, 0});
  }

  void make_backward_filter() {
    const Place x = input_x(0), dy = input(1, user_y(), choice_.y);
    const bool packed = user_w() != choice_.w;
    const Place dw = packed ? sequence_.reserve(choice_.w.get_size()) : Place{2, 0};
    sequence_.add(choice_.primitive, choice_.scratchpad,
                  {{DNNL_ARG_SRC, choice_.x, x}, {DNNL_ARG_DIFF_DST, choice_.y, dy}, {DNNL_ARG_DIFF_WEIGHTS, choice_.w, dw}});
    if (packed) add_packing(sequence_, spec_, vendor_, choice_.w, {2, 0}, dw);
  }

  KernelSpec spec_;
  Vendor vendor_;
  Sequence sequence_;
  GivenAxis rows_, cols_;
  Choice choice_{};
};

}  // namespace

std::unique_ptr<Kernel> convolution_kernel(const KernelSpec& spec, const Vendor& vendor) {
  return std::make_unique<ConvolutionKernel>(spec, vendor);
}

}  // namespace motley::cpu
