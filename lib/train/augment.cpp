// SPDX-License-Identifier: Apache-2.0
// Data sets that change the values of another data set.
#include <motley/data.h>
#include <motley/error.h>

#include <algorithm>
#include <cmath>

#include "base/at.h"
#include "base/interval.h"
#include "base/random.h"
#include "train/changed.h"
#include "train/random_crop.h"

namespace motley {

namespace {

class WithInputs final : public Changed {
 public:
  WithInputs(std::shared_ptr<const Dataset> of, std::map<std::string, std::shared_ptr<const Dataset>> inputs)
      : Changed(std::move(of)), further_(std::move(inputs)) {
    for (const auto& [name, its] : further_)
      if (its->samples() != samples())
        throw UserError(
            "\"" + name + "\" has " + std::to_string(its->samples()) + " samples, the images are " + std::to_string(samples()),
            Exit::data);
  }
  std::map<std::string, std::shared_ptr<const Dataset>> further() const override { return further_; }

 private:
  std::map<std::string, std::shared_ptr<const Dataset>> further_;
};

class Normalized final : public Changed {
 public:
  Normalized(std::shared_ptr<const Dataset> of, Normalize how) : Changed(std::move(of)), how_(std::move(how)) {
    if (dtype() == DType::i32) throw UserError("whole numbers are not normalized");
    const std::vector<Index> extents = sample_extents();
    const auto count = static_cast<Index>(how_.mean.size());
    if (count != static_cast<Index>(how_.deviation.size()) || (count != 1 && (extents.empty() || count != extents.front())))
      throw UserError("normalizing samples of " + std::to_string(extents.empty() ? 1 : extents.front()) +
                      " channels needs as many means and deviations, or one of each; found " + std::to_string(count) + " and " +
                      std::to_string(how_.deviation.size()));
    for (const double mean : how_.mean) require_within("mean", mean, {.least = -1e300, .most = 1e300});
    for (const double deviation : how_.deviation)
      require_within("deviation", deviation, {.least = 0, .most = 1e300, .above = true});
  }
  void read(Index sample, const Box& box, std::span<double> out) const override {
    data().read(sample, box, out);
    normalize(box, out);
  }
  void read_region(Index sample, const PickRegion& pick, const Box& box, std::span<double> out) const override {
    data().read_region(sample, pick, box, out);
    normalize(box, out);
  }

 private:
  void normalize(const Box& box, std::span<double> out) const {
    const Range channels = box.empty() ? Range{0, 1} : box.front();
    if (channels.size() == 0) return;
    const std::size_t each = out.size() / static_cast<std::size_t>(channels.size());
    for (Index c = channels.begin; c < channels.end; c++) {
      const Index which = how_.mean.size() == 1 ? 0 : c;
      const double mean = at(how_.mean, which), deviation = at(how_.deviation, which);
      for (double& v : out.subspan(static_cast<std::size_t>(c - channels.begin) * each, each)) v = (v - mean) / deviation;
    }
  }

  Normalize how_;
};

class Augmented final : public Changed {
 public:
  Augmented(std::shared_ptr<const Dataset> of, const Augment& how, std::uint64_t seed, Index epoch)
      : Changed(std::move(of)),
        how_(how),
        draws_(seed, "augmentation of epoch " + std::to_string(epoch)),
        crops_(seed, "random crops of epoch " + std::to_string(epoch)) {
    const std::vector<Index> extents = sample_extents(), labels = label_extents();
    if (extents.size() < 2) throw UserError("pictures are augmented: samples of at least two dims, rows and columns");
    moves_labels_ = labels.size() >= 2;
    if (!moves_labels_) return;
    if (how_.random_crop) throw UserError("random_crop has no labels for the pixels of its crops: it is for one label per picture");
    if (!std::equal(extents.end() - 2, extents.end(), labels.end() - 2))
      throw UserError("augmentation moves labels with the image: expected labels whose last two dims are its rows and columns");
    if (how_.crop_padding > 0 && !how_.ignored)
      throw UserError("crop_padding adds pixels without a label: give a label that the loss ignores (ignored), or use flip alone");
  }

  void read(Index sample, const Box& box, std::span<double> out) const override {
    if (how_.random_crop)
      return read_region(
          sample, [&](Index rows, Index cols) { return random_region(*how_.random_crop, crops_, sample, rows, cols); }, box, out);
    move(sample, sample_extents(), box, 0.0, out, [&](const Box& from, std::span<double> to) { data().read(sample, from, to); });
  }
  void read_region(Index sample, const PickRegion& pick, const Box& box, std::span<double> out) const override {
    move(sample, sample_extents(), box, 0.0, out,
         [&](const Box& from, std::span<double> to) { data().read_region(sample, pick, from, to); });
  }
  void read_labels(Index sample, const Box& box, std::span<std::int32_t> out) const override {
    if (!moves_labels_) return data().read_labels(sample, box, out);
    move(sample, label_extents(), box, static_cast<std::int32_t>(how_.ignored.value_or(0)), out,
         [&](const Box& from, std::span<std::int32_t> to) { data().read_labels(sample, from, to); });
  }
  void read_targets(Index sample, const Box& box, std::span<double> out) const override {
    if (!moves_labels_) return data().read_targets(sample, box, out);
    move(sample, label_extents(), box, static_cast<double>(how_.ignored.value_or(0)), out,
         [&](const Box& from, std::span<double> to) { data().read_targets(sample, from, to); });
  }

 private:
  // The part of the box in the picture shifted down and right, then mirrored: the part that is not padding is read and put in its
  // place.
  template <class T, class Read>
  void move(Index sample, const std::vector<Index>& extents, const Box& box, T padding, std::span<T> out,
            const Read& read_from) const {
    const PhiloxBlock draw = draws_.block(static_cast<std::uint64_t>(sample));
    const bool mirrored = how_.flip && (draw[0] & 1) != 0;
    const Index down = moved(draw[1]), right = moved(draw[2]);
    const std::size_t h = extents.size() - 2, w = extents.size() - 1;
    const Range rows = box[h];
    const Range cols = mirrored ? Range{extents[w] - box[w].end, extents[w] - box[w].begin} : box[w];
    Box from = box;
    from[h] = intersect({rows.begin - down, rows.end - down}, {0, extents[h]});
    from[w] = intersect({cols.begin - right, cols.end - right}, {0, extents[w]});
    check(volume(box) == static_cast<Index>(out.size()), "a sample's box fills what is given");
    std::fill(out.begin(), out.end(), padding);
    if (volume(from) == 0) return;
    std::vector<T> values(static_cast<std::size_t>(volume(from)));
    read_from(from, std::span<T>(values));
    const Index width = from[w].size(), height = from[h].size(), planes = volume(from) / (width * height);
    for (Index p = 0; p < planes; p++)
      for (Index r = 0; r < height; r++) {
        const auto source = values.begin() + (p * height + r) * width;
        const Index row = p * rows.size() + from[h].begin + r + down - rows.begin;  // row of the box
        const auto first = out.begin() + row * cols.size();
        if (mirrored)
          std::reverse_copy(source, source + width, first + (cols.end - (from[w].end + right)));
        else
          std::copy(source, source + width, first + (from[w].begin + right - cols.begin));
      }
  }
  // -crop_padding .. crop_padding, all equally likely
  Index moved(std::uint32_t draw) const {
    const auto places = static_cast<std::uint64_t>(2 * how_.crop_padding + 1);
    return static_cast<Index>(draw * places >> 32U) - how_.crop_padding;
  }

  Augment how_;
  RandomStream draws_, crops_;
  bool moves_labels_ = false;  // each pixel has a label
};

void require_there(const std::shared_ptr<const Dataset>& data) {
  if (data == nullptr) throw UserError("the data set is a null pointer");
}

}  // namespace

std::shared_ptr<const Dataset> normalized(std::shared_ptr<const Dataset> data, const Normalize& how) {
  if (how.mean.empty() && how.deviation.empty()) return data;
  require_there(data);
  return std::make_shared<Normalized>(std::move(data), how);
}

std::shared_ptr<const Dataset> with_inputs(std::shared_ptr<const Dataset> data,
                                           std::map<std::string, std::shared_ptr<const Dataset>> further) {
  if (further.empty()) return data;
  require_there(data);
  for (const auto& [name, its] : further) require_there(its);
  return std::make_shared<WithInputs>(std::move(data), std::move(further));
}

std::shared_ptr<const Dataset> augmented(std::shared_ptr<const Dataset> data, const Augment& how, std::uint64_t seed, Index epoch) {
  if (how.crop_padding < 0 || how.crop_padding > Augment::kMostCropPadding)
    throw UserError("a crop padding of " + std::to_string(how.crop_padding) + "; expected an integer from 0 to " +
                    std::to_string(Augment::kMostCropPadding));
  if (how.random_crop) check_random_crop(*how.random_crop);
  if (!how.any()) return data;
  require_there(data);
  return std::make_shared<Augmented>(std::move(data), how, seed, epoch);
}

}  // namespace motley
