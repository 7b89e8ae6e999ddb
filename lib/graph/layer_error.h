// SPDX-License-Identifier: Apache-2.0
// A graph that cannot be made into a step, because of one of its layers.
#pragma once
#include <motley/error.h>

#include <string>
#include <utility>

namespace motley {

struct LayerError : UserError {
  LayerError(std::string its, const std::string& text) : UserError(text), layer(std::move(its)) {}
  std::string layer;
};

}  // namespace motley
