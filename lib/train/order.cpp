// SPDX-License-Identifier: Apache-2.0
#include <motley/data.h>
#include <motley/error.h>

#include <numeric>

#include "base/random.h"

namespace motley {

Order::Order(Index samples, Index batch, std::uint64_t seed) : samples_(samples), batch_(batch), seed_(seed) {
  if (batch < 1) throw UserError("a batch has at least one sample, not " + std::to_string(batch));
  if (samples < batch)
    throw UserError("a batch of " + std::to_string(batch) + " samples, but the data has only " + std::to_string(samples) +
                    "; use a batch of at most that size (train.batch; for verify: --batch)");
}

std::vector<Index> Order::batch_of(Index step) const {
  if (step < 0) throw UserError("step " + std::to_string(step) + " has no batch: steps are counted from 0");
  if (const Index epoch = step / steps_per_epoch(); epoch != epoch_) {
    // Fisher and Yates: element i changes places with one of 0..i.
    const RandomStream draws(seed_, "order of epoch " + std::to_string(epoch));
    try {
      order_.resize(static_cast<std::size_t>(samples_));
    } catch (const std::exception&) {
      throw DeviceError("the order of " + std::to_string(samples_) + " samples needs 8 bytes for each on every rank: no memory");
    }
    std::iota(order_.begin(), order_.end(), Index{0});
    for (std::size_t i = order_.size(); i-- > 1;)
      std::swap(order_[i], order_[static_cast<std::size_t>(draws.uniform(i) * static_cast<double>(i + 1))]);
    epoch_ = epoch;
  }
  const auto first = order_.begin() + step % steps_per_epoch() * batch_;
  return {first, first + batch_};
}

}  // namespace motley
