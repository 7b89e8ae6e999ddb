// SPDX-License-Identifier: Apache-2.0
#include "config/zoo.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "config/zoo_transformers.h"

namespace motley {

namespace {

using Int = std::int64_t;

// Layers in sequence; a dim is named after the layer that makes it, with dots written as _.
class LayerChain {
 public:
  explicit LayerChain(const ZooChoice& choice) : choice_(choice) {}

  struct Conv {
    Index window = 3, stride = 1, padding = 1, groups = 1;
    bool bias = false;
    std::string activation{}, from{}, out{};  // out: the dim; empty: named after the layer
  };
  Index width(Index channels) const { return std::max<Index>(1, std::llround(static_cast<double>(channels) * choice_.width)); }
  // Returns the dim of its filters.
  std::string conv(const std::string& name, Index channels, const Conv& c) {
    const std::string out = c.out.empty() ? dim_of(name) : c.out;
    Json l = layer("conv2d", name, c.from);
    l.set("out", Json().set(out, Int{channels})).set("window", Int{c.window});
    if (c.stride != 1) l.set("stride", Int{c.stride});
    if (c.padding != 0) l.set("padding", Int{c.padding});
    if (c.groups != 1) l.set("groups", Int{c.groups});
    if (!c.bias) l.set("bias", false);
    add(std::move(l), c.activation);
    return out;
  }
  void batch_norm(const std::string& name, const std::string& activation = {}) { add(layer("batch_norm", name), activation); }
  void relu(const std::string& name, const std::string& from = {}) { add(layer("relu", name, from)); }
  void max_pool(const std::string& name, Index window, Index stride, Index padding, const std::string& from = {}) {
    Json l = layer("max_pool2d", name, from);
    l.set("window", Int{window});
    if (stride != window) l.set("stride", Int{stride});
    if (padding != 0) l.set("padding", Int{padding});
    add(std::move(l));
  }
  void avg_pool(const std::string& name, Index window) {
    Json l = layer("avg_pool2d", name);
    add(std::move(l.set("window", Int{window})));
  }
  void global_pool(const std::string& name) { add(layer("global_avg_pool2d", name)); }
  void dropout(const std::string& name, double rate) {
    Json l = layer("dropout", name);
    add(std::move(l.set("rate", rate)));
  }
  void dense(const std::string& name, const std::string& out, Index size, const std::string& activation = {}) {
    Json l = layer("dense", name);
    l.set("out", Json().set(out, Int{size}));
    add(std::move(l), activation);
  }
  void sum(const std::string& name, const std::string& a, const std::string& b, const std::string& activation = {}) {
    Json l = layer("add", name);
    l.set("from", Json::Array{a, b});
    add(std::move(l), activation);
  }
  void conv_transpose(const std::string& name, const std::string& out, Index channels, Index scale) {
    Json l = layer("conv_transpose2d", name);
    l.set("out", Json().set(out, Int{channels})).set("window", Int{scale}).set("stride", Int{scale});
    add(std::move(l));
  }
  // Concatenates these two layers along the dims of these names, giving `out`.
  void join(const std::string& name, const std::array<std::string, 2>& layers, const std::array<std::string, 2>& dims,
            const std::string& out) {
    Json l = layer("concat", name);
    l.set("from", Json::Array{layers[0], layers[1]}).set("in", Json::Array{dims[0], dims[1]}).set("out", out);
    add(std::move(l));
  }
  void pad_channels(const std::string& name, const std::string& in, const std::string& out, Index before, Index after) {
    Json l = layer("pad", name);
    l.set("in", in).set("before", Int{before}).set("after", Int{after}).set("out", out);
    add(std::move(l));
  }
  const ZooChoice& choice() const { return choice_; }
  std::string last() const { return last_; }
  static std::string dim_of(std::string layer) {
    std::replace(layer.begin(), layer.end(), '.', '_');
    return layer;
  }
  Json::Array take() { return std::move(list_); }

 private:
  Json layer(const std::string& op, const std::string& name, const std::string& from = {}) {
    last_ = name;
    Json l;
    l.set("op", op).set("name", name);
    if (!from.empty()) l.set("from", from);
    return l;
  }
  void add(Json layer, const std::string& activation = {}) {
    if (!activation.empty()) layer.set("activation", activation);
    list_.push_back(std::move(layer));
  }
  const ZooChoice& choice_;
  Json::Array list_{};
  std::string last_{};
};

// what: what the network does to rows and columns. UserError: an image that is too small for it.
void require_image(const LayerChain& net, Index least, const std::string& what) {
  for (const Dim& d : {net.choice().image[2], net.choice().image[3]})
    if (d.size < least)
      throw UserError(net.choice().network + " " + what + ": expected at least " + std::to_string(least) + ", \"" + d.name +
                      "\" has " + std::to_string(d.size));
}

// He et al., "Deep residual learning for image recognition", arXiv 1512.03385, table 1; stride in the 3x3 of a bottleneck.
void resnet(LayerChain& net, const std::vector<Index>& blocks, bool bottleneck) {
  Index channels = net.width(64);
  std::string dim = "stem";
  net.conv("conv1", channels,
           net.choice().small_stem ? LayerChain::Conv{.out = dim}
                                   : LayerChain::Conv{.window = 7, .stride = 2, .padding = 3, .out = dim});
  net.batch_norm("bn1", "relu");
  if (!net.choice().small_stem) net.max_pool("maxpool", 3, 2, 1);
  for (std::size_t stage = 0; stage < blocks.size(); stage++)
    for (Index b = 0; b < blocks[stage]; b++) {
      const std::string block = "layer" + std::to_string(stage + 1) + "." + std::to_string(b), in = net.last();
      const Index inner = net.width(Index{64} << stage), out = bottleneck ? net.width(Index{256} << stage) : inner,
                  stride = stage > 0 && b == 0 ? 2 : 1;
      const bool projects = stride != 1 || channels != out;
      const std::string into = projects ? "layer" + std::to_string(stage + 1) : dim;
      net.conv(block + ".conv1", inner,
               bottleneck ? LayerChain::Conv{.window = 1, .padding = 0} : LayerChain::Conv{.stride = stride});
      net.batch_norm(block + ".bn1", "relu");
      net.conv(block + ".conv2", bottleneck ? inner : out,
               bottleneck ? LayerChain::Conv{.stride = stride} : LayerChain::Conv{.out = into});
      net.batch_norm(block + ".bn2", bottleneck ? "relu" : "");
      if (bottleneck) {
        net.conv(block + ".conv3", out, {.window = 1, .padding = 0, .out = into});
        net.batch_norm(block + ".bn3");
      }
      const std::string branch = net.last();
      std::string identity = in;
      if (projects) {
        net.conv(block + ".downsample.0", out, {.window = 1, .stride = stride, .padding = 0, .from = in, .out = into});
        net.batch_norm(block + ".downsample.1");
        identity = net.last();
      }
      net.sum(block, branch, identity, "relu");
      channels = out;
      dim = into;
    }
  net.global_pool("avgpool");
  net.dense("fc", "classes", net.choice().classes);
}

// The same paper, section 4.2: three stages of 3x3 convolutions, shortcuts without parameters (every second row and column, new
// channels zero).
void resnet_cifar(LayerChain& net, Index depth) {
  const Index blocks = (depth - 2) / 6;
  Index channels = net.width(16);
  std::string dim = "stem";
  net.conv("conv1", channels, {.out = dim});
  net.batch_norm("bn1", "relu");
  for (Index stage = 0; stage < 3; stage++)
    for (Index b = 0; b < blocks; b++) {
      const std::string block = "layer" + std::to_string(stage + 1) + "." + std::to_string(b), in = net.last();
      const Index out = net.width(Index{16} << stage), stride = stage > 0 && b == 0 ? 2 : 1;
      const std::string into = stride == 2 ? "layer" + std::to_string(stage + 1) : dim;
      net.conv(block + ".conv1", out, {.stride = stride});
      net.batch_norm(block + ".bn1", "relu");
      net.conv(block + ".conv2", out, {.out = into});
      net.batch_norm(block + ".bn2");
      const std::string branch = net.last();
      std::string identity = in;
      if (stride == 2) {
        net.max_pool(block + ".subsample", 1, 2, 0, in);
        net.pad_channels(block + ".shortcut", dim, into, (out - channels) / 2, out - channels - (out - channels) / 2);
        identity = net.last();
      }
      net.sum(block, branch, identity, "relu");
      channels = out;
      dim = into;
    }
  net.global_pool("avgpool");
  net.dense("fc", "classes", net.choice().classes);
}

// He et al., "Identity mappings in deep residual networks", arXiv 1603.05027: norm and activation before each convolution.
void resnet_preactivated(LayerChain& net, Index depth) {
  const Index blocks = (depth - 2) / 9;
  Index channels = net.width(16);
  std::string dim = "stem";
  net.conv("conv1", channels, {.out = dim});
  for (Index stage = 0; stage < 3; stage++)
    for (Index b = 0; b < blocks; b++) {
      const std::string block = "layer" + std::to_string(stage + 1) + "." + std::to_string(b);
      std::string in = net.last();
      const Index inner = net.width(Index{16} << stage), out = net.width(Index{64} << stage), stride = stage > 0 && b == 0 ? 2 : 1;
      const std::string into = b == 0 ? "layer" + std::to_string(stage + 1) : dim;
      net.batch_norm(block + ".bn1", "relu");
      if (b == 0) in = net.last();  // a projection reads the activated tensor
      net.conv(block + ".conv1", inner, {.window = 1, .padding = 0});
      net.batch_norm(block + ".bn2", "relu");
      net.conv(block + ".conv2", inner, {.stride = stride});
      net.batch_norm(block + ".bn3", "relu");
      net.conv(block + ".conv3", out, {.window = 1, .padding = 0, .out = into});
      const std::string branch = net.last();
      std::string identity = in;
      if (b == 0) {
        net.conv(block + ".shortcut", out, {.window = 1, .stride = stride, .padding = 0, .from = in, .out = into});
        identity = net.last();
      }
      net.sum(block, branch, identity);
      channels = out;
      dim = into;
    }
  net.batch_norm("bn", "relu");
  net.global_pool("avgpool");
  net.dense("fc", "classes", net.choice().classes);
}

// Simonyan and Zisserman, arXiv 1409.1556, configurations A and D; 0: a pool. torchvision's adaptive pool to 7x7 is left out where
// features are smaller.
void vgg(LayerChain& net, const std::vector<Index>& channels, bool norms) {
  require_image(net, 32, "halves rows and columns five times");
  Index number = 0, rows = net.choice().image[2].size, cols = net.choice().image[3].size;
  const auto name = [&](Index step) {
    const std::string here = "features." + std::to_string(number);
    number += step;
    return here;
  };
  for (const Index c : channels) {
    if (c == 0) {
      net.max_pool(name(1), 2, 2, 0);
      rows /= 2;
      cols /= 2;
    } else if (norms) {
      net.conv(name(1), net.width(c), {.bias = true});
      net.batch_norm(name(2), "relu");
    } else {
      net.conv(name(2), net.width(c), {.bias = true, .activation = "relu"});
    }
  }
  if (rows == cols && rows > 7 && rows % 7 == 0) net.avg_pool("avgpool", rows / 7);
  net.dense("classifier.0", "hidden1", net.width(4096), "relu");
  net.dropout("classifier.2", 0.5);
  net.dense("classifier.3", "hidden2", net.width(4096), "relu");
  net.dropout("classifier.5", 0.5);
  net.dense("classifier.6", "classes", net.choice().classes);
}

// Sandler et al., arXiv 1801.04381, table 2.
void mobilenet_v2(LayerChain& net) {
  struct Stage {
    Index expansion, channels, blocks, stride;
  };
  std::string dim = "stem";
  Index channels = net.width(32), number = 1;
  net.conv("features.0.0", channels, {.stride = 2, .out = dim});
  net.batch_norm("features.0.1", "relu6");
  for (const Stage& s :
       {Stage{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}})
    for (Index b = 0; b < s.blocks; b++, number++) {
      const std::string block = "features." + std::to_string(number), in = net.last();
      const Index inner = channels * s.expansion, out = net.width(s.channels), stride = b == 0 ? s.stride : 1;
      const bool residual = stride == 1 && channels == out;
      Index part = 0;
      if (s.expansion != 1) {
        net.conv(block + ".conv.0.0", inner, {.window = 1, .padding = 0});
        net.batch_norm(block + ".conv.0.1", "relu6");
        part = 1;
      }
      net.conv(block + ".conv." + std::to_string(part) + ".0", inner, {.stride = stride, .groups = inner});
      net.batch_norm(block + ".conv." + std::to_string(part) + ".1", "relu6");
      const std::string into = residual ? dim : LayerChain::dim_of(block);
      net.conv(block + ".conv." + std::to_string(part + 1), out, {.window = 1, .padding = 0, .out = into});
      net.batch_norm(block + ".conv." + std::to_string(part + 2));
      if (residual) net.sum(block, net.last(), in);
      channels = out;
      dim = into;
    }
  net.conv("features.18.0", net.width(1280), {.window = 1, .padding = 0});
  net.batch_norm("features.18.1", "relu6");
  net.global_pool("avgpool");
  net.dropout("classifier.0", 0.2);
  net.dense("classifier.1", "classes", net.choice().classes);
}

// Ronneberger et al., arXiv 1505.04597, figure 1, in today's usual form: convolutions are padded, so that each pixel of the image
// has its logits, and have batch norms. Layers are named as in github.com/milesial/Pytorch-UNet, with its bilinear=False.
void unet(LayerChain& net) {
  constexpr Index kLevels = 4;
  const Dim &rows = net.choice().image[2], &cols = net.choice().image[3];
  for (const Dim* d : {&rows, &cols})
    if (d->size % (Index{1} << kLevels) != 0)
      throw UserError("unet halves rows and columns four times: expected multiples of 16, \"" + d->name + "\" has " +
                      std::to_string(d->size));
  const auto twice = [&](const std::string& block, const std::string& dim, Index channels) {
    net.conv(block + "double_conv.0", channels, {.out = dim + "_inner"});
    net.batch_norm(block + "double_conv.1", "relu");
    net.conv(block + "double_conv.3", channels, {.out = dim});
    net.batch_norm(block + "double_conv.4", "relu");
  };
  std::vector<std::pair<std::string, std::string>> skips;  // layers and their dims
  std::string dim = "inc";
  twice("inc.", dim, net.width(64));
  for (Index level = 1; level <= kLevels; level++) {
    skips.emplace_back(net.last(), dim);
    dim = "down" + std::to_string(level);
    net.max_pool(dim + ".maxpool_conv.0", 2, 2, 0);
    twice(dim + ".maxpool_conv.1.", dim, net.width(Index{64} << level));
  }
  for (Index level = kLevels; level-- > 0;) {
    const std::string block = "up" + std::to_string(kLevels - level);
    const auto [skip, skipped] = skips[static_cast<std::size_t>(level)];
    const Index channels = net.width(Index{64} << level);
    net.conv_transpose(block + "_up", block + "_up", channels, 2);
    net.join(block + "_cat", {skip, net.last()}, {skipped, block + "_up"}, block + "_cat");
    twice(block + ".conv.", block, channels);
  }
  net.conv("outc_conv", net.choice().classes, {.window = 1, .padding = 0, .bias = true, .out = "classes"});
}

// LeCun et al., "Gradient-based learning applied to document recognition", 1998, in today's usual form: average pools, tanh, no
// connection table.
void lenet5(LayerChain& net) {
  const bool padded = net.choice().image[2].size < 32;
  require_image(net, padded ? 12 : 16, "reads windows of 5, 2, 5 and 2 rows and columns");
  net.conv("conv1", net.width(6), {.window = 5, .padding = padded ? 2 : 0, .bias = true, .activation = "tanh"});
  net.avg_pool("pool1", 2);
  net.conv("conv2", net.width(16), {.window = 5, .padding = 0, .bias = true, .activation = "tanh"});
  net.avg_pool("pool2", 2);
  net.dense("fc1", "hidden1", net.width(120), "tanh");
  net.dense("fc2", "hidden2", net.width(84), "tanh");
  net.dense("fc3", "classes", net.choice().classes);
}

// From the paper that motley began with: partitioned and replicated convolutions in turn.
void paper_mnist(LayerChain& net) {
  require_image(net, 2, "halves rows and columns");
  Index number = 1;
  for (const auto& [channels, window] : {std::pair<Index, Index>{60, 7}, {120, 5}, {240, 3}}) {
    net.conv(
        "conv" + std::to_string(number), net.width(channels),
        {.window = window, .padding = window / 2, .bias = true, .activation = "relu", .out = "filters" + std::to_string(number)});
    number++;
  }
  net.avg_pool("pool", 2);
  net.dense("dense1", "hidden", net.width(128), "relu");
  net.dense("dense2", "classes", net.choice().classes);
}
void paper_cifar(LayerChain& net) {
  require_image(net, 8, "halves rows and columns three times");
  Index number = 1;
  for (const Index channels : {60, 120, 240, 480}) {
    for (int twice = 0; twice < 2; twice++, number++)
      net.conv("conv" + std::to_string(number), net.width(channels),
               {.bias = true, .activation = "relu", .out = "filters" + std::to_string(number)});
    if (channels < 480) net.max_pool("pool" + std::to_string(number / 2), 2, 2, 0);
  }
  net.dense("dense1", "hidden", net.width(256), "relu");
  net.dense("dense2", "classes", net.choice().classes);
}

const std::map<std::string, std::function<void(LayerChain&)>>& networks() {
  const std::vector<Index> a{64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0},
      d{64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0};
  static const std::map<std::string, std::function<void(LayerChain&)>> all{
      {"lenet5", lenet5},
      {"mobilenet_v2", mobilenet_v2},
      {"paper_cifar", paper_cifar},
      {"paper_mnist", paper_mnist},
      {"resnet18",
       [](LayerChain& net) {
         resnet(net, {2, 2, 2, 2}, false);
       }},
      {"resnet34",
       [](LayerChain& net) {
         resnet(net, {3, 4, 6, 3}, false);
       }},
      {"resnet50",
       [](LayerChain& net) {
         resnet(net, {3, 4, 6, 3}, true);
       }},
      {"resnet20", [](LayerChain& net) { resnet_cifar(net, 20); }},
      {"resnet56", [](LayerChain& net) { resnet_cifar(net, 56); }},
      {"resnet110", [](LayerChain& net) { resnet_cifar(net, 110); }},
      {"resnet1001", [](LayerChain& net) { resnet_preactivated(net, 1001); }},
      {"unet", unet},
      {"vgg11", [a](LayerChain& net) { vgg(net, a, false); }},
      {"vgg16", [d](LayerChain& net) { vgg(net, d, false); }},
      {"vgg11_bn", [a](LayerChain& net) { vgg(net, a, true); }},
      {"vgg16_bn", [d](LayerChain& net) { vgg(net, d, true); }}};
  return all;
}

}  // namespace

const std::vector<std::string>& zoo_networks() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const auto& [name, build] : networks()) out.push_back(name);
    out.insert(out.end(), {"bert", "gpt", "vit"});
    std::sort(out.begin(), out.end());
    return out;
  }();
  return names;
}

bool has_small_stem(const std::string& network) {
  return network == "resnet18" || network == "resnet34" || network == "resnet50";
}

ZooChoice usual_choice(const std::string& network) {
  if (reads_tokens(network))
    return {.network = network,
            .image = {{"batch", 8}, {"positions", network == "gpt" ? 1024 : 512}},
            .input = "tokens",
            .classes = network == "gpt" ? 50257 : 30522};
  const bool digits = network == "lenet5" || network == "paper_mnist";
  const std::vector<std::string> small{"paper_cifar", "resnet20", "resnet56", "resnet110", "resnet1001"};
  if (network == "unet")
    return {.network = network, .image = {{"batch", 8}, {"channels", 3}, {"rows", 256}, {"cols", 256}}, .classes = 2};
  const bool cifar = std::find(small.begin(), small.end(), network) != small.end();
  const Index size = digits ? 28 : cifar ? 32 : 224;
  return {.network = network,
          .image = {{"batch", 32}, {"channels", digits ? 1 : 3}, {"rows", size}, {"cols", size}},
          .classes = digits || cifar ? 10 : 1000};
}

Json zoo_model(const ZooChoice& choice) {
  LayerChain layers(choice);
  const bool transformer = is_transformer(choice.network), tokens = reads_tokens(choice.network);
  if (!transformer) networks().at(choice.network)(layers);
  Json image;
  if (tokens) image.set("dtype", "i32");
  for (const Dim& d : choice.image) image.set(d.name, Int{d.size});
  Json model;
  model.set("version", 1).set("name", choice.network).set("inputs", Json().set(choice.input, std::move(image)));
  model.set("layers", transformer ? transformer_layers(choice) : layers.take());
  return std::move(model.set("loss", Json().set("op", "softmax_cross_entropy").set("over", tokens ? "vocabulary" : "classes")));
}

}  // namespace motley
