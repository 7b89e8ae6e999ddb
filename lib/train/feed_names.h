// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace motley {

// A job's two inputs.
struct FeedNames {
  std::string image = "image", label = "label";
};

}  // namespace motley
