// SPDX-License-Identifier: Apache-2.0
// A convolution's x as a matrix: one row per tap of the window, one column per pixel of y, a block of pixels at a time. Taps and
// pixels are in x's order, so that neighbours in x are neighbours in the matrix:
//   plain          taps c r s, each row of the matrix contiguous
//   channels_last  taps r s c, each column of the matrix contiguous
#pragma once
#include <motley/kernel_spec.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/eigen/products.h"

namespace motley::eigen {

// Pixels of y: rows p..p+rows-1 of samples n..n+samples-1; if there is more than one sample, all rows of each.
struct Block {
  Index n = 0, samples = 0, p = 0, rows = 0;
};

class Columns {
 public:
  explicit Columns(const KernelSpec& spec) : spec_(spec) {
    const Roles& e = spec.roles;
    const std::vector<Index> strides = strides_of(spec.x_format, {e.n, e.c, e.h, e.w});
    std::copy(strides.begin(), strides.end(), strides_.begin());
  }
  bool is_last() const { return spec_.x_format == Format::channels_last && spec_.roles.c != 1; }  // with one channel x is plain too
  Index taps() const { return spec_.roles.c * spec_.roles.r * spec_.roles.s; }
  Index pixels(const Block& block) const { return block.samples * block.rows * spec_.roles.q; }
  template <class T>
  Matrix<T> matrix(T* data, Range taps, const Block& block) const {
    return is_last() ? Matrix<T>{data, taps.size(), pixels(block), 1, taps.size()}
                     : Matrix<T>{data, taps.size(), pixels(block), pixels(block), 1};
  }
  // 0 where the window is in padding
  template <class T>
  void read(const T* x, Range taps, const Block& block, T* columns) const {
    for_runs(
        taps, block,
        [&](Index at, Index from, Index count, Index step) {
          if (step == 1)
            copy(x + from, columns + at, count);
          else
            for (Index i = 0; i < count; i++) columns[at + i] = x[from + i * step];
        },
        [&](Index at, Index count) { std::fill_n(columns + at, count, T{0}); });
  }
  // The inverse of read(): stores each element where read() takes it from.
  template <class T>
  void add(const T* columns, Range taps, const Block& block, T* dx) const {
    for_runs(
        taps, block,
        [&](Index at, Index to, Index count, Index step) {
          for (Index i = 0; i < count; i++) dx[to + i * step] += columns[at + i];
        },
        [](Index, Index) {});
  }

 private:
  // Runs are often of a few elements: a library call would cost more.
  template <class T>
  static void copy(const T* from, T* to, Index count) {
    constexpr Index kLong = 64, kChunk = 4;
    if (count >= kLong) {
      std::copy_n(from, count, to);
      return;
    }
    Index i = 0;
    for (; i + kChunk <= count; i += kChunk) std::memcpy(to + i, from + i, kChunk * sizeof(T));
    for (; i < count; i++) to[i] = from[i];
  }
  // Among y's pixels in a row: the first whose element of x is at `least` or later, without padding and dilation.
  static Index first_at(Index least, Index step) { return least <= 0 ? 0 : (least + step - 1) / step; }

  // Calls run(position in the matrix, position in x, number, elements of x from one to the next) and gap(position in the matrix,
  // number), which together cover all of these taps and pixels.
  template <class Run, class Gap>
  void for_runs(Range taps, const Block& block, Run&& run, Gap&& gap) const {
    if (taps.size() == 0) return;
    if (is_last())
      runs_of_channels(taps, block, run, gap);
    else
      runs_of_pixels(taps, block, run, gap);
  }

  template <class Run, class Gap>
  void runs_of_pixels(Range taps, const Block& block, Run&& run, Gap&& gap) const {
    const Roles& e = spec_.roles;
    Index at = 0;
    for (Index tap = taps.begin; tap < taps.end; tap++) {
      const Index s = tap % e.s, r = tap / e.s % e.r, c = tap / (e.s * e.r);
      const Index w = s * spec_.dilation[1] - spec_.padding[2], h = r * spec_.dilation[0] - spec_.padding[0];  // for pixel 0
      const Index first = std::min(e.q, first_at(-w, spec_.stride[1]));
      const Index last = std::clamp(first_at(e.w - w, spec_.stride[1]), first, e.q);
      for (Index n = block.n; n < block.n + block.samples; n++)
        for (Index p = block.p; p < block.p + block.rows; p++, at += e.q) {
          const Index row = p * spec_.stride[0] + h;
          if (row < 0 || row >= e.h) {
            gap(at, e.q);
            continue;
          }
          const Index from = n * strides_[0] + c * strides_[1] + row * strides_[2] + (first * spec_.stride[1] + w) * strides_[3];
          gap(at, first);
          run(at + first, from, last - first, spec_.stride[1] * strides_[3]);
          gap(at + last, e.q - last);
        }
    }
  }

  template <class Run, class Gap>
  void runs_of_channels(Range taps, const Block& block, Run&& run, Gap&& gap) const {
    const Roles& e = spec_.roles;
    const Index in_row = e.s * e.c;                                                        // taps of one window row
    const Index together = spec_.dilation[1] == 1 && strides_[3] == e.c ? e.s : Index{1};  // window columns contiguous in x
    Index at = 0;
    for (Index n = block.n; n < block.n + block.samples; n++)
      for (Index p = block.p; p < block.p + block.rows; p++)
        for (Index q = 0; q < e.q; q++)
          for (Index r = taps.begin / in_row; r * in_row < taps.end; r++) {
            const Range row{std::max(taps.begin - r * in_row, Index{0}), std::min(taps.end - r * in_row, in_row)};
            const Index h = p * spec_.stride[0] - spec_.padding[0] + r * spec_.dilation[0];
            if (h < 0 || h >= e.h) {
              gap(at, row.size());
              at += row.size();
              continue;
            }
            for (Index s = row.begin / e.c / together * together; s * e.c < row.end; s += together) {
              const Range part{std::max(row.begin, s * e.c), std::min(row.end, (s + together) * e.c)};
              const Index w = q * spec_.stride[1] - spec_.padding[2] + s * spec_.dilation[1];
              const Index begin = std::clamp((s + std::max(-w, Index{0})) * e.c, part.begin, part.end);
              const Index end = std::clamp((s + std::min(e.w - w, together)) * e.c, begin, part.end);
              gap(at, begin - part.begin);
              run(at + begin - part.begin, n * strides_[0] + h * strides_[2] + w * strides_[3] + begin - s * e.c, end - begin, 1);
              gap(at + end - part.begin, part.end - end);
              at += part.size();
            }
          }
  }

  const KernelSpec spec_;
  std::array<Index, 4> strides_{};  // of x[n c h w]
};

}  // namespace motley::eigen
