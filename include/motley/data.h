// SPDX-License-Identifier: Apache-2.0
// Labelled images from disk or made up, and the order in which training sees them.
#pragma once
#include <motley/dims.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace motley {

// Samples of one shape with one label each. Immutable once made; shared between threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual Index samples() const = 0;
  virtual Index classes() const = 0;
  virtual std::vector<Index> sample_extents() const = 0;  // e.g. channels, rows, columns
  // Values of one sample inside `box` (of sample_extents), row-major; images are scaled to 0..1.
  virtual void read(Index sample, const Box& box, std::span<double> out) const = 0;
  virtual std::int32_t label(Index sample) const = 0;
};

struct Datasets {
  std::shared_ptr<const Dataset> train{}, test{};
};
// Folders hold the files by their usual names, .gz or not. UserError: 66 missing (says how to get it), 65 damaged.
Datasets load_mnist(const std::filesystem::path& folder);
Datasets load_fashion_mnist(const std::filesystem::path& folder = {});  // default: where Debian's dataset-fashion-mnist puts it
Datasets load_cifar10(const std::filesystem::path& folder);
// Values and labels from the seed alone; labels can be learnt from the values.
Datasets synthetic(std::vector<Index> sample_extents, Index classes, Index samples, std::uint64_t seed);

// The samples of one training step: epoch e visits a permutation told by (seed, e) alone; a short last batch is dropped.
// Used by one thread: it keeps the epoch's permutation.
class Order {
 public:
  Order(Index samples, Index batch, std::uint64_t seed);  // UserError: fewer samples than one batch
  Index steps_per_epoch() const { return samples_ / batch_; }
  std::vector<Index> batch_of(Index step) const;  // step counted over all epochs

 private:
  Index samples_, batch_;
  std::uint64_t seed_;
  mutable Index epoch_ = -1;
  mutable std::vector<Index> order_{};
};

// Fills this rank's box (dense, row-major, f32/f64 images or i32 labels) of a batch when asked. Owns what it reads from.
using ReadBox = std::function<void(const Box& box, std::span<std::byte> out)>;
struct Batch {
  ReadBox images{}, labels{};
  Index step = 0, epoch = 0;
};

// A range of batches; shares the data, so `FashionMnist{}.train(...)` may die.
class Epoch {
 public:
  class iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    iterator(const Epoch* of, Index step) : of_(of), step_(step) {}
    Batch operator*() const;
    iterator& operator++() {
      ++step_;
      return *this;
    }
    bool operator==(std::default_sentinel_t) const;

   private:
    const Epoch* of_;
    Index step_;
  };
  Epoch(std::shared_ptr<const Dataset> data, Index batch, std::uint64_t seed);
  iterator begin() const { return {this, 0}; }
  std::default_sentinel_t end() const { return {}; }
  Index steps() const;

 private:
  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<const Order> order_;
};

// Reads this rank's box of the samples `which` (dims: batch, then the sample's). kNoSample fills up a short batch of an
// evaluation: zeros, and the label -1.
inline constexpr Index kNoSample = -1;
Batch batch_of(std::shared_ptr<const Dataset> data, std::vector<Index> which, Index step, Index epoch);

class FashionMnist {
 public:
  explicit FashionMnist(const std::filesystem::path& folder = {});
  Epoch train(const Dim& batch, std::uint64_t seed) const;

 private:
  Datasets data_;
};

}  // namespace motley
