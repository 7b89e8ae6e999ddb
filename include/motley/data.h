// SPDX-License-Identifier: Apache-2.0
/// @file
/// Labelled samples, from disk or synthetic, and the order in which training sees them.
#pragma once
#include <motley/batch.h>
#include <motley/data_changes.h>
#include <motley/data_files.h>

#include <iterator>

namespace motley {
/// @addtogroup data
/// @{

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
