// SPDX-License-Identifier: Apache-2.0
// What batch_of() makes: a ReadBox that can say which data it gives.
#pragma once
#include <motley/data.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/passes.h"

namespace motley {

class BatchReader {
 public:
  enum class Of : std::uint8_t { samples, labels };
  BatchReader(std::shared_ptr<const Dataset> data, std::shared_ptr<const std::vector<Index>> which, Of of)
      : data_(std::move(data)), which_(std::move(which)), of_(of) {}
  void operator()(const Box& box, std::span<std::byte> to) const;
  // Whether the data have the tensor's sizes and kind of numbers; `samples`: of the tensor's batch, micro-batches together.
  // UserError
  void check_fits(const StepTensor& tensor, Index samples) const;

 private:
  void read_samples(const Box& box, std::span<std::byte> to) const;
  void read_labels(const Box& box, std::span<std::byte> to) const;
  std::vector<Index> extents() const { return of_ == Of::samples ? data_->sample_extents() : data_->label_extents(); }
  DType dtype() const { return of_ == Of::samples ? data_->dtype() : data_->label_dtype(); }
  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<const std::vector<Index>> which_;
  Of of_;
};

// UserError: an inference whose values for a sample depend on the batch's other samples, and a short last batch, which is filled
// up.
void require_whole_batches(const Passes& passes, const std::string& image, Index samples);

}  // namespace motley
