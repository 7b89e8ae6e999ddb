// SPDX-License-Identifier: Apache-2.0
// A data set made of another one: what a derived class does not change is that of the other.
#pragma once
#include <motley/data.h>

#include <utility>

namespace motley {

class Changed : public Dataset {
 public:
  explicit Changed(std::shared_ptr<const Dataset> data) : data_(std::move(data)) {}
  Index samples() const override { return data_->samples(); }
  Index classes() const override { return data_->classes(); }
  std::vector<Index> sample_extents() const override { return data_->sample_extents(); }
  std::int32_t label(Index sample) const override { return data_->label(sample); }
  std::vector<std::string> class_names() const override { return data_->class_names(); }
  DType dtype() const override { return data_->dtype(); }
  std::vector<Index> label_extents() const override { return data_->label_extents(); }
  void read_labels(Index sample, const Box& box, std::span<std::int32_t> out) const override {
    data_->read_labels(sample, box, out);
  }
  std::map<std::string, std::shared_ptr<const Dataset>> further() const override { return data_->further(); }
  void read(Index sample, const Box& box, std::span<double> out) const override { data_->read(sample, box, out); }
  void read_region(Index sample, const PickRegion& pick, const Box& box, std::span<double> out) const override {
    data_->read_region(sample, pick, box, out);
  }
  DType label_dtype() const override { return data_->label_dtype(); }
  void read_targets(Index sample, const Box& box, std::span<double> out) const override { data_->read_targets(sample, box, out); }

 protected:
  const Dataset& data() const { return *data_; }

 private:
  std::shared_ptr<const Dataset> data_;
};

}  // namespace motley
