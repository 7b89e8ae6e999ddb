// SPDX-License-Identifier: Apache-2.0
/// @file
/// Data sets made of other ones: normalized, augmented, with further inputs, split.
#pragma once
#include <motley/dataset.h>

namespace motley {
/// @addtogroup data
/// @{

/// Per channel (a sample's first dim): (value - mean) / deviation. A single mean and deviation serve all channels.
struct Normalize {
  std::vector<double> mean{};       ///< empty: values stay as they are
  std::vector<double> deviation{};  ///< above 0; as many as means
};
/// `data` with normalized values. UserError: the number of means and deviations is not the number of channels.
std::shared_ptr<const Dataset> normalized(std::shared_ptr<const Dataset> data, const Normalize& how);

/// `data` whose samples also fill these further inputs of a network, by input name. UserError: another number of samples.
std::shared_ptr<const Dataset> with_inputs(std::shared_ptr<const Dataset> data,
                                           std::map<std::string, std::shared_ptr<const Dataset>> further);

/// A random part of each picture takes the place of the whole: torchvision's RandomResizedCrop.
struct RandomCrop {
  double least_area = 0.08;       ///< as a share of the picture's; above 0
  double most_area = 1;           ///< likewise; at most 1
  double least_ratio = 0.75;      ///< of its columns to its rows; above 0
  double most_ratio = 4.0 / 3.0;  ///< likewise
};

/// Changes of a picture that do not change its label. A sample's last two dims are rows and columns. Labels with two or more dims
/// whose last two are equal to them move with their pixels. Further inputs stay as they are.
struct Augment {
  static constexpr Index kMostCropPadding = Index{1} << 20;  ///< largest crop_padding
  bool flip = false;                                         ///< columns are mirrored with probability 1/2
  Index crop_padding = 0;                                    ///< shifted by up to so many rows and columns; zeros fill the gap
  std::optional<Index> ignored{};           ///< label of the pixels that fill the gap, where each pixel has a label
  std::optional<RandomCrop> random_crop{};  ///< comes first; of pictures that are files (load_folder)
  bool any() const { return flip || crop_padding > 0 || random_crop; }  ///< whether any change is enabled
};
/// Takes a share of the training samples for `validation`: of each class (of all samples, where they have no classes) that share,
/// rounded, with the least hashes of (seed, sample): the same on every rank and in every run. Each class that has samples keeps
/// one. share: above 0 and below 1.
Datasets with_validation(Datasets data, double share, std::uint64_t seed);

/// `data` as one epoch of training sees it: what happens to a sample is determined by (seed, epoch, sample) alone, so it is the
/// same for every layout, box and number of ranks. UserError: samples of fewer than two dims; labels of two or more dims that are
/// not one per pixel; crop_padding with such labels but no `ignored`, or crop_padding outside its bounds.
std::shared_ptr<const Dataset> augmented(std::shared_ptr<const Dataset> data, const Augment& how, std::uint64_t seed, Index epoch);

/// @}
}  // namespace motley
