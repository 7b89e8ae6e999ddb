// SPDX-License-Identifier: Apache-2.0
/// @file
/// The samples of one step, and how they are read.
#pragma once
#include <motley/dims.h>
#include <motley/graph.h>

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>

namespace motley {
/// @addtogroup data
/// @{

/// On request, fills `out` with this rank's box of a batch: dense, row-major; images in f32 or f64, numbers in i32, labels in i32
/// or as images. Keeps its data source alive.
using ReadBox = std::function<void(const Box& box, std::span<std::byte> out)>;
/// One input of a step and what fills it.
struct Feed {
  Tensor tensor{};  ///< made by Graph::input
  ReadBox data{};   ///< reads this rank's box of it
};
/// One training step's samples.
struct Batch {
  ReadBox images{};                          ///< dims: batch, then the sample's
  ReadBox labels{};                          ///< dims: batch, then the dims of a sample's labels
  std::map<std::string, ReadBox> further{};  ///< by input name, from Dataset::further(); like images
  Index step = 0;                            ///< counted from 0 over all epochs
  Index epoch = 0;                           ///< counted from 0
};

/// @}
}  // namespace motley
