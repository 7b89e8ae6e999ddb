// SPDX-License-Identifier: Apache-2.0
// Images of bytes, completely in memory: the content of IDX and CIFAR files.
#pragma once
#include <motley/data.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "base/box_rows.h"
#include "base/copy_box.h"

namespace motley {

class ByteImages : public Dataset {
 public:
  // pixels[sample channels rows cols], labels[sample] below the number of classes
  ByteImages(std::vector<Index> extents, std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels,
             std::vector<std::string> classes)
      : extents_(std::move(extents)), pixels_(std::move(pixels)), labels_(std::move(labels)), classes_(std::move(classes)) {}
  Index samples() const override { return static_cast<Index>(labels_.size()); }
  Index classes() const override { return static_cast<Index>(classes_.size()); }
  std::vector<std::string> class_names() const override { return classes_; }
  std::vector<Index> sample_extents() const override { return extents_; }
  void read(Index sample, const Box& box, std::span<double> out) const override;
  std::int32_t label(Index sample) const override { return labels_.at(static_cast<std::size_t>(sample)); }

 private:
  std::vector<Index> extents_;
  std::vector<std::uint8_t> pixels_, labels_;
  std::vector<std::string> classes_;
};

Index product(const std::vector<Index>& extents);

// Calls visit(first linear index, length) for each contiguous stretch of `box` in a row-major array, in row-major order.
template <class F>
void for_each_stretch(const std::vector<Index>& extents, const Box& box, F&& visit) {
  const std::vector<Index> strides = row_major(extents);
  Index first = 0;
  for (std::size_t d = 0; d < box.size(); d++) first += box[d].begin * strides[d];
  for_each_row(extents_of(box), strides, row_major(box), [&](const BoxRow& row) {
    if (row.a_step == 1) return visit(first + row.a, row.length);
    for (Index i = 0; i < row.length; i++) visit(first + row.a + i * row.a_step, Index{1});
  });
}

}  // namespace motley
