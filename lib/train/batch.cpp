// SPDX-License-Identifier: Apache-2.0
#include <motley/data.h>
#include <motley/error.h>

#include <algorithm>
#include <cstring>

namespace motley {
namespace {

// Reads sample after sample, and only what the box requires. read(sample, box, values) gives From, `to` has To.
template <class From, class To, class Read>
void read_samples(const std::vector<Index>& which, const Box& box, std::span<std::byte> out, Index missing, Read&& read) {
  if (box[0].end > static_cast<Index>(which.size()))
    throw UserError("a batch of " + std::to_string(which.size()) + " samples was given, but the step reads sample " +
                    std::to_string(box[0].end - 1) + " of it; give as many samples as the batch dim of the graph");
  const Box inner(box.begin() + 1, box.end());
  std::vector<From> values(static_cast<std::size_t>(volume(inner)));
  std::byte* to = out.data();  // of any alignment
  for (Index n = box[0].begin; n < box[0].end; n++) {
    const Index sample = which.at(static_cast<std::size_t>(n));
    if (sample == kNoSample)
      std::fill(values.begin(), values.end(), static_cast<From>(missing));
    else
      read(sample, inner, std::span<From>(values));
    for (const From value : values) {
      const To narrow = static_cast<To>(value);
      std::memcpy(to, &narrow, sizeof narrow);
      to += sizeof narrow;
    }
  }
}

ReadBox reader(std::shared_ptr<const Dataset> data, std::shared_ptr<const std::vector<Index>> samples) {
  return [data = std::move(data), samples = std::move(samples)](const Box& box, std::span<std::byte> to) {
    check(box.size() == data->sample_extents().size() + 1, "a batch of samples has the batch's dim and the sample's");
    const std::size_t elements = static_cast<std::size_t>(volume(box));
    if (elements == 0) return;
    check(to.size() == elements * sizeof(float) || to.size() == elements * sizeof(double), "samples are read as f32 or f64");
    const auto read = [&](auto... of) { data->read(of...); };
    if (data->dtype() == DType::i32)
      read_samples<double, std::int32_t>(*samples, box, to, 0, read);
    else if (to.size() == elements * sizeof(float))
      read_samples<double, float>(*samples, box, to, 0, read);
    else
      read_samples<double, double>(*samples, box, to, 0, read);
  };
}

}  // namespace

void Dataset::read_labels(Index sample, const Box&, std::span<std::int32_t> out) const {
  std::fill(out.begin(), out.end(), label(sample));
}

void Dataset::read_targets(Index sample, const Box& box, std::span<double> out) const {
  std::vector<std::int32_t> labels(out.size());
  read_labels(sample, box, labels);
  std::copy(labels.begin(), labels.end(), out.begin());
}

Batch batch_of(std::shared_ptr<const Dataset> data, std::vector<Index> which, Index step, Index epoch) {
  for (const Index sample : which)
    if (sample != kNoSample && (sample < 0 || sample >= data->samples()))
      throw UserError("sample " + std::to_string(sample) +
                      " does not exist, number of samples: " + std::to_string(data->samples()));
  const auto samples = std::make_shared<const std::vector<Index>>(std::move(which));
  Batch out;
  out.step = step;
  out.epoch = epoch;
  out.images = reader(data, samples);
  for (const auto& [name, its] : data->further()) out.further.emplace(name, reader(its, samples));
  out.labels = [data, samples](const Box& box, std::span<std::byte> to) {
    check(!box.empty(), "labels are read over the batch");
    const std::size_t elements = static_cast<std::size_t>(volume(box));
    if (data->label_dtype() == DType::i32) {
      check(to.size() == elements * sizeof(std::int32_t), "labels are read as i32");
      read_samples<std::int32_t, std::int32_t>(*samples, box, to, kNoSample, [&](auto... of) { data->read_labels(of...); });
      return;
    }
    check(to.size() == elements * sizeof(float) || to.size() == elements * sizeof(double), "labels are read as f32 or f64");
    const auto read = [&](auto... of) { data->read_targets(of...); };
    if (to.size() == elements * sizeof(float))
      read_samples<double, float>(*samples, box, to, 0, read);
    else
      read_samples<double, double>(*samples, box, to, 0, read);
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
