// SPDX-License-Identifier: Apache-2.0
// Published networks as model files. Layers are named as in torchvision where it has the network, so that its weights fit by name.
#pragma once
#include <motley/dims.h>

#include <string>
#include <vector>

#include "base/json.h"

namespace motley {

struct ZooChoice {
  std::string network{};
  std::vector<Dim> image{};  // of the input: samples, channels, rows, columns; for tokens: samples, positions
  std::string input = "image";
  Index classes = 1000;
  bool small_stem = false;  // resnet18/34/50: 3x3 without a pool, for small images
  double width = 1;         // factor of every layer's channels
  Index layers = 0;         // number of a transformer's blocks; 0: as published
  Index heads = 0;          // of its attention; 0: as published
  Index context = 0;        // rows of the table of positions of gpt and bert; 0: as published, or as many as the input has
};

const std::vector<std::string>& zoo_networks();
bool has_small_stem(const std::string& network);
// For the images that the network was published for (unet: a usual size today), a batch of 32 (unet: 8).
ZooChoice usual_choice(const std::string& network);
// A model file's text as a tree, without a file name. The choice is checked by the caller that reads it.
Json zoo_model(const ZooChoice& choice);

}  // namespace motley
