// SPDX-License-Identifier: Apache-2.0
// A small training step, and a mesh for it: what the plans of harness and seeds are for.
#pragma once
#include <motley/graph.h>
#include <motley/mesh.h>
#include <motley/ops.h>
#include <motley/optimizer.h>
#include <motley/step.h>

#include "tests/support/named_mesh.h"

namespace motley::fuzz {

struct SmallNet {
  SmallNet() {
    const Dim batch{"batch", 6}, in{"in", 1}, rows{"rows", 6}, cols{"cols", 6}, filters{"filters", 5}, classes{"classes", 3};
    image = graph.input("image", {batch, in, rows, cols});
    label = graph.input("label", {batch}, DType::i32);
    Tensor h = relu(conv2d(image, {.in = in, .out = filters, .over = {rows, cols}, .window = 3, .padding = same}));
    h = max_pool2d(h, {.over = {rows, cols}, .window = 2});
    const Tensor logits = dense(h, {.in = {filters, rows, cols}, .out = {classes}});
    loss = mean(softmax_cross_entropy(logits, label, classes));
  }
  Graph graph{};
  Tensor image{}, label{}, loss{};
};

struct SmallStep {
  SmallNet net{};
  Step step = training(net.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9});
  Mesh mesh = named_mesh({{"all", 2}});
};

}  // namespace motley::fuzz
