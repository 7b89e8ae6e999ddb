// SPDX-License-Identifier: Apache-2.0
// A part of the training samples that is evaluated, not trained on.
#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <cmath>

#include "base/at.h"
#include "base/hash.h"
#include "base/interval.h"
#include "train/changed.h"

namespace motley {

namespace {

using Samples = std::shared_ptr<const std::vector<Index>>;

// Some samples of another data set, in order.
class Some final : public Changed {
 public:
  Some(std::shared_ptr<const Dataset> of, Samples which) : Changed(std::move(of)), which_(std::move(which)) {
    for (const auto& [name, its] : Changed::further()) further_[name] = std::make_shared<Some>(its, which_);
  }
  Index samples() const override { return static_cast<Index>(which_->size()); }
  std::int32_t label(Index sample) const override { return data().label(its(sample)); }
  void read(Index sample, const Box& box, std::span<double> out) const override { data().read(its(sample), box, out); }
  void read_region(Index sample, const PickRegion& pick, const Box& box, std::span<double> out) const override {
    data().read_region(its(sample), pick, box, out);
  }
  void read_labels(Index sample, const Box& box, std::span<std::int32_t> out) const override {
    data().read_labels(its(sample), box, out);
  }
  void read_targets(Index sample, const Box& box, std::span<double> out) const override {
    data().read_targets(its(sample), box, out);
  }
  std::map<std::string, std::shared_ptr<const Dataset>> further() const override { return further_; }

 private:
  Index its(Index sample) const { return at(*which_, sample); }
  Samples which_;
  std::map<std::string, std::shared_ptr<const Dataset>> further_{};
};

// The samples of each class; all of them where a sample has no class.
std::vector<std::vector<Index>> groups_of(const Dataset& data) {
  const bool classes = data.label_dtype() == DType::i32 && data.label_extents().empty() && data.classes() > 0;
  std::map<std::int32_t, std::vector<Index>> out;
  for (Index n = 0; n < data.samples(); n++) out[classes ? data.label(n) : 0].push_back(n);
  std::vector<std::vector<Index>> groups;
  for (auto& [label, samples] : out) groups.push_back(std::move(samples));
  return groups;
}

}  // namespace

Datasets with_validation(Datasets data, double share, std::uint64_t seed) {
  require_within("validation", share, {.least = 0, .most = 1, .above = true, .below = true});
  if (data.train == nullptr) throw UserError("the data set is a null pointer");
  const auto hash = [seed](Index sample) {
    Hash out;
    out.add(seed).add(sample);
    return out.value();
  };
  std::vector<Index> trained, evaluated;
  for (std::vector<Index>& group : groups_of(*data.train)) {
    const auto all = static_cast<Index>(group.size());
    const Index taken = std::min(static_cast<Index>(std::floor(share * static_cast<double>(all) + 0.5)), all - 1);
    std::vector<std::pair<std::uint64_t, Index>> order;
    for (const Index sample : group) order.emplace_back(hash(sample), sample);
    std::sort(order.begin(), order.end());
    for (Index i = 0; i < all; i++) (i < taken ? evaluated : trained).push_back(at(order, i).second);
  }
  if (evaluated.empty())
    throw UserError(
        fmt::format("a validation part of {} takes none of the {} samples; make it larger", share, data.train->samples()));
  for (std::vector<Index>* const list : {&trained, &evaluated}) std::sort(list->begin(), list->end());
  const auto some = [&](std::vector<Index> which) {
    return std::make_shared<Some>(data.train, std::make_shared<const std::vector<Index>>(std::move(which)));
  };
  data.validation = some(std::move(evaluated));
  data.train = some(std::move(trained));
  return data;
}

}  // namespace motley
