// SPDX-License-Identifier: Apache-2.0
// Made-up samples: every value is determined by (seed, sample, element), so every run, rank and layout sees the same ones.
#include <motley/error.h>

#include "base/random.h"
#include "train/byte_images.h"

namespace motley {
namespace {

// value = 3/4 pattern of the label's class + 1/4 noise of the sample, both uniform in (0, 1).
class Synthetic : public Dataset {
 public:
  Synthetic(std::vector<Index> extents, Index classes, Index samples, std::uint64_t seed, const std::string& part)
      : extents_(std::move(extents)),
        elements_(product(extents_)),
        classes_(classes),
        samples_(samples),
        labels_(seed, "synthetic labels, " + part),
        noise_(seed, "synthetic noise, " + part),
        patterns_(seed, "synthetic patterns") {}
  Index samples() const override { return samples_; }
  Index classes() const override { return classes_; }
  std::vector<Index> sample_extents() const override { return extents_; }
  std::int32_t label(Index sample) const override {
    check(sample >= 0 && sample < samples_, "a label of a sample");
    return static_cast<std::int32_t>(labels_.uniform(static_cast<std::uint64_t>(sample)) * static_cast<double>(classes_));
  }
  void read(Index sample, const Box& box, std::span<double> out) const override {
    check(volume(box) == static_cast<Index>(out.size()), "a sample's box fills what is given");
    Numbers pattern(patterns_, label(sample) * elements_), noise(noise_, sample * elements_);
    std::size_t at = 0;
    for_each_row(extents_, box, [&](Index from, Index length) {
      for (Index i = from; i < from + length; i++) out[at++] = 0.75 * pattern.at(i) + 0.25 * noise.at(i);
    });
  }

 private:
  // Elements of one stream in any order; four neighbours cost one Philox block.
  class Numbers {
   public:
    Numbers(const RandomStream& stream, Index first) : stream_(stream), first_(static_cast<std::uint64_t>(first)) {}
    double at(Index element) {
      const std::uint64_t counter = first_ + static_cast<std::uint64_t>(element);
      if (counter / 4 != block_) words_ = stream_.block(block_ = counter / 4);
      return (words_[counter % 4] + 0.5) * 0x1p-32;
    }

   private:
    const RandomStream& stream_;
    std::uint64_t first_, block_ = ~std::uint64_t{0};
    PhiloxBlock words_{};
  };

  std::vector<Index> extents_;
  Index elements_, classes_, samples_;
  RandomStream labels_, noise_, patterns_;
};

}  // namespace

Datasets synthetic(std::vector<Index> sample_extents, Index classes, Index samples, std::uint64_t seed) {
  if (classes < 1) throw UserError("synthetic data has at least one class, not " + std::to_string(classes));
  if (samples < 1) throw UserError("synthetic data has at least one sample, not " + std::to_string(samples));
  return {std::make_shared<Synthetic>(sample_extents, classes, samples, seed, "train"),
          std::make_shared<Synthetic>(sample_extents, classes, (samples + 3) / 4, seed, "test")};
}

}  // namespace motley
