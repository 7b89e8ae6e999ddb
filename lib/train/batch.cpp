// SPDX-License-Identifier: Apache-2.0
#include <motley/data.h>
#include <motley/error.h>

#include <algorithm>
#include <cstring>

namespace motley {
namespace {

// One sample after the other: only what the box asks for is read.
template <class T>
void read_images(const Dataset& data, const std::vector<Index>& which, const Box& box, std::span<std::byte> out) {
  const Box inner(box.begin() + 1, box.end());
  std::vector<double> values(static_cast<std::size_t>(volume(inner)));
  std::vector<T> narrow(values.size());
  std::byte* to = out.data();
  for (Index n = box[0].begin; n < box[0].end; n++) {
    const Index sample = which.at(static_cast<std::size_t>(n));
    if (sample == kNoSample) {
      narrow.assign(narrow.size(), T{0});
    } else {
      data.read(sample, inner, values);
      for (std::size_t i = 0; i < values.size(); i++) narrow[i] = static_cast<T>(values[i]);
    }
    std::memcpy(to, narrow.data(), narrow.size() * sizeof(T));
    to += narrow.size() * sizeof(T);
  }
}

ReadBox reader(std::shared_ptr<const Dataset> data, std::shared_ptr<const std::vector<Index>> samples) {
  return [data = std::move(data), samples = std::move(samples)](const Box& box, std::span<std::byte> to) {
    check(box.size() == data->sample_extents().size() + 1, "a batch of samples has the batch's dim and the sample's");
    const std::size_t elements = static_cast<std::size_t>(volume(box));
    if (elements == 0) return;
    check(to.size() == elements * sizeof(float) || to.size() == elements * sizeof(double), "samples are read as f32 or f64");
    if (data->dtype() == DType::i32)
      read_images<std::int32_t>(*data, *samples, box, to);
    else if (to.size() == elements * sizeof(float))
      read_images<float>(*data, *samples, box, to);
    else
      read_images<double>(*data, *samples, box, to);
  };
}

}  // namespace

void Dataset::read_labels(Index sample, const Box&, std::span<std::int32_t> out) const {
  std::fill(out.begin(), out.end(), label(sample));
}

Batch batch_of(std::shared_ptr<const Dataset> data, std::vector<Index> which, Index step, Index epoch) {
  const auto samples = std::make_shared<const std::vector<Index>>(std::move(which));
  Batch out;
  out.step = step;
  out.epoch = epoch;
  out.images = reader(data, samples);
  for (const auto& [name, its] : data->further()) out.further.emplace(name, reader(its, samples));
  out.labels = [data, samples](const Box& box, std::span<std::byte> to) {
    check(!box.empty() && to.size() == static_cast<std::size_t>(volume(box)) * sizeof(std::int32_t),
          "labels are read as i32 over the batch");
    const Box inner(box.begin() + 1, box.end());
    std::vector<std::int32_t> labels(static_cast<std::size_t>(volume(inner)));
    std::byte* next = to.data();
    for (Index n = box[0].begin; n < box[0].end; n++) {
      const Index sample = samples->at(static_cast<std::size_t>(n));
      if (sample == kNoSample)
        std::fill(labels.begin(), labels.end(), static_cast<std::int32_t>(kNoSample));
      else
        data->read_labels(sample, inner, labels);
      std::memcpy(next, labels.data(), labels.size() * sizeof(std::int32_t));
      next += labels.size() * sizeof(std::int32_t);
    }
  };
  return out;
}

Epoch::Epoch(std::shared_ptr<const Dataset> data, Index batch, std::uint64_t seed)
    : data_(std::move(data)), order_(std::make_shared<const Order>(data_->samples(), batch, seed)) {}

Index Epoch::steps() const {
  return order_->steps_per_epoch();
}

Batch Epoch::iterator::operator*() const {
  return batch_of(of_->data_, of_->order_->batch_of(step_), step_, 0);
}

bool Epoch::iterator::operator==(std::default_sentinel_t) const {
  return step_ == of_->steps();
}

FashionMnist::FashionMnist(const std::filesystem::path& folder) : data_(load_fashion_mnist(folder)) {}

Epoch FashionMnist::train(const Dim& batch, std::uint64_t seed) const {
  return {data_.train, batch.size, seed};
}

}  // namespace motley
