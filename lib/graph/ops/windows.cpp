// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/windows.h"

#include <algorithm>

#include "base/interval.h"

namespace motley {

namespace {

struct SlideSizes {
  Index window, stride, dilation, before, after;  // before, after: of the padding
};
// The options along one dim. UserError: a number that is not in its range.
SlideSizes sizes_of(const SlideOptions& o, bool rows) {
  const auto of = [&](const Extent2& e) { return rows ? e.rows : e.cols; };
  const Padding& p = o.padding;
  const bool padded = p.kind == Padding::Kind::sizes;
  const SlideSizes out{of(o.window), of(o.stride), of(o.dilation), padded ? (rows ? p.top : p.left) : 0,
                       padded ? (rows ? p.bottom : p.right) : 0};
  require_within("window", out.window, {.least = 1, .most = kMostWindow});
  require_within("stride", out.stride, {.least = 1, .most = kMostWindow});
  require_within("dilation", out.dilation, {.least = 1, .most = kMostWindow});
  for (const Index side : {out.before, out.after}) require_within("padding", side, {.least = 0, .most = kMostWindow});
  return out;
}

Slide slide(const Dim& dim, const SlideSizes& sizes, Padding::Kind padding) {
  const Index in = dim.size, reach = (sizes.window - 1) * sizes.dilation + 1;
  Slide s{dim.name, in, 0, sizes.window, sizes.stride, sizes.dilation, sizes.before};
  if (padding == Padding::Kind::same) {
    s.out = (in + s.stride - 1) / s.stride;
    s.before = std::max<Index>((s.out - 1) * s.stride + reach - in, 0) / 2;
    return s;
  }
  const Index padded = in + sizes.before + sizes.after;
  if (reach > padded)
    throw UserError("a window that covers " + std::to_string(reach) + " does not fit \"" + dim.name + "\" of size " +
                    std::to_string(in) +
                    (padded > in ? " with padding " + std::to_string(sizes.before) + " and " + std::to_string(sizes.after) : "") +
                    "; make it smaller or pad more");
  s.out = (padded - reach) / s.stride + 1;
  return s;
}

// The transposed geometry: windows placed over `dim`'s rows, side by side and overlapping, make the rows that they would be read
// from.
Slide transposed(const Dim& dim, const SlideSizes& sizes, Padding::Kind padding, Index more) {
  const Index in = dim.size, reach = (sizes.window - 1) * sizes.dilation + 1;
  if (more < 0 || more >= std::max(sizes.stride, sizes.dilation))
    throw UserError("`output_padding` is " + std::to_string(more) + "; expected at least 0, and less than the stride of " +
                    std::to_string(sizes.stride) + " or the dilation of " + std::to_string(sizes.dilation));
  if (padding == Padding::Kind::same) {
    if (more > 0)
      throw UserError(
          "`output_padding` needs a padding in numbers: with \"same\" the result has stride times the rows and columns");
    return slide({dim.name, in * sizes.stride}, sizes, padding);
  }
  const Index all = (in - 1) * sizes.stride + reach;
  Slide s{dim.name, all - sizes.before - sizes.after + more, in, sizes.window, sizes.stride, sizes.dilation, sizes.before};
  if (s.in < 1)
    throw UserError("padding " + std::to_string(sizes.before) + " and " + std::to_string(sizes.after) + " removes all of the " +
                    std::to_string(all) + " that the windows produce from \"" + dim.name + "\" of size " + std::to_string(in) +
                    "; use less padding");
  return s;
}

std::array<Dim, 2> dims_under(const Tensor& x, const std::array<Dim, 2>& named) {
  const Shape& shape = x.shape();
  std::array<std::string, 2> over{named[0].name, named[1].name};
  if (over[0].empty() && over[1].empty()) {
    if (shape.rank() < 3)
      throw UserError("\"" + x.name() + "\" has " + std::to_string(shape.rank()) +
                      " dims; a window op needs one or two dims before the two it slides over");
    over = {shape[shape.rank() - 2].name, shape[shape.rank() - 1].name};
  }
  if (over[0] == over[1]) throw UserError("`over` names \"" + over[0] + "\" twice; expected two dims");
  if (shape.rank() < 3 || shape.rank() > 4)
    throw UserError("\"" + x.name() + "\" has " + std::to_string(shape.rank()) +
                    " dims; pools take tensors of 3 or 4 dims, convolutions of 4");
  for (const std::string& name : over)
    require_within("the size of \"" + name + "\", which windows slide over,", shape.size_of(name), {.least = 1, .most = kMostSlid});
  return {shape[shape.position(over[0])], shape[shape.position(over[1])]};
}

}  // namespace

Slides slides_of(const Tensor& x, const SlideOptions& o) {
  const auto [rows, cols] = dims_under(x, o.over);
  return {slide(rows, sizes_of(o, true), o.padding.kind), slide(cols, sizes_of(o, false), o.padding.kind)};
}

Slides transposed_slides_of(const Tensor& x, const SlideOptions& o, const Extent2& more) {
  const auto [rows, cols] = dims_under(x, o.over);
  return {transposed(rows, sizes_of(o, true), o.padding.kind, more.rows),
          transposed(cols, sizes_of(o, false), o.padding.kind, more.cols)};
}

std::vector<std::string> other_dims(const Tensor& x, const Slides& slides) {
  std::vector<std::string> out;
  for (const Dim& d : x.shape().dims())
    if (d.name != slides[0].dim && d.name != slides[1].dim) out.push_back(d.name);
  return out;
}

WindowIndices window_indices(const Dim& n, const Dim& c, const Slides& slides, const Dim& f) {
  WindowIndices out;
  auto index = [&](const std::string& name, Index size) {
    if (name.empty()) return -1;
    out.indices.push_back({name, size});
    return static_cast<int>(out.indices.size()) - 1;
  };
  const Slide& rows = slides[0];
  const Slide& cols = slides[1];
  const int ni = index(n.name, n.size), ci = index(c.name, c.size);
  const int h = index("in:" + rows.name(WindowEnd::read), rows.in), w = index("in:" + cols.name(WindowEnd::read), cols.in);
  const int fi = index(f.name, f.size);
  const int r = index("window-" + rows.dim, rows.window), s = index("window-" + cols.dim, cols.window);
  const int p = index(rows.dim, rows.out), q = index(cols.dim, cols.out);
  out.roles = {ni, ci, h, w, fi, r, s, p, q};
  out.windows = {{h, p, r, rows.stride, rows.before, rows.dilation}, {w, q, s, cols.stride, cols.before, cols.dilation}};
  return out;
}

std::vector<int> window_operand(const WindowIndices& w, const Shape& shape, const Slides& slides, WindowEnd end) {
  std::vector<int> out;
  for (const Dim& d : shape.dims()) {
    const bool slid = d.name == slides[0].name(end) || d.name == slides[1].name(end);
    const std::string name = slid && end == WindowEnd::read ? "in:" + d.name : d.name;
    auto at = std::find_if(w.indices.begin(), w.indices.end(), [&](const PassIndex& i) { return i.name == name; });
    check(at != w.indices.end(), "a window op's tensor has only its dims");
    out.push_back(static_cast<int>(at - w.indices.begin()));
  }
  return out;
}

std::array<Dim, 2> slid_over(const std::string& op, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  if (names.size() != 2) throw UserError(op + " slides over two dims, rows first; `over` names " + std::to_string(names.size()));
  return {Dim{names[0], 0}, Dim{names[1], 0}};
}

}  // namespace motley
