// SPDX-License-Identifier: Apache-2.0
// The networks that benches measure, written with the C++ API.
#pragma once
#include <motley/ops.h>
#include <motley/step.h>

#include <memory>
#include <string>
#include <vector>

namespace motley::bench {

struct Network {
  std::unique_ptr<Graph> graph{};
  Tensor loss{};
  std::vector<std::string> column_dims{};  // filters of every first convolution of a pair, and hidden: cut as in the paper
  std::vector<std::string> filter_dims{};  // of every convolution, and hidden
};

// "paper_mnist", "paper_cifar" (notes on the paper's networks), "vgg11" (CIFAR size, no norm, dense 512 then 10), "vgg16"
// (224 x 224, one dense layer of 4096, then 1000), "resnet50_bias" (a bias in place of each batch norm), "pair"
// (two 3x3 convolutions, 128 channels, 16x16: one column -> row pair), "four" (convolutions of 64 to 128 filters at 32x32),
// "wide" (three of 256 at 16x16), "quickstart" (configs/models/quickstart.json). Of the zoo: "resnet18" (32 x 32, the small stem,
// 10 classes), "resnet50" and "mobilenet_v2" (224 x 224), "unet" (128 x 128, 32 to 512 channels, 2 classes for each pixel), "gpt"
// (6 layers of 256 features, 4 heads, 128 positions, 1000 words).
Network network(const std::string& name, Index batch);

}  // namespace motley::bench
