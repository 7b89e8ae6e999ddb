// SPDX-License-Identifier: Apache-2.0
// What conv2d and the pools share: a window that slides over two dims.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "graph/nodes.h"

namespace motley {

struct SlideOptions {
  std::array<Dim, 2> over{};
  Extent2 window{}, stride{}, dilation{};
  Padding padding{};
};

// Geometry of one slid-over dim: out[p] reads in[p*stride - before + r*dilation].
struct Slide {
  std::string dim{};
  Index in = 0, out = 0, window = 1, stride = 1, dilation = 1, before = 0;
};

// UserError: `over` is no two dims of x, extents below 1, padding below 0, a window that does not fit.
std::array<Slide, 2> slides_of(const Tensor& x, const SlideOptions& options);
// x's dims but the slid-over ones, in order.
std::vector<std::string> other_dims(const Tensor& x, const std::array<Slide, 2>& slides);
// Indices n c h w f r s p q (c, f: 0 sized names when absent) and the pass's windows.
struct WindowIndices {
  std::vector<PassIndex> indices{};
  std::vector<Window> windows{};
  std::vector<int> roles{};  // n c h w f r s p q
};
WindowIndices window_indices(const Dim& n, const Dim& c, const std::array<Slide, 2>& slides, const Dim& f);
// Index list of a tensor by the roles of its dims; rows/cols taken at the read (input) or the made (output) end.
enum class WindowEnd : std::uint8_t { read, made };
std::vector<int> window_operand(const WindowIndices& w, const Shape& shape, const std::array<Slide, 2>& slides, WindowEnd end);

}  // namespace motley
