// SPDX-License-Identifier: Apache-2.0
#include "bench/support/networks.h"

#include <motley/error.h>

#include "config/model.h"
#include "config/zoo.h"

namespace motley::bench {

namespace {

struct Layers {
  Network net{};
  Tensor h{};
  int convolutions = 0;

  explicit Layers(const Shape& image) {
    net.graph = std::make_unique<Graph>();
    h = net.graph->input("image", image);
  }
  void conv(Index filters, Index window) {
    const Dim f{"filters" + std::to_string(++convolutions), filters};
    if (convolutions % 2 == 1) net.column_dims.push_back(f.name);
    net.filter_dims.push_back(f.name);
    h = relu(conv2d(h, {.out = f, .window = window, .padding = same}));
  }
  void vgg(const std::vector<Index>& filters) {  // 0: a pool
    for (Index f : filters) {
      if (f > 0)
        conv(f, 3);
      else
        h = max_pool2d(h, {.window = 2});
    }
  }
  // 3x3 of stride `stride` between two 1x1, with the residual connection around them.
  void bottleneck(Index filters, Index stride) {
    const Tensor x = h;
    const auto layer = [&](const Tensor& in, Index out, Index window, Index by) {
      const Dim f{"filters" + std::to_string(++convolutions), out};
      net.filter_dims.push_back(f.name);
      return conv2d(in, {.out = f, .window = window, .stride = by, .padding = same});
    };
    h = layer(relu(layer(relu(layer(x, filters, 1, 1)), filters, 3, stride)), 4 * filters, 1, 1);
    const std::string out = net.filter_dims.back();
    const bool same_shape = stride == 1 && x.shape().dims()[1].size == 4 * filters;
    const Tensor shortcut = same_shape ? x : layer(x, 4 * filters, 1, stride);
    h = relu(add(h, rename(shortcut, shortcut.shape().dims()[1], {out, 4 * filters})));
  }
  void hidden(Index size) {
    h = relu(dense(h, {.out = {Dim{"hidden", size}}}));
    net.column_dims.push_back("hidden");
    net.filter_dims.push_back("hidden");
  }
  Network finish(Index batch, Index classes) {
    const Tensor label = net.graph->input("label", {Dim{"batch", batch}}, DType::i32);
    const Dim c{"classes", classes};
    net.loss = mean(softmax_cross_entropy(dense(h, {.out = {c}}), label, c));
    return std::move(net);
  }
};

Shape image(Index batch, Index channels, Index size) {
  return {{"batch", batch}, {"channels", channels}, {"rows", size}, {"cols", size}};
}

// Of the published ones.
Network zoo(const ZooChoice& choice) {
  Complaints complaints;
  Reader reader{complaints};
  const Json text = zoo_model(choice);
  const ModelSpec spec = read_model(reader, text, VersionKey::optional);
  complaints.raise();
  Model model = build_model(spec, 0);
  Network net;
  for (const LayerSpec& layer : spec.layers)
    for (const Dim& d : layer.out)
      if (layer.op == "conv2d") net.filter_dims.push_back(d.name);
  net.loss = model.loss;
  net.graph = std::move(model.graph);
  return net;
}

}  // namespace

Network network(const std::string& name, Index batch) {
  if (name == "resnet18") return zoo({.network = name, .image = image(batch, 3, 32).dims(), .classes = 10, .small_stem = true});
  if (name == "resnet50" || name == "mobilenet_v2") return zoo({.network = name, .image = image(batch, 3, 224).dims()});
  if (name == "unet") return zoo({.network = name, .image = image(batch, 1, 128).dims(), .classes = 2, .width = 0.5});
  if (name == "gpt")
    return zoo({.network = name,
                .image = {{"batch", batch}, {"positions", 128}},
                .input = "tokens",
                .classes = 1000,
                .width = 1.0 / 3,
                .layers = 6,
                .heads = 4});
  if (name == "paper_mnist") {
    Layers l(image(batch, 1, 28));
    l.conv(60, 7);
    l.conv(120, 5);
    l.conv(240, 3);
    l.h = avg_pool2d(l.h, {.window = 2});
    l.hidden(128);
    return l.finish(batch, 10);
  }
  if (name == "quickstart") {
    Layers l(image(batch, 1, 28));
    for (Index f : {40, 64}) {
      l.conv(f, 3);
      l.h = max_pool2d(l.h, {.window = 2});
    }
    l.hidden(128);
    return l.finish(batch, 10);
  }
  if (name == "paper_cifar") {
    Layers l(image(batch, 3, 32));
    for (Index f : {60, 120, 240, 480}) {
      l.conv(f, 3);
      l.conv(f, 3);
      l.h = max_pool2d(l.h, {.window = 2});
    }
    l.hidden(256);
    return l.finish(batch, 10);
  }
  if (name == "vgg11") {
    Layers l(image(batch, 3, 32));
    l.vgg({64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0});
    l.hidden(512);
    return l.finish(batch, 10);
  }
  if (name == "vgg16") {
    Layers l(image(batch, 3, 224));
    l.vgg({64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0});
    l.hidden(4096);
    return l.finish(batch, 1000);
  }
  if (name == "resnet50_bias") {
    Layers l(image(batch, 3, 224));
    l.h = conv2d(l.h, {.out = {"filters0", 64}, .window = 7, .stride = 2, .padding = same});
    l.net.filter_dims.push_back("filters0");
    l.h = max_pool2d(relu(l.h), {.window = 3, .stride = 2, .padding = same});
    for (const auto& [filters, blocks] : {std::pair{64, 3}, {128, 4}, {256, 6}, {512, 3}})
      for (int b = 0; b < blocks; b++) l.bottleneck(filters, b == 0 && filters > 64 ? 2 : 1);
    l.h = global_avg_pool2d(l.h);
    return l.finish(batch, 1000);
  }
  if (name == "pair") {  // one column -> row pair and little else
    Layers l(image(batch, 128, 16));
    l.conv(128, 3);
    l.conv(128, 3);
    l.h = global_avg_pool2d(l.h);
    return l.finish(batch, 10);
  }
  if (name == "four") {  // four 3x3 convolutions at 32x32
    Layers l(image(batch, 64, 32));
    for (Index f : {64, 128, 128, 128}) l.conv(f, 3);
    l.h = global_avg_pool2d(l.h);
    return l.finish(batch, 10);
  }
  if (name == "wide") {  // three 3x3 convolutions, 256 channels, 16x16
    Layers l(image(batch, 16, 16));
    for (Index f : {256, 256, 256}) l.conv(f, 3);
    l.h = global_avg_pool2d(l.h);
    return l.finish(batch, 10);
  }
  throw UserError(
      "no network \"" + name +
      "\" (known: paper_mnist, paper_cifar, vgg11, vgg16, resnet50_bias, pair, four, wide, quickstart, and of the zoo resnet18, "
      "resnet50, mobilenet_v2, unet, gpt)");
}

}  // namespace motley::bench
