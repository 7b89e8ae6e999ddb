// SPDX-License-Identifier: Apache-2.0
// Images of bytes, completely in memory: the content of IDX and CIFAR files.
#pragma once
#include <motley/data.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace motley {

class ByteImages : public Dataset {
 public:
  // pixels[sample channels rows cols], labels[sample] in 0..classes-1
  ByteImages(std::vector<Index> extents, std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels, Index classes)
      : extents_(std::move(extents)), pixels_(std::move(pixels)), labels_(std::move(labels)), classes_(classes) {}
  Index samples() const override { return static_cast<Index>(labels_.size()); }
  Index classes() const override { return classes_; }
  std::vector<Index> sample_extents() const override { return extents_; }
  void read(Index sample, const Box& box, std::span<double> out) const override;
  std::int32_t label(Index sample) const override { return labels_.at(static_cast<std::size_t>(sample)); }

 private:
  std::vector<Index> extents_;
  std::vector<std::uint8_t> pixels_, labels_;
  Index classes_;
};

Index product(const std::vector<Index>& extents);

// Calls row(first linear index, length) for each contiguous stretch of `box` in a row-major array, in row-major order.
template <class F>
void for_each_row(const std::vector<Index>& extents, const Box& box, F&& row) {
  if (volume(box) == 0) return;
  std::size_t outer = extents.size();  // number of dims that a stretch does not cover
  Index length = 1;
  for (bool whole = true; outer > 0 && whole; outer--) {
    length *= box[outer - 1].size();
    whole = box[outer - 1].size() == extents[outer - 1];
  }
  std::vector<Index> at;
  for (const Range& r : box) at.push_back(r.begin);
  for (;;) {
    Index linear = 0;
    for (std::size_t d = 0; d < extents.size(); d++) linear = linear * extents[d] + at[d];
    row(linear, length);
    std::size_t d = outer;
    while (d > 0 && ++at[d - 1] == box[d - 1].end) {
      at[d - 1] = box[d - 1].begin;
      d--;
    }
    if (d == 0) return;
  }
}

}  // namespace motley
