// SPDX-License-Identifier: Apache-2.0
// Synthetic samples: every value is determined by (seed, sample, element), so every run, rank and layout sees the same values.
#include <motley/error.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "train/byte_images.h"

namespace motley {
namespace {

constexpr Index kPatterns = 10;

// value = 3/4 pattern of the label's class + 1/4 noise of the sample, both uniform in (0, 1). Whole numbers: in 3 of 4 elements
// that of the class's pattern. Labels of elements: the sample's label, shifted by a number that depends only on the element. Real
// labels: numbers in (0, 1) that depend on the class and the element, with kPatterns classes.
class Synthetic : public Dataset {
 public:
  Synthetic(const SampleKind& kind, Index samples, std::uint64_t seed, const std::string& part)
      : extents_(kind.extents),
        label_extents_(kind.label_extents),
        dtype_(kind.dtype),
        label_dtype_(kind.label_dtype),
        elements_(product(extents_)),
        classes_(label_dtype_ == DType::i32 ? kind.classes : kPatterns),
        numbers_(kind.numbers),
        samples_(samples),
        labels_(seed, "synthetic labels, " + part),
        noise_(seed, "synthetic noise, " + part),
        moves_(seed, "synthetic labels of elements"),
        patterns_(seed, kind.input.empty() ? "synthetic patterns" : "synthetic patterns, " + kind.input),
        targets_(seed, "synthetic real labels") {}
  Index samples() const override { return samples_; }
  Index classes() const override { return label_dtype_ == DType::i32 ? classes_ : 0; }
  std::vector<Index> sample_extents() const override { return extents_; }
  DType dtype() const override { return dtype_; }
  std::vector<Index> label_extents() const override { return label_extents_; }
  void read_labels(Index sample, const Box& box, std::span<std::int32_t> out) const override {
    if (label_extents_.empty()) return Dataset::read_labels(sample, box, out);
    const std::int32_t first = label(sample);
    std::size_t at = 0;
    for_each_stretch(label_extents_, box, [&](Index from, Index length) {
      for (Index i = from; i < from + length; i++)
        out[at++] = static_cast<std::int32_t>((first + moves_.bits(static_cast<std::uint64_t>(i))) % classes_);
    });
  }
  DType label_dtype() const override { return label_dtype_; }
  void read_targets(Index sample, const Box& box, std::span<double> out) const override {
    if (label_dtype_ == DType::i32) return Dataset::read_targets(sample, box, out);
    Numbers targets(targets_, label(sample) * product(label_extents_));
    std::size_t at = 0;
    for_each_stretch(label_extents_, box, [&](Index from, Index length) {
      for (Index i = from; i < from + length; i++) out[at++] = targets.at(i);
    });
  }
  std::int32_t label(Index sample) const override {
    check(sample >= 0 && sample < samples_, "a label of a sample");
    return static_cast<std::int32_t>(labels_.uniform(static_cast<std::uint64_t>(sample)) * static_cast<double>(classes_));
  }
  void read(Index sample, const Box& box, std::span<double> out) const override {
    check(volume(box) == static_cast<Index>(out.size()), "a sample's box fills what is given");
    Numbers pattern(patterns_, label(sample) * elements_), noise(noise_, sample * elements_);
    std::size_t at = 0;
    for_each_stretch(extents_, box, [&](Index from, Index length) {
      for (Index i = from; i < from + length; i++) {
        const double p = pattern.at(i), n = noise.at(i);
        out[at++] = dtype_ == DType::f32 ? 0.75 * p + 0.25 * n
                                         : std::floor(static_cast<double>(numbers_) * (n < 0.75 ? p : 4 * (n - 0.75)));
      }
    });
  }

 private:
  // Random numbers of one stream, in any order; four neighbours share one Philox block.
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
  std::vector<Index> label_extents_;
  DType dtype_, label_dtype_;
  Index elements_, classes_, numbers_, samples_;
  RandomStream labels_, noise_, moves_, patterns_, targets_;
};

}  // namespace

Datasets synthetic(std::vector<Index> sample_extents, Index classes, Index samples, std::uint64_t seed) {
  return synthetic({.extents = std::move(sample_extents), .classes = classes}, samples, seed);
}

Datasets synthetic(const SampleKind& kind, Index samples, std::uint64_t seed) {
  const Index classes = kind.classes;
  if (classes < 1 && kind.label_dtype == DType::i32)
    throw UserError("synthetic data has at least one class, not " + std::to_string(classes));
  if (samples < 1) throw UserError("synthetic data has at least one sample, not " + std::to_string(samples));
  const auto has_elements = [](const SampleKind& its) {
    return std::all_of(its.extents.begin(), its.extents.end(), [](Index size) { return size > 0; }) &&
           std::all_of(its.label_extents.begin(), its.label_extents.end(), [](Index size) { return size > 0; });
  };
  if (!has_elements(kind) || !std::all_of(kind.further.begin(), kind.further.end(), has_elements))
    throw UserError("the sizes of a synthetic sample and of its labels are at least 1");
  const auto has_numbers = [](const SampleKind& its) { return its.dtype != DType::i32 || its.numbers > 0; };
  if (!has_numbers(kind) || !std::all_of(kind.further.begin(), kind.further.end(), has_numbers))
    throw UserError("synthetic whole numbers are below a number of at least 1");
  const auto make = [&](Index count, const std::string& part) {
    std::map<std::string, std::shared_ptr<const Dataset>> further;
    for (SampleKind its : kind.further) {
      its.classes = 1;
      further[its.input] = std::make_shared<Synthetic>(its, count, seed, part + ", " + its.input);
    }
    return with_inputs(std::make_shared<Synthetic>(kind, count, seed, part), std::move(further));
  };
  return {make(samples, "train"), make((samples + 3) / 4, "test")};
}

}  // namespace motley
