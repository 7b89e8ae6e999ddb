// SPDX-License-Identifier: Apache-2.0
#include "train/batch_reader.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "base/at.h"
#include "graph/micro_batches.h"

namespace motley {
namespace {

// Reads sample after sample, and only what the box requires. read(sample, box, values) gives From, `to` has To.
template <class From, class To, class Read>
void each_sample(const std::vector<Index>& which, const Box& box, std::span<std::byte> out, Index missing, Read&& read) {
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
    bool beyond = false;  // what is fused may hide an infinity: the greater of 0 and -infinity is 0
    for (const From value : values) {
      const To narrow = static_cast<To>(value);
      if constexpr (sizeof(To) < sizeof(From) && std::is_floating_point_v<To>)
        beyond = beyond || (std::abs(value) > std::numeric_limits<To>::max() && std::isfinite(value));
      std::memcpy(to, &narrow, sizeof narrow);
      to += sizeof narrow;
    }
    if (beyond) throw UserError("sample " + std::to_string(sample) + " has a value that is too large for f32", Exit::data);
  }
}

std::string extents_text(const std::vector<Index>& extents) {
  std::string out;
  for (const Index n : extents) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return "[" + out + "]";
}

}  // namespace

void BatchReader::operator()(const Box& box, std::span<std::byte> to) const {
  const std::vector<Index> extents = this->extents();
  check(!box.empty(), "samples are read over the batch");
  if (volume(box) == 0) return;
  if (box.size() == extents.size() + 1)
    for (std::size_t d = 0; d < extents.size(); d++)
      if (box[d + 1].begin < 0 || box[d + 1].end > extents[d])
        throw UserError("a sample's part up to " + std::to_string(box[d + 1].end) + " along dim " + std::to_string(d + 1) +
                        " is read, but samples have the sizes " + extents_text(extents));
  of_ == Of::samples ? read_samples(box, to) : read_labels(box, to);
}

void BatchReader::check_fits(const StepTensor& tensor, Index samples) const {
  const std::string what = of_ == Of::samples ? "samples" : "labels";
  const auto given = static_cast<Index>(which_->size());
  if (given != samples)
    throw UserError("\"" + tensor.name + "\" is fed by " + std::to_string(given) + " samples; expected " + std::to_string(samples) +
                    ", the size of its first dim");
  std::vector<Index> sizes;
  for (std::size_t d = 1; d < tensor.shape.rank(); d++) sizes.push_back(tensor.shape[d].size);
  const bool one_for_all = of_ == Of::labels && extents().empty();
  if (sizes != extents() && !one_for_all)
    throw UserError("\"" + tensor.name + "\" is fed by " + what + " of the sizes " + extents_text(extents()) + "; expected " +
                    extents_text(sizes) + ", those of its dims after the first");
  if ((dtype() == DType::i32) != (tensor.dtype == DType::i32))
    throw UserError("\"" + tensor.name + "\" is fed by " + what + " that are " + (dtype() == DType::i32 ? "integers" : "floats") +
                    "; expected " + (tensor.dtype == DType::i32 ? "integers" : "floats"));
}

void require_whole_batches(const Passes& passes, const std::string& image, Index samples) {
  const Dim& batch = at(passes.tensors, passes.find(image)).shape[0];
  if (samples % batch.size == 0) return;
  if (const std::string layer = layer_across_samples(passes, batch.name); !layer.empty())
    throw UserError("\"" + layer + "\" computes a sample's values from the other samples of its batch too, and the last batch of " +
                    std::to_string(samples) + " samples, " + std::to_string(samples % batch.size) +
                    " of them, would be filled up with others; give a multiple of " + std::to_string(batch.size) + " samples (\"" +
                    batch.name + "\"), or a batch that divides their number");
}

void BatchReader::read_samples(const Box& box, std::span<std::byte> to) const {
  check(box.size() == data_->sample_extents().size() + 1, "a batch of samples has the batch's dim and the sample's");
  const std::size_t elements = static_cast<std::size_t>(volume(box));
  check(to.size() == elements * sizeof(float) || to.size() == elements * sizeof(double), "samples are read as f32 or f64");
  const auto read = [&](auto... of) { data_->read(of...); };
  if (data_->dtype() == DType::i32)
    each_sample<double, std::int32_t>(*which_, box, to, 0, read);
  else if (to.size() == elements * sizeof(float))
    each_sample<double, float>(*which_, box, to, 0, read);
  else
    each_sample<double, double>(*which_, box, to, 0, read);
}

void BatchReader::read_labels(const Box& box, std::span<std::byte> to) const {
  const std::size_t elements = static_cast<std::size_t>(volume(box));
  if (data_->label_dtype() == DType::i32) {
    check(to.size() == elements * sizeof(std::int32_t), "labels are read as i32");
    each_sample<std::int32_t, std::int32_t>(*which_, box, to, kNoSample, [&](auto... of) { data_->read_labels(of...); });
    return;
  }
  check(to.size() == elements * sizeof(float) || to.size() == elements * sizeof(double), "labels are read as f32 or f64");
  const auto read = [&](auto... of) { data_->read_targets(of...); };
  if (to.size() == elements * sizeof(float))
    each_sample<double, float>(*which_, box, to, 0, read);
  else
    each_sample<double, double>(*which_, box, to, 0, read);
}

void Dataset::read_labels(Index sample, const Box&, std::span<std::int32_t> out) const {
  std::fill(out.begin(), out.end(), label(sample));
}

void Dataset::read_region(Index, const PickRegion&, const Box&, std::span<double>) const {
  throw UserError("these samples are not pictures of files: no region of them can be read; leave random_crop out");
}

void Dataset::read_targets(Index sample, const Box& box, std::span<double> out) const {
  std::vector<std::int32_t> labels(out.size());
  read_labels(sample, box, labels);
  std::copy(labels.begin(), labels.end(), out.begin());
}

Batch batch_of(std::shared_ptr<const Dataset> data, std::vector<Index> which, Index step, Index epoch) {
  if (data == nullptr) throw UserError("the data set is a null pointer");
  for (const Index sample : which)
    if (sample != kNoSample && (sample < 0 || sample >= data->samples()))
      throw UserError("sample " + std::to_string(sample) +
                      " does not exist, number of samples: " + std::to_string(data->samples()));
  const auto samples = std::make_shared<const std::vector<Index>>(std::move(which));
  Batch out;
  out.step = step;
  out.epoch = epoch;
  out.images = BatchReader(data, samples, BatchReader::Of::samples);
  for (const auto& [name, its] : data->further()) out.further.emplace(name, BatchReader(its, samples, BatchReader::Of::samples));
  out.labels = BatchReader(data, samples, BatchReader::Of::labels);
  return out;
}

Epoch::Epoch(std::shared_ptr<const Dataset> data, Index batch, std::uint64_t seed) : data_(std::move(data)) {
  if (data_ == nullptr) throw UserError("an epoch of no data set: the pointer is null");
  order_ = std::make_shared<const Order>(data_->samples(), batch, seed);
}

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
