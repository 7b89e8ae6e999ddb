// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/batch.h>

#include <map>
#include <string>

#include "graph/passes.h"

namespace motley {

// The names of a job's two inputs that every data set fills.
struct FeedNames {
  std::string image = "image", label = "label";
};

// What a batch feeds to these passes: inputs that they do not read are left out.
inline std::map<std::string, ReadBox> feeds_from(const Batch& batch, const FeedNames& names, const Passes& passes) {
  std::map<std::string, ReadBox> out = batch.further;
  out[names.image] = batch.images;
  out[names.label] = batch.labels;
  std::erase_if(out, [&](const auto& feed) { return passes.find(feed.first) < 0; });
  return out;
}

}  // namespace motley
