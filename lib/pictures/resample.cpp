// SPDX-License-Identifier: Apache-2.0
// Why not stb_image_resize (libstb-dev): it repeats the pixels at the border where Pillow leaves them out, and differs from it by
// up to 14 of 255 there.
#include "pictures/resample.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>

namespace motley {

namespace {

constexpr int kBits = 22;  // after the point of a weight: 32 less 8 of a pixel, 2 for sums above 255 and below 0

// The pixels of a line that make one pixel of the scaled line: a triangle as wide as two scaled pixels, or two stored ones where
// the line becomes longer, cut off at the line's ends; its weights sum to 1.
struct Taps {
  Index first = 0, count = 0;
  std::size_t weights = 0;  // of the first one in the list
};
struct Filter {
  std::vector<Taps> taps{};
  std::vector<std::int32_t> weights{};
};

Filter filter_of(Index from, Index to, Range part) {
  Filter out;
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(scale, 1.0);
  std::vector<double> weights;
  for (Index p = part.begin; p < part.end; p++) {
    const double center = (static_cast<double>(p) + 0.5) * scale;
    const Index first = std::max<Index>(0, static_cast<Index>(center - reach + 0.5));
    const Index end = std::min(from, static_cast<Index>(center + reach + 0.5));
    weights.clear();
    double sum = 0;
    for (Index i = first; i < end; i++) {
      const double distance = std::abs((static_cast<double>(i) - center + 0.5) * (1.0 / reach));
      weights.push_back(distance < 1 ? 1 - distance : 0);
      sum += weights.back();
    }
    out.taps.push_back({first, end - first, out.weights.size()});
    for (const double w : weights) out.weights.push_back(static_cast<std::int32_t>(0.5 + w / sum * (1 << kBits)));
  }
  return out;
}

std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255));
}

// out[pixel, channel] of one line.
template <int kChannels>
void scale_line(const std::uint8_t* line, const Filter& filter, std::uint8_t* out) {
  for (const Taps& taps : filter.taps) {
    const std::int32_t* weight = filter.weights.data() + taps.weights;
    const std::uint8_t* from = line + taps.first * kChannels;
    std::int32_t sums[kChannels];
    std::fill_n(sums, kChannels, 1 << (kBits - 1));
    for (Index i = 0; i < taps.count; i++)
      for (int c = 0; c < kChannels; c++) sums[c] += weight[i] * from[i * kChannels + c];
    for (int c = 0; c < kChannels; c++) *out++ = to_byte(sums[c]);
  }
}

// One line of the scaled picture from several, each of `width` bytes.
void add_lines(const std::uint8_t* lines, std::size_t width, const std::int32_t* weights, Index count,
               std::vector<std::int32_t>& sums, std::uint8_t* out) {
  std::fill(sums.begin(), sums.end(), 1 << (kBits - 1));
  for (Index i = 0; i < count; i++) {
    const std::uint8_t* line = lines + static_cast<std::size_t>(i) * width;
    for (std::size_t k = 0; k < width; k++) sums[k] += weights[i] * line[k];
  }
  for (std::size_t k = 0; k < width; k++) out[k] = to_byte(sums[k]);
}

// Of a region that is not scaled.
std::vector<std::uint8_t> copied(const Picture& picture, const Region& region, const Region& part) {
  const Index width = part.cols.size() * picture.channels;
  std::vector<std::uint8_t> out(static_cast<std::size_t>(part.rows.size() * width));
  for (Index r = 0; r < part.rows.size(); r++) {
    const Index row = region.rows.begin + part.rows.begin + r, col = region.cols.begin + part.cols.begin;
    std::copy_n(picture.pixels.data() + (row * picture.size.cols + col) * picture.channels, width, out.data() + r * width);
  }
  return out;
}

}  // namespace

std::vector<std::uint8_t> resized(const Picture& picture, const Region& region, const PictureSize& size, const Region& part) {
  check(picture.channels == 1 || picture.channels == 3, "a picture has 1 or 3 channels");
  const Index channels = picture.channels;
  if (region.rows.size() == size.rows && region.cols.size() == size.cols) return copied(picture, region, part);
  const Filter across = filter_of(region.cols.size(), size.cols, part.cols),
               down = filter_of(region.rows.size(), size.rows, part.rows);
  const std::size_t width = static_cast<std::size_t>(part.cols.size() * channels);
  std::vector<std::uint8_t> out(static_cast<std::size_t>(part.rows.size()) * width);
  if (out.empty()) return out;
  // Across first, of those rows that `down` reads, rounded to bytes.
  const Index first = down.taps.front().first, end = down.taps.back().first + down.taps.back().count;
  std::vector<std::uint8_t> lines(static_cast<std::size_t>(end - first) * width);
  for (Index r = first; r < end; r++) {
    const std::uint8_t* line = picture.pixels.data() + ((region.rows.begin + r) * picture.size.cols + region.cols.begin) * channels;
    std::uint8_t* to = lines.data() + static_cast<std::size_t>(r - first) * width;
    channels == 1 ? scale_line<1>(line, across, to) : scale_line<3>(line, across, to);
  }
  std::vector<std::int32_t> sums(width);
  for (std::size_t p = 0; p < down.taps.size(); p++) {
    const Taps& taps = down.taps[p];
    add_lines(lines.data() + static_cast<std::size_t>(taps.first - first) * width, width, down.weights.data() + taps.weights,
              taps.count, sums, out.data() + p * width);
  }
  return out;
}

}  // namespace motley
