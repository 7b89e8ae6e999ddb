// SPDX-License-Identifier: Apache-2.0
// Shared by convolutions, pools and upsampling: a window that slides over two dims.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "graph/nodes.h"

namespace motley {

// The greatest window, stride, dilation, padding or scale: products of two, and with sizes of dims, stay below 2^63.
inline constexpr Index kMostWindow = Index{1} << 20;
inline constexpr Index kMostSlid = Index{1} << 40;  // the greatest dim that windows slide over

struct SlideOptions {
  std::array<Dim, 2> over{};
  Extent2 window{}, stride{}, dilation{};
  Padding padding{};
};

enum class WindowEnd : std::uint8_t { read, made };

// Geometry of one slid-over dim: out[p] reads in[p*stride - before + r*dilation].
struct Slide {
  std::string dim{};
  Index in = 0, out = 0, window = 1, stride = 1, dilation = 1, before = 0;
  std::string read{};  // the dim's name at the read end; empty: the same
  const std::string& name(WindowEnd end) const { return end == WindowEnd::read && !read.empty() ? read : dim; }
};
using Slides = std::array<Slide, 2>;  // rows, columns

// UserError: `over` is not two dims of x, a number that is not from 1 (a padding: 0) to kMostWindow, a window that does not fit.
Slides slides_of(const Tensor& x, const SlideOptions& options);
// Slides of windows that make their inputs from their outputs x; `more`: rows and columns at the end that the windows would not
// cover.
Slides transposed_slides_of(const Tensor& x, const SlideOptions& options, const Extent2& more);
// x's dims except the slid-over ones, in order.
std::vector<std::string> other_dims(const Tensor& x, const Slides& slides);
// Indices n c h w f r s p q (c, f: 0 sized names when absent) and the pass's windows.
struct WindowIndices {
  std::vector<PassIndex> indices{};
  std::vector<Window> windows{};
  std::vector<int> roles{};  // n c h w f r s p q
};
WindowIndices window_indices(const Dim& n, const Dim& c, const Slides& slides, const Dim& f);
// Index list of a tensor by the roles of its dims; rows and columns at the read (input) or the made (output) end.
std::vector<int> window_operand(const WindowIndices& w, const Shape& shape, const Slides& slides, WindowEnd end);
// A pool of `read` into `made`, or its gradient's pass: `made` into `read`.
Pass& pool_pass(Lowering& to, const Node& node, const std::string& what, KernelOp op, PassKind kind, const Slides& slides, int read,
                int made);

// The two dims that a model file's `over` names; none if it names none. UserError: another number of dims.
std::array<Dim, 2> slid_over(const std::string& op, const std::vector<std::string>& names);

}  // namespace motley
