// SPDX-License-Identifier: Apache-2.0
// One element of the result of a convolution, a pool or a move between formats, given its position in memory: the body of a kernel
// on the device and of a plain loop on the host. Sums are f64, rounded once.
#pragma once
#include "kernels/evaluate.h"

namespace motley::cuda {

struct At {
  Index a, b, c, d;
};

// A dense slice [a b c d] in any format. Made on the host (own_kernels.h: slice_of).
struct Slice {
  Index extents[4] = {0, 0, 0, 0}, strides[4] = {0, 0, 0, 0};
  Index elements = 0;
  bool channels_last = false;

  MOTLEY_HD Index offset(Index a, Index b, Index c, Index d) const {
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
  }
  MOTLEY_HD At locate(Index i) const {  // the indices of the element at position i in memory
    At at{};
    if (channels_last) {
      at.b = i % extents[1];
      i /= extents[1];
    }
    at.d = i % extents[3];
    i /= extents[3];
    at.c = i % extents[2];
    i /= extents[2];
    if (!channels_last) {
      at.b = i % extents[1];
      i /= extents[1];
    }
    at.a = i;
    return at;
  }
};

// x[n gc h w], w[gf c r s], y[n gf p q] (pools: y[n c p q]); y[p] reads x[p * stride - padding + r * dilation].
struct Window {
  Slice x{}, w{}, y{};
  Slice whole{};              // pools: x with its halo (KernelSpec::halo)
  Index above = 0, left = 0;  // position of x in `whole`
  Index r = 0, s = 0;
  Index c = 0, f = 0;  // of one group of a convolution
  Index stride[2] = {1, 1}, dilation[2] = {1, 1}, padding[2] = {0, 0};
  PlainFormula epilogue{};
  bool accumulate = false;

  MOTLEY_HD Index row(Index p, Index r_) const { return p * stride[0] - padding[0] + r_ * dilation[0]; }
  MOTLEY_HD Index col(Index q, Index s_) const { return q * stride[1] - padding[1] + s_ * dilation[1]; }
  MOTLEY_HD bool real(Index h, Index v) const { return h >= 0 && h < x.extents[2] && v >= 0 && v < x.extents[3]; }
  // The same, or inside the halo.
  MOTLEY_HD bool known(Index h, Index v) const {
    return h >= -above && h < whole.extents[2] - above && v >= -left && v < whole.extents[3] - left;
  }
  // The output whose window element (r, s) reads x's (h, v); false: there is none.
  MOTLEY_HD bool output(Index h, Index v, Index r_, Index s_, Index& p, Index& q) const {
    const Index from_top = h + padding[0] - r_ * dilation[0], from_left = v + padding[1] - s_ * dilation[1];
    if (from_top < 0 || from_left < 0 || from_top % stride[0] != 0 || from_left % stride[1] != 0) return false;
    p = from_top / stride[0];
    q = from_left / stride[1];
    return p < y.extents[2] && q < y.extents[3];
  }
};

template <class T>
struct ConvolutionForward {
  Window g;
  const T *x, *w, *b;  // b: null without a bias
  T* y;
  MOTLEY_HD void operator()(Index i) const {
    const At at = g.y.locate(i);
    double sum = g.accumulate ? static_cast<double>(y[i]) : 0;
    for (Index r = 0; r < g.r; r++)
      for (Index s = 0; s < g.s; s++) {
        const Index h = g.row(at.c, r), v = g.col(at.d, s);
        if (!g.real(h, v)) continue;
        for (Index c = 0; c < g.c; c++)
          sum += static_cast<double>(x[g.x.offset(at.a, at.b / g.f * g.c + c, h, v)]) *
                 static_cast<double>(w[g.w.offset(at.b, c, r, s)]);
      }
    y[i] = static_cast<T>(apply(g.epilogue, b != nullptr ? sum + static_cast<double>(b[at.b]) : sum));
  }
};

template <class T>
struct ConvolutionBackwardData {
  Window g;
  const T *dy, *w;
  T* dx;
  MOTLEY_HD void operator()(Index i) const {
    const At at = g.x.locate(i);
    double sum = 0;
    for (Index r = 0; r < g.r; r++)
      for (Index s = 0; s < g.s; s++) {
        Index p = 0, q = 0;
        if (!g.output(at.c, at.d, r, s, p, q)) continue;
        for (Index f = at.b / g.c * g.f; f < (at.b / g.c + 1) * g.f; f++)
          sum += static_cast<double>(dy[g.y.offset(at.a, f, p, q)]) * static_cast<double>(w[g.w.offset(f, at.b % g.c, r, s)]);
      }
    dx[i] = static_cast<T>(sum);
  }
};

template <class T>
struct ConvolutionBackwardFilter {
  Window g;
  const T *x, *dy;
  T* dw;
  MOTLEY_HD void operator()(Index i) const {
    const At at = g.w.locate(i);  // f c r s
    double sum = 0;
    for (Index n = 0; n < g.x.extents[0]; n++)
      for (Index p = 0; p < g.y.extents[2]; p++)
        for (Index q = 0; q < g.y.extents[3]; q++) {
          const Index h = g.row(p, at.c), v = g.col(q, at.d);
          if (g.real(h, v))
            sum += static_cast<double>(x[g.x.offset(n, at.a / g.f * g.c + at.b, h, v)]) *
                   static_cast<double>(dy[g.y.offset(n, at.a, p, q)]);
        }
    dw[i] = static_cast<T>(sum);
  }
};

// y = epilogue(sum + b), or with accumulate epilogue(y + sum + b): the part that the vendor's convolution or product leaves to do.
// The sum is stored where y is, or elsewhere in another format.
struct EpilogueOptions {
  Slice from{}, to{};  // sum, y
  PlainFormula epilogue{};
  bool accumulate = false;
};
template <class T>
struct Epilogue {
  EpilogueOptions o;
  const T *b, *sum;  // b: null without a bias
  T* y;
  MOTLEY_HD void operator()(Index i) const {
    const At at = o.to.locate(i);
    double v = static_cast<double>(sum[o.from.offset(at.a, at.b, at.c, at.d)]);
    if (o.accumulate) v += static_cast<double>(y[i]);
    y[i] = static_cast<T>(apply(o.epilogue, b != nullptr ? v + static_cast<double>(b[at.b]) : v));
  }
};

// to[a b c d] = from[a b c + below d + right] if that is inside, else 0: another format, a crop, or the inverse of a crop.
struct MoveOptions {
  Slice from{}, to{};
  Index below = 0, right = 0;
};
template <class T>
struct Move {
  MoveOptions o;
  const T* from;
  T* to;
  MOTLEY_HD void operator()(Index i) const {
    const At at = o.to.locate(i);
    const Index c = at.c + o.below, d = at.d + o.right;
    const bool inside = c >= 0 && c < o.from.extents[2] && d >= 0 && d < o.from.extents[3];
    to[i] = inside ? from[o.from.offset(at.a, at.b, c, d)] : T{0};
  }
};

template <class T>
struct MaxForward {
  Window g;
  const T* x;
  T* y;
  MOTLEY_HD void operator()(Index i) const {
    const At at = g.y.locate(i);
    bool any = false, beyond = false;  // any: an element of the slice was seen; beyond: one of the halo
    T best{0};
    for (Index r = 0; r < g.r; r++)
      for (Index s = 0; s < g.s; s++) {
        const Index h = g.row(at.c, r), v = g.col(at.d, s);
        beyond = beyond || g.known(h, v);
        if (!g.real(h, v)) continue;
        const T here = x[g.x.offset(at.a, at.b, h, v)];
        if (!any || here > best || here != here) best = here;
        any = true;
      }
    y[i] = any ? best : beyond ? static_cast<T>(-HUGE_VAL) : T{0};
  }
};

template <class T>
struct MaxBackward {
  Window g;
  const T *dy, *x;  // x with its halo
  T* dx;
  MOTLEY_HD bool wins(const At& at, Index p, Index q) const {
    Index best = -1, row = 0, col = 0;
    for (Index r = 0; r < g.r; r++)
      for (Index s = 0; s < g.s; s++) {
        const Index h = g.row(p, r), v = g.col(q, s);
        if (!g.known(h, v)) continue;
        const Index here = g.whole.offset(at.a, at.b, h + g.above, v + g.left);
        if (best >= 0 && !(x[here] > x[best]) && x[here] == x[here]) continue;
        best = here;
        row = h;
        col = v;
      }
    return best >= 0 && row == at.c && col == at.d;
  }
  MOTLEY_HD void operator()(Index i) const {
    const At at = g.x.locate(i);
    double sum = 0;
    for (Index r = 0; r < g.r; r++)
      for (Index s = 0; s < g.s; s++) {
        Index p = 0, q = 0;
        if (g.output(at.c, at.d, r, s, p, q) && wins(at, p, q)) sum += static_cast<double>(dy[g.y.offset(at.a, at.b, p, q)]);
      }
    dx[i] = static_cast<T>(sum);
  }
};

// Number of real elements of a window, including those in the halo.
MOTLEY_HD inline Index real_elements(const Window& g, Index p, Index q) {
  Index rows = 0, cols = 0;
  for (Index r = 0; r < g.r; r++) rows += g.known(g.row(p, r), 0) ? 1 : 0;
  for (Index s = 0; s < g.s; s++) cols += g.known(0, g.col(q, s)) ? 1 : 0;
  return rows * cols;
}

template <class T>
struct MeanForward {
  Window g;
  const T* x;
  T* y;
  MOTLEY_HD void operator()(Index i) const {
    const At at = g.y.locate(i);
    const Index count = real_elements(g, at.c, at.d);
    double sum = 0;
    for (Index r = 0; r < g.r && count > 0; r++)
      for (Index s = 0; s < g.s; s++) {
        const Index h = g.row(at.c, r), v = g.col(at.d, s);
        if (g.real(h, v)) sum += static_cast<double>(x[g.x.offset(at.a, at.b, h, v)]);
      }
    y[i] = static_cast<T>(count == 0 ? 0 : sum / static_cast<double>(count));
  }
};

template <class T>
struct MeanBackward {
  Window g;
  const T* dy;
  T* dx;
  MOTLEY_HD void operator()(Index i) const {
    const At at = g.x.locate(i);
    double sum = 0;
    for (Index r = 0; r < g.r; r++)
      for (Index s = 0; s < g.s; s++) {
        Index p = 0, q = 0;
        if (g.output(at.c, at.d, r, s, p, q))
          sum += static_cast<double>(dy[g.y.offset(at.a, at.b, p, q)]) / static_cast<double>(real_elements(g, p, q));
      }
    dx[i] = static_cast<T>(sum);
  }
};

}  // namespace motley::cuda
