// SPDX-License-Identifier: Apache-2.0
// Numbers of a file, read where they are needed. Not memory-mapped: if a mapped file becomes shorter, the process ends.
#pragma once
#include <motley/dims.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/files.h"

namespace motley {

inline constexpr Index kMostChecked = Index{1} << 30;  // bytes of a file that are checked before the first step

// `count` elements of type T, from byte `start` of a file on, read in blocks, which often contain the next ones needed. For one
// thread.
template <class T>
class Elements {
 public:
  Elements(const InputFile& file, std::size_t start, Index count) : file_(file), start_(start), count_(count) {}
  // Element i and following elements that have been read too, at most `most`. UserError: 65 the file has become shorter, 74.
  std::span<const T> from(Index i, Index most) {
    check(i >= 0 && most > 0 && i + most <= count_, "elements of the file");
    if (i < begin_ || i >= end_) {
      const Index ahead = i == end_ ? kBlock : kBlock / 8;  // more if elements are read in sequence
      const Index size = std::min({std::max(most, ahead), kBlock, count_ - i});
      file_.read(start_ + static_cast<std::size_t>(i) * sizeof(T),
                 std::as_writable_bytes(std::span(block_).first(static_cast<std::size_t>(size))));
      begin_ = i;
      end_ = i + size;
    }
    return std::span<const T>(block_).subspan(static_cast<std::size_t>(i - begin_),
                                              static_cast<std::size_t>(std::min(most, end_ - i)));
  }
  // convert(element) for element `first` and those after it.
  template <class To, class F>
  void convert(Index first, std::span<To> out, F&& convert) {
    while (!out.empty()) {
      const std::span<const T> some = from(first, static_cast<Index>(out.size()));
      std::transform(some.begin(), some.end(), out.begin(), convert);
      out = out.subspan(some.size());
      first += static_cast<Index>(some.size());
    }
  }
  // use(i, element i) for `count` of them.
  template <class F>
  void each(Index first, Index count, F&& use) {
    for (Index i = first; i < first + count;)
      for (const T value : from(i, first + count - i)) use(i++, value);
  }

 private:
  static constexpr Index kBlock = 32768 / sizeof(T);  // 32 KiB: a system call costs a tenth of copying so much
  const InputFile& file_;
  const std::size_t start_;
  const Index count_;
  Index begin_ = 0, end_ = 0;  // the elements in the block
  std::array<T, static_cast<std::size_t>(kBlock)> block_;
};

}  // namespace motley
