// SPDX-License-Identifier: Apache-2.0
#include "bench/support/small_networks.h"

#include <motley/error.h>

#include <functional>
#include <utility>

namespace motley::bench {
namespace {

// Layers on an image [batch channels rows cols]; the filters of convolution i are the dim "filters<i>".
struct Builder {
  SmallNetwork net{};
  Dim batch{};
  Tensor h{};
  int convolutions = 0;

  Builder(Index images, Index channels, Index size) : batch{"batch", images} {
    net.graph = std::make_unique<Graph>();
    h = net.graph->input("image", {batch, {"channels", channels}, {"rows", size}, {"cols", size}});
  }
  Dim filters(Index size) { return {"filters" + std::to_string(++convolutions), size}; }
  Builder& conv(Index size, Index window, Index stride = 1) {
    h = relu(conv2d(h, {.out = filters(size), .window = window, .stride = stride, .padding = same}));
    return *this;
  }
  Builder& cut_conv(Index size, Index window, Index stride = 1) {
    net.cut.push_back({"filters" + std::to_string(convolutions + 1), size});
    return conv(size, window, stride);
  }
  Builder& pool() {
    h = max_pool2d(h, {.window = 2});
    return *this;
  }
  Builder& mean_of_image() {
    h = global_avg_pool2d(h);
    return *this;
  }
  Builder& cut_hidden(Index size) {
    net.cut.push_back({"hidden", size});
    h = relu(dense(h, {.out = {{"hidden", size}}}));
    return *this;
  }
  SmallNetwork finish() {
    const Dim classes{"classes", 10};
    const Tensor label = net.graph->input("label", {batch}, DType::i32);
    net.loss = mean(softmax_cross_entropy(dense(h, {.out = {classes}}), label, classes));
    return std::move(net);
  }
};

// x + conv(relu(conv(x))), the inner filters cut.
SmallNetwork residual() {
  Builder b(8, 16, 16);
  b.conv(64, 3);
  const Tensor x = b.h;
  b.cut_conv(128, 3);
  b.h = relu(add(x, conv2d(b.h, {.out = {"filters1", 64}, .window = 3, .padding = same})));
  return b.mean_of_image().finish();
}

SmallNetwork cut_by_batch() {
  Builder b(24, 16, 16);
  b.net.cut.push_back(b.batch);
  return b.conv(64, 3).conv(64, 3).mean_of_image().finish();
}

using Make = std::function<SmallNetwork()>;
const std::vector<std::pair<std::string, Make>>& all() {
  static const std::vector<std::pair<std::string, Make>> list{
      {"pair_3x3", [] { return Builder(8, 32, 16).cut_conv(64, 3).conv(64, 3).mean_of_image().finish(); }},
      {"pair_3x3_wide", [] { return Builder(8, 64, 14).cut_conv(160, 3).conv(64, 3).mean_of_image().finish(); }},
      {"pair_3x3_large", [] { return Builder(8, 64, 20).cut_conv(96, 3).conv(64, 3).mean_of_image().finish(); }},
      {"pair_5x5", [] { return Builder(8, 16, 20).cut_conv(48, 5).conv(32, 5).mean_of_image().finish(); }},
      {"strided", [] { return Builder(16, 16, 32).cut_conv(96, 3, 2).conv(64, 3, 2).mean_of_image().finish(); }},
      {"pooled", [] { return Builder(16, 8, 28).cut_conv(48, 3).pool().conv(96, 3).pool().finish(); }},
      {"dense_head", [] { return Builder(32, 1, 28).conv(16, 5).pool().cut_hidden(512).finish(); }},
      {"residual", residual},
      {"batch", cut_by_batch},
      {"two_pairs",
       [] { return Builder(8, 16, 16).cut_conv(96, 3).conv(32, 3).cut_conv(64, 5).conv(32, 3).mean_of_image().finish(); }},
      {"conv_and_hidden", [] { return Builder(16, 3, 32).cut_conv(48, 5).pool().conv(32, 3).pool().cut_hidden(256).finish(); }}};
  return list;
}

}  // namespace

const std::vector<std::string>& small_network_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const auto& [name, make] : all()) out.push_back(name);
    return out;
  }();
  return names;
}

SmallNetwork small_network(const std::string& name) {
  std::string known;
  for (const auto& [each, make] : all()) {
    if (each == name) return make();
    known += (known.empty() ? "" : ", ") + each;
  }
  throw UserError("no network \"" + name + "\" (known: " + known + ")", Exit::usage);
}

}  // namespace motley::bench
