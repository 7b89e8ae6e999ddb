// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/windows.h"

#include <algorithm>

namespace motley {

namespace {

void at_least(Index value, Index least, const std::string& what) {
  if (value < least) throw UserError(what + " is " + std::to_string(value) + "; expected at least " + std::to_string(least));
}

Slide slide(const std::string& dim, Index in, Index window, Index stride, Index dilation, const Padding& padding, bool rows) {
  at_least(window, 1, "window");
  at_least(stride, 1, "stride");
  at_least(dilation, 1, "dilation");
  Slide s{dim, in, 0, window, stride, dilation, 0};
  const Index reach = (window - 1) * dilation + 1;
  Index after = 0;
  if (padding.kind == Padding::Kind::same) {
    s.out = (in + stride - 1) / stride;
    const Index total = std::max<Index>((s.out - 1) * stride + reach - in, 0);
    s.before = total / 2;
    return s;
  }
  if (padding.kind == Padding::Kind::sizes) {
    s.before = rows ? padding.top : padding.left;
    after = rows ? padding.bottom : padding.right;
    at_least(std::min(s.before, after), 0, "padding");
  }
  if (reach > in + s.before + after)
    throw UserError("a window that covers " + std::to_string(reach) + " does not fit \"" + dim + "\" of size " +
                    std::to_string(in) +
                    (s.before + after > 0 ? " with padding " + std::to_string(s.before) + " and " + std::to_string(after) : "") +
                    "; make it smaller or pad more");
  s.out = (in + s.before + after - reach) / stride + 1;
  return s;
}

// The transposed geometry: windows placed over `in` rows, side by side and overlapping, make the rows that they would be read from.
Slide transposed(const std::string& dim, Index in, Index window, Index stride, Index dilation, const Padding& padding, bool rows,
                 Index more) {
  at_least(window, 1, "window");
  at_least(stride, 1, "stride");
  at_least(dilation, 1, "dilation");
  if (more < 0 || more >= std::max(stride, dilation))
    throw UserError("`output_padding` is " + std::to_string(more) + "; expected at least 0, and less than the stride of " +
                    std::to_string(stride) + " or the dilation of " + std::to_string(dilation));
  if (padding.kind == Padding::Kind::same) {
    if (more > 0)
      throw UserError(
          "`output_padding` needs a padding in numbers: with \"same\" the result has stride times the rows and columns");
    return slide(dim, in * stride, window, stride, dilation, padding, rows);
  }
  const Index reach = (window - 1) * dilation + 1, all = (in - 1) * stride + reach;
  Slide s{dim, 0, in, window, stride, dilation, 0};
  Index after = 0;
  if (padding.kind == Padding::Kind::sizes) {
    s.before = rows ? padding.top : padding.left;
    after = rows ? padding.bottom : padding.right;
    at_least(std::min(s.before, after), 0, "padding");
  }
  s.in = all - s.before - after + more;
  if (s.in < 1)
    throw UserError("padding " + std::to_string(s.before) + " and " + std::to_string(after) + " removes all of the " +
                    std::to_string(all) + " that the windows produce from \"" + dim + "\" of size " + std::to_string(in) +
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
  return {shape[shape.position(over[0])], shape[shape.position(over[1])]};
}

}  // namespace

Slides slides_of(const Tensor& x, const SlideOptions& o) {
  const auto [rows, cols] = dims_under(x, o.over);
  return {slide(rows.name, rows.size, o.window.rows, o.stride.rows, o.dilation.rows, o.padding, true),
          slide(cols.name, cols.size, o.window.cols, o.stride.cols, o.dilation.cols, o.padding, false)};
}

Slides transposed_slides_of(const Tensor& x, const SlideOptions& o, const Extent2& more) {
  const auto [rows, cols] = dims_under(x, o.over);
  return {transposed(rows.name, rows.size, o.window.rows, o.stride.rows, o.dilation.rows, o.padding, true, more.rows),
          transposed(cols.name, cols.size, o.window.cols, o.stride.cols, o.dilation.cols, o.padding, false, more.cols)};
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
