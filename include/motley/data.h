// SPDX-License-Identifier: Apache-2.0
/// @file
/// Labelled samples, from disk or synthetic, and the order in which training sees them.
#pragma once
#include <motley/batch.h>
#include <motley/dims.h>
#include <motley/dtype.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace motley {
/// @addtogroup data
/// @{

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
  virtual std::int32_t label(Index sample) const = 0;  ///< of one sample
  virtual DType dtype() const { return DType::f32; }   ///< i32: read() gives whole numbers
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
};
/// MNIST from the folder with its four IDX files, `.gz` or not. UserError: 66 missing (says how to get it), 65 damaged.
Datasets load_mnist(const std::filesystem::path& folder);
/// Fashion-MNIST, as load_mnist(). Without a folder: where Debian's dataset-fashion-mnist puts it.
Datasets load_fashion_mnist(const std::filesystem::path& folder = {});
/// CIFAR-10 from the folder with its binary batches. UserError as load_mnist().
Datasets load_cifar10(const std::filesystem::path& folder);
/// Values and labels from the seed alone; labels can be learnt from the values.
Datasets synthetic(std::vector<Index> sample_extents, Index classes, Index samples, std::uint64_t seed);
struct SampleKind;
/// The same of any kind: also whole numbers, labels for each element, and real labels (in 0..1).
Datasets synthetic(const SampleKind& kind, Index samples, std::uint64_t seed);

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
/// Files of load_npy(): arrays [samples, a sample's dims...] and their labels.
struct NpyFiles {
  std::filesystem::path images{};  ///< f16, f32, f64 (values as they are) or u8 (scaled to 0..1)
  /// Shape [samples] or [samples, label_extents...]. Integers; real labels: floats or integers, with their values as they are.
  std::filesystem::path labels{};
  std::filesystem::path test_images{};                         ///< like images; empty: there is no test part
  std::filesystem::path test_labels{};                         ///< given with test_images
  std::map<std::string, std::filesystem::path> inputs{};       ///< for a network's further inputs, by input name, like images
  std::map<std::string, std::filesystem::path> test_inputs{};  ///< likewise; given with test_images
};
/// Arrays in NumPy files. Only the parts that are needed are read, so a file may be larger than memory. An input that expects whole
/// numbers needs an array of integers. UserError: 66 missing; 65 damaged, not as expected, a label that is not a class, not finite
/// or not in 0..1 where that is expected, or no label that is not ignored; 65 also from read(): the file has become shorter, or a
/// sample or label is not finite (labels in the first 1 GiB of the file: from load_npy()).
Datasets load_npy(const NpyFiles& files, const SampleKind& expected = {});
/// PNG and JPEG pictures, `train/CLASS/*` and `test/CLASS/*` (which may be missing: no test part) in the folder, decoded when they
/// are read. Classes are numbered by name. expected.extents: [channels, rows, cols], of 1 channel (colours become their luminance)
/// or 3 (grey is repeated); empty: those of the first picture, 3 channels. UserError: 66 missing; 65, also from read(): a picture
/// that is damaged or has another size (the error names its file).
Datasets load_folder(const std::filesystem::path& folder, const SampleKind& expected = {});
/// Lists the pictures that are damaged or whose header gives a size other than `expected`, one file per line; empty: none. Reads no
/// pixels.
std::vector<std::string> check_folder(const std::filesystem::path& folder, const SampleKind& expected);

/// Width of a token's number in a file, little endian.
enum class TokenType : std::uint8_t { u16, u32 };
/// Files of load_tokens(): the numbers of consecutive tokens, nothing else.
struct TokenFiles {
  std::filesystem::path path{};       ///< to train on
  std::filesystem::path test_path{};  ///< to evaluate on; empty: the last tenth of `path`
  TokenType type = TokenType::u16;    ///< of both
};
/// Samples of expected.extents[0] consecutive tokens each, whose labels are the tokens shifted by one; tokens left over at the end
/// are not used. Files are read where they are needed. No test part if it would not have a single sample. UserError: 66 missing; 65
/// shorter than one sample, not a whole number of tokens, tokens that are wider than `type`, or, from read(), a token that is not
/// below expected.numbers and expected.classes (both 0: the whole file is read to find the largest token).
Datasets load_tokens(const TokenFiles& files, const SampleKind& expected);
/// Reads the first 1 GiB of each file. UserError (65): a token that is not below expected.numbers and expected.classes.
void check_tokens(const TokenFiles& files, const SampleKind& expected);

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

/// Changes of a picture that do not change its label. A sample's last two dims are rows and columns. Labels with two or more dims
/// whose last two are equal to them move with their pixels. Further inputs stay as they are.
struct Augment {
  static constexpr Index kMostCropPadding = Index{1} << 20;  ///< largest crop_padding
  bool flip = false;                                         ///< columns are mirrored with probability 1/2
  Index crop_padding = 0;                                    ///< shifted by up to so many rows and columns; zeros fill the gap
  std::optional<Index> ignored{};                        ///< label of the pixels that fill the gap, where each pixel has a label
  bool any() const { return flip || crop_padding > 0; }  ///< whether any change is enabled
};
/// `data` as one epoch of training sees it: what happens to a sample is determined by (seed, epoch, sample) alone, so it is the
/// same for every layout, box and number of ranks. UserError: samples of fewer than two dims; labels of two or more dims that are
/// not one per pixel; crop_padding with such labels but no `ignored`, or crop_padding outside its bounds.
std::shared_ptr<const Dataset> augmented(std::shared_ptr<const Dataset> data, const Augment& how, std::uint64_t seed, Index epoch);

/// The samples of one training step: epoch e visits a permutation given by (seed, e) alone; a short last batch is dropped.
/// Used by one thread: it keeps the epoch's permutation.
class Order {
 public:
  Order(Index samples, Index batch, std::uint64_t seed);       ///< UserError: fewer samples than one batch
  Index steps_per_epoch() const { return samples_ / batch_; }  ///< complete batches of an epoch
  std::vector<Index> batch_of(Index step) const;               ///< sample indices; step counted from 0 over all epochs

 private:
  Index samples_, batch_;
  std::uint64_t seed_;
  mutable Index epoch_ = -1;
  mutable std::vector<Index> order_{};
};

/// A range of batches; shares the data, so `FashionMnist{}.train(...)` may be destroyed.
class Epoch {
 public:
  /// Input iterator over batches.
  class iterator {
   public:
    using value_type = Batch;                                        ///< what it yields
    using difference_type = std::ptrdiff_t;                          ///< signed
    iterator(const Epoch* of, Index step) : of_(of), step_(step) {}  ///< at the batch of that step
    Batch operator*() const;                                         ///< the batch
    /// To the next batch.
    iterator& operator++() {
      ++step_;
      return *this;
    }
    bool operator==(std::default_sentinel_t) const;  ///< whether the epoch is over

   private:
    const Epoch* of_;
    Index step_;
  };
  /// UserError: fewer samples than one batch; no data.
  Epoch(std::shared_ptr<const Dataset> data, Index batch, std::uint64_t seed);
  iterator begin() const { return {this, 0}; }        ///< the first batch
  std::default_sentinel_t end() const { return {}; }  ///< after the last
  Index steps() const;                                ///< number of batches

 private:
  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<const Order> order_;
};

inline constexpr Index kNoSample = -1;  ///< Fills up a short batch of an evaluation: zeros, and the label -1.
/// Reads the samples `which` (dims: batch, then the sample's), or kNoSample.
Batch batch_of(std::shared_ptr<const Dataset> data, std::vector<Index> which, Index step, Index epoch);

/// The Fashion-MNIST training images.
class FashionMnist {
 public:
  explicit FashionMnist(const std::filesystem::path& folder = {});  ///< as load_fashion_mnist()
  Epoch train(const Dim& batch, std::uint64_t seed) const;          ///< one epoch in batches of that dim's size

 private:
  Datasets data_;
};

/// @}
}  // namespace motley
