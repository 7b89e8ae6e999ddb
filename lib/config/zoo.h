// SPDX-License-Identifier: Apache-2.0
// Published networks as model files. Layers are called as in torchvision where it has the network, so that its weights fit by name.
#pragma once
#include <motley/dims.h>

#include <string>
#include <vector>

#include "base/json.h"

namespace motley {

struct ZooChoice {
  std::string network{};
  std::vector<Dim> image{};  // of the input: samples, channels, rows, columns; of one of tokens: samples, positions
  std::string input = "image";
  Index classes = 1000;
  bool small_stem = false;  // resnet18/34/50: 3x3 without a pool, for small images
  double width = 1;         // factor of every layer's channels
  Index layers = 0;         // of a transformer, so many blocks; 0: as published
  Index heads = 0;          // of its attention; 0: as published
};

const std::vector<std::string>& zoo_networks();
bool has_small_stem(const std::string& network);
// For the images that it was published for (unet: as many that is used with), 32 of them (unet: 8).
ZooChoice usual_choice(const std::string& network);
// A model file's text as a tree, without the name of a file. The choice is checked by who reads it.
Json zoo_model(const ZooChoice& choice);

}  // namespace motley
