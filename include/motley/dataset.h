// SPDX-License-Identifier: Apache-2.0
/// @file
/// Labelled samples: what training and evaluation read.
#pragma once
#include <motley/dims.h>
#include <motley/dtype.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup data
/// @{

/// Rows and columns of a picture, each a range of pixels.
struct PictureRegion {
  Range rows{};  ///< from the top
  Range cols{};  ///< from the left
};
/// Picks a part of a picture from its numbers of rows and columns.
using PickRegion = std::function<PictureRegion(Index rows, Index cols)>;

/// Samples of one shape with one label each, or a label for each of some elements. Immutable once made; shared between threads.
/// Derive from it for your own data.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual Index samples() const = 0;                      ///< how many there are
  virtual Index classes() const = 0;                      ///< labels are in 0..classes()-1; 0: they are real numbers
  virtual std::vector<Index> sample_extents() const = 0;  ///< sizes, such as channels, rows, columns
  /// Values of one sample inside `box` (of sample_extents), row-major; images are scaled to 0..1.
  virtual void read(Index sample, const Box& box, std::span<double> out) const = 0;
  /// As read(), but the sample is the part of its picture, as its file has it, that `pick` gives, scaled to the sample's size.
  /// UserError: the samples are not pictures of files.
  virtual void read_region(Index sample, const PickRegion& pick, const Box& box, std::span<double> out) const;
  virtual std::int32_t label(Index sample) const = 0;                  ///< of one sample
  virtual std::vector<std::string> class_names() const { return {}; }  ///< by number; empty: they are not known
  virtual DType dtype() const { return DType::f32; }                   ///< i32: read() gives whole numbers
  /// Extents of a sample's labels, such as positions. Empty: one label(), which applies to every element where labels have extents.
  virtual std::vector<Index> label_extents() const { return {}; }
  /// Labels of one sample inside `box` (of label_extents), row-major.
  virtual void read_labels(Index sample, const Box& box, std::span<std::int32_t> out) const;
  /// Data of the same samples for a network's further inputs, by input name; the labels of these data sets are not read.
  virtual std::map<std::string, std::shared_ptr<const Dataset>> further() const { return {}; }
  virtual DType label_dtype() const { return DType::i32; }  ///< f32: labels are real numbers, which read_targets() gives
  /// The labels of read_labels() as real numbers; class labels as their numbers.
  virtual void read_targets(Index sample, const Box& box, std::span<double> out) const;
};

/// A data set in its two parts.
struct Datasets {
  std::shared_ptr<const Dataset> train{};  ///< to train on
  std::shared_ptr<const Dataset> test{};   ///< to evaluate on; null: there is no test part
  /// To evaluate on during training in the place of `test`; null: there is none.
  std::shared_ptr<const Dataset> validation{};
};

/// What a network expects of its samples. A field left at its default accepts whatever the files have.
struct SampleKind {
  std::vector<Index> extents{};        ///< as Dataset::sample_extents()
  Index classes = 0;                   ///< labels are below this
  DType dtype = DType::f32;            ///< i32: whole numbers
  Index numbers = 0;                   ///< i32 samples: all numbers are below this
  std::vector<Index> label_extents{};  ///< as Dataset::label_extents()
  std::string input{};                 ///< in `further`: the name of the input
  std::vector<SampleKind> further{};   ///< what the network's further inputs expect of the same samples
  DType label_dtype = DType::i32;      ///< f32: labels are real numbers
  bool label_is_part = false;          ///< real labels are in 0..1
  bool any_labels = false;             ///< labels may have any type, dims and values: the fields about labels are ignored
  bool any_samples = false;            ///< likewise for the samples and any further inputs
  std::optional<Index> ignored{};      ///< a label that need not be a class
  bool label_per_pixel = false;        ///< the labels' last two dims are those of the samples
};

/// @}
}  // namespace motley
