// SPDX-License-Identifier: Apache-2.0
#include "train/random_crop.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <cmath>

namespace motley {

namespace {

Index rounded(double x) {
  return static_cast<Index>(std::nearbyint(x));  // half to even
}

// 0 .. count - 1
Index place(double draw, Index count) {
  return static_cast<Index>(draw * static_cast<double>(count));
}

PictureRegion region(Index top, Index left, Index rows, Index cols) {
  return {{top, top + rows}, {left, left + cols}};
}

}  // namespace

PictureRegion random_region(const RandomCrop& how, const RandomStream& draws, Index sample, Index rows, Index cols) {
  constexpr int kTries = 10, kDraws = 64;  // draws: numbers of a sample, of which 4 per try are used
  const double area = static_cast<double>(rows) * static_cast<double>(cols);
  const double least = std::log(how.least_ratio), most = std::log(how.most_ratio);
  for (int t = 0; t < kTries; t++) {
    const auto draw = [&](int k) {
      return draws.uniform(static_cast<std::uint64_t>(sample) * kDraws + static_cast<std::uint64_t>(4 * t + k));
    };
    const double its = area * (how.least_area + draw(0) * (how.most_area - how.least_area));
    const double ratio = std::exp(least + draw(1) * (most - least));
    const Index w = rounded(std::sqrt(its * ratio)), h = rounded(std::sqrt(its / ratio));
    if (w > 0 && w <= cols && h > 0 && h <= rows) return region(place(draw(2), rows - h + 1), place(draw(3), cols - w + 1), h, w);
  }
  Index h = rows, w = cols;
  if (const double ratio = static_cast<double>(cols) / static_cast<double>(rows); ratio < how.least_ratio)
    h = std::max<Index>(1, rounded(static_cast<double>(w) / how.least_ratio));
  else if (ratio > how.most_ratio)
    w = std::max<Index>(1, rounded(static_cast<double>(h) * how.most_ratio));
  return region((rows - h) / 2, (cols - w) / 2, h, w);
}

void check_random_crop(const RandomCrop& how) {
  if (!(how.least_area > 0 && how.least_area <= how.most_area && how.most_area <= 1))
    throw UserError(
        fmt::format("random crops of {} to {} of a picture's area; expected shares above 0 and at most 1, the smaller one first",
                    how.least_area, how.most_area));
  if (!(how.least_ratio > 0 && how.least_ratio <= how.most_ratio && std::isfinite(how.most_ratio)))
    throw UserError(fmt::format("random crops of the ratios {} to {}; expected numbers above 0, the smaller one first",
                                how.least_ratio, how.most_ratio));
}

}  // namespace motley
