// SPDX-License-Identifier: Apache-2.0
#include "laws/random_network.h"

#include <algorithm>

namespace motley::law {

Index pick(Random& random, Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random); }
bool chance(Random& random, double p) { return std::bernoulli_distribution(p)(random); }

namespace {

Tensor activated(Random& random, const Tensor& x) {
  switch (pick(random, 0, 5)) {
    case 0: return sigmoid(x);
    case 1: return motley::tanh(x);
    case 2: return elu(x);
    case 3: return x;
    default: return relu(x);
  }
}

Padding padding(Random& random, Index window) {
  switch (pick(random, 0, 2)) {
    case 0: return same;
    case 1: return Padding({pick(random, 0, window - 1), pick(random, 0, window - 1)}, {pick(random, 0, window - 1), pick(random, 0, window - 1)});
    default: return valid;
  }
}

}  // namespace

Network network(Random& random) {
  Network net;
  const Dim batch{"batch", pick(random, 2, 5)}, in{"in", pick(random, 1, 3)}, rows{"rows", pick(random, 7, 11)}, cols{"cols", pick(random, 7, 10)};
  net.dims = {batch, rows, cols};
  const Tensor image = net.graph->input("image", {batch, in, rows, cols});
  const Tensor label = net.graph->input("label", {batch}, DType::i32);
  Tensor h = image;
  const Index convolutions = pick(random, 1, 3);
  for (Index i = 0; i < convolutions; i++) {
    const Dim f{"f" + std::to_string(i), pick(random, 3, 7)};
    net.dims.push_back(f);
    const Index window = pick(random, 1, 3);
    h = conv2d(h, {.out = f, .window = {window, pick(random, 1, 3)}, .stride = pick(random, 1, i == 0 ? 2 : 1), .padding = same, .bias = chance(random, 0.7)});
    h = activated(random, h);
    if (chance(random, 0.4)) {  // a residual block: the branch goes over another dim and comes back
      const Dim g{"g" + std::to_string(i), pick(random, 2, 6)};
      net.dims.push_back(g);
      const Tensor branch = conv2d(activated(random, conv2d(h, {.out = g, .window = 3, .padding = same})), {.out = f, .window = {1, 2}, .padding = same});
      h = chance(random, 0.5) ? add(h, branch) : add({branch, h, conv2d(image.shape().has(f.name) ? image : activated(random, conv2d(h, {.out = g, .window = 1, .name = "again" + std::to_string(i)})), {.out = f, .window = 1})});
      h = activated(random, h);
    }
    const Index size = std::min(h.shape()[2].size, h.shape()[3].size);
    if (size >= 4 && chance(random, 0.6)) {
      const Index w = pick(random, 2, 3);
      const Pool2dOptions options{.window = w, .stride = pick(random, 1, w), .padding = padding(random, w)};
      h = chance(random, 0.5) ? max_pool2d(h, options) : avg_pool2d(h, options);
    }
  }
  const Dim hidden{"hidden", pick(random, 3, 8)}, classes{"classes", pick(random, 2, 5)};
  net.dims.push_back(classes);
  switch (pick(random, 0, 3)) {
    case 0: h = global_avg_pool2d(h); break;
    case 1: h = flatten(h, "flat"); break;
    default: break;
  }
  if (chance(random, 0.7)) {
    h = activated(random, dense(h, {.out = {hidden}}));
    net.dims.push_back(hidden);
  }
  const Tensor logits = dense(h, {.out = {classes}, .bias = chance(random, 0.8)});
  net.loss = mean(softmax_cross_entropy(logits, label, classes));
  return net;
}

std::vector<Index> parts(Random& random, Index size, int ranks) {
  std::vector<Index> out(static_cast<std::size_t>(ranks), 0);
  if (chance(random, 0.15)) {
    out[static_cast<std::size_t>(pick(random, 0, ranks - 1))] = size;
    return out;
  }
  for (Index i = 0; i < size; i++) out[static_cast<std::size_t>(pick(random, 0, ranks - 1))]++;
  return out;
}

Mesh mesh_of(const std::vector<Axis>& axes) {
  int ranks = 1;
  for (const Axis& a : axes) ranks *= a.size;
  return Mesh(axes, std::vector<Device>(static_cast<std::size_t>(ranks)));
}

}  // namespace motley::law
