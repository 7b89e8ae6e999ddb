// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_network.h"
#include "graph/pointwise.h"

#include <motley/partition.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <sstream>

namespace motley::law {

Index pick(Random& random, Index low, Index high) {
  return std::uniform_int_distribution<Index>(low, high)(random);
}
bool chance(Random& random, double p) {
  return std::bernoulli_distribution(p)(random);
}

int law_percent() {
  const char* const text = std::getenv("MOTLEY_LAW_PERCENT");
  return text == nullptr ? 100 : std::clamp(std::atoi(text), 1, 100);
}

namespace {

Tensor activated(const std::string& activation, const Tensor& x) {
  return activation.empty() ? x : (*Pointwise::find(activation))(x, "");
}

std::string any_activation(Random& random) {
  if (chance(random, 0.3)) return chance(random, 0.5) ? "relu" : "";
  const std::vector<std::string> all = Pointwise::names();
  return all[static_cast<std::size_t>(pick(random, 0, static_cast<Index>(all.size()) - 1))];
}

Sliding any_sliding(Random& random, bool pool) {
  Sliding s;
  s.window = chance(random, 0.25) ? 1 : pick(random, 2, pool ? 3 : 4);
  s.stride = pool ? pick(random, 1, s.window) : chance(random, 0.7) ? 1 : pick(random, 2, 3);
  s.dilation = !pool && chance(random, 0.2) ? 2 : 1;
  if (chance(random, 0.6)) {
    s.before = pick(random, 0, s.window - (pool ? 1 : 0));  // a convolution's windows may see padding alone
    s.after = pick(random, 0, s.window - (pool ? 1 : 0));
  }
  return s;
}

Sliding fitted(Sliding s, Index size, bool pool) {
  auto reach = [&] { return (s.window - 1) * s.dilation + 1; };
  for (;;) {
    s.before = std::min(s.before, reach() - (pool ? 1 : 0));
    s.after = std::min(s.after, reach() - (pool ? 1 : 0));
    if (reach() <= size + s.before + s.after) return s;
    (s.dilation > 1 ? s.dilation : s.window)--;
  }
}

Padding padding_of(const Layer& layer, const Sliding& rows, const Sliding& cols) {
  return layer.same ? Padding(same) : Padding({rows.before, rows.after}, {cols.before, cols.after});
}

// x, and x's sum with one or two branches that go over another dim and come back.
Tensor with_branches(const Layer& layer, const Tensor& x, const Dim& f, const Dim& g) {
  const std::string a = layer.activation;
  const Tensor branch =
      conv2d(activated(a, conv2d(x, {.out = g, .window = 3, .padding = same})), {.out = f, .window = {1, 2}, .padding = same});
  if (layer.filters % 2 == 0) return add(x, branch);
  const std::string name = "again" + std::to_string(layer.id);
  return add({branch, x, conv2d(activated(a, conv2d(x, {.out = g, .window = 1, .name = name})), {.out = f, .window = 1})});
}

// x[batch f rows cols] in another shape with the same roles.
Tensor in_form(Network& net, const Layer& layer, const Tensor& x) {
  const Dim n = x.shape()[0], f = x.shape()[1], rows = x.shape()[2], cols = x.shape()[3];
  const std::string id = std::to_string(layer.id);
  const Index at = layer.inner % f.size;
  auto active = [&](const Tensor& t) { return activated(layer.activation, t); };
  switch (layer.form) {
    case 0: return rename(x, f, {"named" + id});
    case 1: {  // split and merged again, the parts in the other order
      Index outer = at + 1;
      while (f.size % outer != 0) outer--;
      const Dim g{"outer" + id, outer}, e{"inner" + id, f.size / outer};
      return reshape(active(reshape(x, {.in = {f}, .out = {g, {e.name}}})), {.in = {e, g}, .out = {{"shuffled" + id}}});
    }
    case 2: return slice(x, {.in = f, .range = {at, f.size}, .out = {"some" + id}});
    case 3: return pad(x, {.in = f, .before = at, .after = 1, .out = {"padded" + id}});
    case 4: return pad(x, {.in = rows, .before = at % 2, .after = 1, .out = {"rows" + id}});
    case 5: {
      const Tensor beside = active(slice(x, {.in = f, .range = {0, at + 1}, .out = {"beside" + id}}));
      net.dims.push_back(beside.shape()[1]);
      return concat({x, beside}, {.in = {f, beside.shape()[1]}, .out = {"joined" + id}});
    }
    case 6: return reshape(stack({active(x), x}, {.out = {"pair" + id}}), {.in = {{"pair" + id}, f}, .out = {{"stacked" + id}}});
    case 7: {  // two dims into two others, across their boundaries
      const Tensor mixed = reshape(x, {.in = {f, rows}, .out = {{"tall" + id, rows.size}, {"wide" + id}}});
      return reshape(active(mixed), {.in = {{"tall" + id}, {"wide" + id}}, .out = {{"back" + id, f.size}, {"rows" + id}}});
    }
    default: return transpose(active(transpose(x, {cols, n, f, rows})), {n, f, rows, cols});
  }
}

// tanh(matmul(activation(matmul(x, k)), v)), which keeps values small: over the filters, one product per sample and row; or over
// the rows, one per sample and filter.
Tensor in_products(Network& net, const Layer& layer, const Tensor& x) {
  const Dim f = x.shape()[1], rows = x.shape()[2], cols = x.shape()[3];
  const Dim keys{"keys" + std::to_string(layer.id), layer.inner};
  net.dims.push_back(keys);
  const Tensor k = dense(x, {.in = {cols}, .out = {keys}}), v = dense(x, {.in = {cols}, .out = {keys}, .bias = false});
  const Tensor scores = matmul(x, k, {.over = {layer.form == 0 ? f : rows}});
  return motley::tanh(matmul(activated(layer.activation, scores), v, {.over = {keys}}));
}

// Over the rows or the filters; some heads of the columns.
Tensor in_attention(Network& net, const Layer& layer, const Tensor& x) {
  const Dim over = x.shape()[layer.form % 2 == 0 ? 2 : 1],
            heads{"heads" + std::to_string(layer.id), std::gcd(layer.inner, x.shape()[3].size)};
  for (const Dim& d : {heads, Dim{"head-" + heads.name, x.shape()[3].size / heads.size}}) net.dims.push_back(d);
  return activated(layer.activation, attention(x, {.heads = heads, .over = over, .causal = layer.form > 1, .bias = layer.bias}));
}

Index shared_groups(const Layer& layer, const Tensor& x) {
  Index groups = std::min(layer.groups, x.shape()[1].size);
  while (x.shape()[1].size % groups != 0) groups--;
  return groups;
}

// Padding that leaves something of what these windows make of `size`.
Sliding fitted_over(Sliding s, Index size) {
  const Index all = (size - 1) * s.stride + (s.window - 1) * s.dilation + 1;
  s.before = std::min(s.before, all - 1);
  s.after = std::min(s.after, all - 1 - s.before);
  return s;
}

Tensor in_transposed(Network& net, const Layer& layer, const Tensor& x) {
  const Sliding rows = fitted_over(layer.rows, x.shape()[2].size), cols = fitted_over(layer.cols, x.shape()[3].size);
  const Index groups = shared_groups(layer, x);
  const Dim f{"t" + std::to_string(layer.id), (layer.filters + groups - 1) / groups * groups};
  net.dims.push_back(f);
  const auto more = [&](const Sliding& s) { return layer.same ? 0 : layer.inner % std::max(s.stride, s.dilation); };
  return activated(layer.activation, conv_transpose2d(x, {.out = f,
                                                          .window = {rows.window, cols.window},
                                                          .stride = {rows.stride, cols.stride},
                                                          .dilation = {rows.dilation, cols.dilation},
                                                          .padding = padding_of(layer, rows, cols),
                                                          .output_padding = {more(rows), more(cols)},
                                                          .groups = groups,
                                                          .bias = layer.bias}));
}

constexpr Index kNormForms = 12;

// A few, or groups of a few.
Index groups_of(Index size, Index form) {
  Index least = std::min<Index>(2, size);
  while (size % least != 0) least++;
  return form == 0 ? least : size / least;
}

Tensor in_norm(const Layer& layer, const Tensor& x) {
  const Dim n = x.shape()[0], f = x.shape()[1], rows = x.shape()[2], cols = x.shape()[3];
  switch (layer.form) {
    case 0: return batch_norm(x, {.epsilon = 1e-2});
    case 1: return batch_norm(x, {.of = rows, .momentum = 0.3, .epsilon = 1e-2});
    case 2:
      return layer_norm(x, {.over = {cols.size > 1 ? cols : f}, .epsilon = 1e-2});  // of one value: 0, where activations have kinks
    case 3: return layer_norm(x, {.over = {f, rows, cols}, .epsilon = 1e-2});
    case 4: return rms_norm(x, {.over = {f}, .epsilon = 1e-2});
    case 5: return dropout(x, {.rate = 0.3});
    case 6: return dropout(reshape(x, {.in = {f, rows, cols}, .out = {{"all" + std::to_string(layer.id)}}}), {.rate = 0.6});
    case 7: return softmax(x, {.over = layer.inner % 2 == 0 ? f : cols});
    case 8: {
      const Tensor gate = sigmoid(sum(x, {rows, cols}));
      return layer.inner % 2 == 0 ? mul(x, gate) : mul(gate, x);
    }
    case 9: return group_norm(x, {.groups = groups_of(f.size, layer.inner), .epsilon = 1e-2});
    case 10: return group_norm(x, {.groups = groups_of(rows.size, layer.inner), .of = rows, .epsilon = 1e-2});
    default: return leaky_relu(hard_swish(x), {.slope = 0.2});
  }
}

constexpr Index kMapForms = 7, kIntegerMapForms = 3;

// x after a formula of it, of means of it that are repeated along some dims, or of both.
Tensor in_map(const Layer& layer, const Tensor& x) {
  const Dim rows = x.shape()[2], cols = x.shape()[3];
  switch (layer.form) {
    case 0: return map("t0 * tanh(softplus(t0))", {x});
    case 1: return map("t1 * sigmoid(t0 / 8) + 0.5", {sum(x, {rows, cols}), x});
    case 2: return (x - mean(x, {cols})) / sqrt(1.0 + mean(x * x, {x.shape()[0], rows})) * 0.5 + x;
    case 3: return max(min(x, 0.7), mean(x, {rows, cols}));
    case 4: return pow(abs(x) + 0.1, 1.5) - 0.2 * x;
    case 5: return map("select(t0 * t1 > 0.1, exp(-t0 * t0), log1p(t1 * t1) - erf(t0))", {x, mean(x, {rows})});
    default: {  // so many operands that the gradient is two maps
      std::string sum = "t0";
      std::vector<Tensor> all{x};
      for (int k = 1; k < kMostOperands; k++) {
        sum += " + t" + std::to_string(k);
        all.push_back(k % 5 == 0 ? mean(x, {k % 2 == 0 ? rows : cols}) : x);
      }
      return map("tanh((" + sum + ") / 9)", all);
    }
  }
}
// Of small integers.
Tensor in_integer_map(const Layer& layer, const Tensor& x) {
  switch (layer.form) {
    case 0: return map("2 * t0 - abs(t0 - 3)", {x});
    case 1: return max(x, 3.0 - x);
    default: return map("select(t0 < 2, t1 - 1, min(t0, 5))", {x, -x});
  }
}

Tensor add_layer(Network& net, const Layer& layer, const Tensor& x) {
  if (layer.kind == Layer::Kind::map) return layer.bias ? in_integer_map(layer, x) : in_map(layer, x);
  if (layer.kind == Layer::Kind::norm) {
    const Tensor y = in_norm(layer, x);
    if (y.shape().rank() == x.shape().rank()) return y;
    const Tensor back = reshape(y, {.in = {y.shape()[1]},
                                    .out = {{"f" + y.shape()[1].name, x.shape()[1].size},
                                            {"rows" + y.shape()[1].name, x.shape()[2].size},
                                            {"cols" + y.shape()[1].name, x.shape()[3].size}}});
    net.dims.push_back(back.shape()[1]);
    return back;
  }
  if (layer.kind == Layer::Kind::product) return in_products(net, layer, x);
  if (layer.kind == Layer::Kind::attention) return in_attention(net, layer, x);
  if (layer.kind == Layer::Kind::upsample && layer.form == 2) return in_transposed(net, layer, x);
  if (layer.kind == Layer::Kind::upsample)
    return upsample2d(
        x, {.scale = std::max<Index>(1, layer.inner), .mode = layer.form == 0 ? Upsampling::nearest : Upsampling::bilinear});
  if (layer.kind == Layer::Kind::shape) {
    const Tensor y = in_form(net, layer, x);
    if (y.shape()[1].name != x.shape()[1].name) net.dims.push_back(y.shape()[1]);
    return y;
  }
  const bool pool = layer.kind == Layer::Kind::max_pool || layer.kind == Layer::Kind::avg_pool;
  const Sliding rows = fitted(layer.rows, x.shape()[2].size, pool), cols = fitted(layer.cols, x.shape()[3].size, pool);
  if (layer.kind == Layer::Kind::max_pool || layer.kind == Layer::Kind::avg_pool) {
    const Pool2dOptions options{
        .window = {rows.window, cols.window}, .stride = {rows.stride, cols.stride}, .padding = padding_of(layer, rows, cols)};
    return layer.kind == Layer::Kind::max_pool ? max_pool2d(x, options) : avg_pool2d(x, options);
  }
  const Index groups = shared_groups(layer, x);
  const Dim f{"f" + std::to_string(layer.id), (layer.filters + groups - 1) / groups * groups};
  net.dims.push_back(f);
  Tensor h = conv2d(x, {.out = f,
                        .window = {rows.window, cols.window},
                        .stride = {rows.stride, cols.stride},
                        .dilation = {rows.dilation, cols.dilation},
                        .padding = padding_of(layer, rows, cols),
                        .groups = groups,
                        .bias = layer.bias});
  h = activated(layer.activation, h);
  if (layer.kind == Layer::Kind::conv) return h;
  const Dim g{"g" + std::to_string(layer.id), layer.inner};
  net.dims.push_back(g);
  return activated(layer.activation, with_branches(layer, h, f, g));
}

}  // namespace

Recipe random_recipe(Random& random) {
  Recipe r;
  r.batch = pick(random, 2, 5);
  r.in = pick(random, 1, 3);
  r.rows = pick(random, 7, 12);
  r.cols = pick(random, 7, 10);
  const Index convolutions = pick(random, 1, 3);
  for (Index i = 0; i < convolutions; i++) {
    Layer conv;
    conv.id = i;
    conv.kind = chance(random, 0.35) ? Layer::Kind::residual : Layer::Kind::conv;
    conv.filters = pick(random, 3, 7);
    conv.inner = pick(random, 2, 6);
    conv.rows = any_sliding(random, false);
    conv.cols = any_sliding(random, false);
    conv.same = chance(random, 0.4);
    conv.bias = chance(random, 0.7);
    conv.activation = any_activation(random);
    r.layers.push_back(conv);
    if (chance(random, 0.35)) {
      Layer shape;
      shape.kind = Layer::Kind::shape;
      shape.id = i;
      shape.inner = pick(random, 0, 5);
      shape.form = pick(random, 0, 8);
      shape.activation = any_activation(random);
      r.layers.push_back(shape);
    }
    if (!chance(random, 0.5)) continue;
    Layer pool;
    pool.kind = chance(random, 0.5) ? Layer::Kind::max_pool : Layer::Kind::avg_pool;
    pool.rows = any_sliding(random, true);
    pool.cols = any_sliding(random, true);
    pool.same = chance(random, 0.3);
    r.layers.push_back(pool);
  }
  r.head = static_cast<Recipe::Head>(std::max<Index>(0, pick(random, -1, 2)));
  r.hidden = chance(random, 0.7) ? pick(random, 3, 8) : 0;
  r.classes = pick(random, 2, 5);
  return r;
}

Recipe random_integer_recipe(Random& random) {
  Recipe r = random_recipe(random);
  r.integers = true;
  r.batch = std::min<Index>(r.batch, 4);
  r.rows = pick(random, 5, 9);
  r.cols = pick(random, 5, 8);
  r.hidden = 0;
  r.classes = pick(random, 2, 9);
  if (r.head == Recipe::Head::global_pool) r.head = Recipe::Head::dense;
  std::size_t convolutions = 0;
  std::erase_if(r.layers, [&](const Layer& l) {
    return (l.kind == Layer::Kind::conv || l.kind == Layer::Kind::residual) && ++convolutions > 2;
  });
  for (Layer& l : r.layers) {
    if (l.kind == Layer::Kind::avg_pool) l.kind = Layer::Kind::max_pool;
    if (l.kind == Layer::Kind::residual) l.kind = Layer::Kind::conv;
    l.filters = pick(random, 3, 19);
    l.rows.window = std::min<Index>(l.rows.window, 3);
    l.activation = chance(random, 0.5) ? "relu" : "";
  }
  return r;
}

Recipe with_groups(Recipe r, Random& random) {
  r.in = pick(random, 1, 8);
  for (Layer& l : r.layers) {
    if (l.kind != Layer::Kind::conv && l.kind != Layer::Kind::residual) continue;
    l.groups = chance(random, 0.4) ? 100 : pick(random, 2, 4);
    l.filters = pick(random, 3, 12);
  }
  return r;
}

Recipe with_products(Recipe r, Random& random) {
  Layer product;
  product.kind = Layer::Kind::product;
  product.inner = pick(random, 2, 6);
  product.form = pick(random, 0, 1);
  product.activation = chance(random, 0.5) ? "tanh" : "";
  r.layers.insert(r.layers.begin() + pick(random, 1, static_cast<Index>(r.layers.size())), product);  // one: rounding grows in each
  return r;
}

Recipe with_norms(Recipe r, Random& random) {
  for (Index i = 0, n = pick(random, 1, 2); i < n; i++) {
    Layer norm;
    norm.kind = Layer::Kind::norm;
    norm.id = 100 + i;
    norm.inner = pick(random, 0, 1);
    norm.form = pick(random, 0, kNormForms - 1);
    r.layers.insert(r.layers.begin() + pick(random, 1, static_cast<Index>(r.layers.size())), norm);
  }
  return r;
}

Recipe with_attention(Recipe r, Random& random) {
  Layer attention;
  attention.kind = Layer::Kind::attention;
  attention.id = 200;
  attention.inner = pick(random, 1, 6);
  attention.form = pick(random, 0, 3);
  attention.bias = chance(random, 0.7);
  attention.activation = chance(random, 0.3) ? "gelu" : "";
  r.layers.insert(r.layers.begin() + pick(random, 1, static_cast<Index>(r.layers.size())), attention);
  return r;
}

Recipe with_upsampling(Recipe r, Random& random) {
  Layer upsample;
  upsample.kind = Layer::Kind::upsample;
  upsample.id = 300;
  upsample.inner = pick(random, 1, 4);
  const Index form = pick(random, 0, 3);
  upsample.form = form >= 2 ? 2 : r.integers ? 0 : form;  // means of integers are none
  upsample.filters = pick(random, 2, 6);
  upsample.rows = any_sliding(random, false);
  upsample.cols = any_sliding(random, false);
  upsample.rows.window = std::min<Index>(upsample.rows.window, 3);
  upsample.same = chance(random, 0.3);
  upsample.bias = chance(random, 0.7);
  upsample.groups = chance(random, 0.5) ? 1 : pick(random, 2, 6);
  upsample.activation = r.integers || chance(random, 0.5) ? "" : any_activation(random);
  r.layers.insert(r.layers.begin() + pick(random, 1, static_cast<Index>(r.layers.size())), upsample);
  return r;
}

Recipe with_maps(Recipe r, Random& random) {
  for (Index i = 0, n = r.integers ? 1 : pick(random, 1, 2); i < n; i++) {
    Layer layer;
    layer.kind = Layer::Kind::map;
    layer.bias = r.integers;
    layer.form = pick(random, 0, (r.integers ? kIntegerMapForms : kMapForms) - 1);
    r.layers.insert(r.layers.begin() + pick(random, 1, static_cast<Index>(r.layers.size())), layer);
  }
  return r;
}

Network build(const Recipe& r) {
  Network net;
  const Dim batch{"batch", r.batch}, rows{"rows", r.rows}, cols{"cols", r.cols};
  net.dims = {batch, rows, cols};
  Tensor h = net.graph->input("image", {batch, {"in", r.in}, rows, cols});
  net.inputs.emplace("image", h);
  for (const Layer& layer : r.layers) h = add_layer(net, layer, h);
  if (r.head == Recipe::Head::global_pool) h = global_avg_pool2d(h);
  if (r.head == Recipe::Head::flatten) h = flatten(h, "flat");
  const Dim classes{"classes", r.classes};
  net.dims.push_back(classes);
  if (r.hidden > 0) {
    const Dim hidden{"hidden", r.hidden};
    net.dims.push_back(hidden);
    h = relu(dense(h, {.out = {hidden}}));
  }
  net.logits = dense(h, {.out = {classes}});
  if (r.integers) {
    net.loss = sum(net.logits);
    return net;
  }
  const Tensor label = net.graph->input("label", {batch}, DType::i32);
  net.inputs.emplace("label", label);
  net.loss = mean(softmax_cross_entropy(net.logits, label, classes));
  return net;
}

Network token_network(Random& random) {
  const Dim batch{"batch", pick(random, 1, 4)}, positions{"positions", pick(random, 1, 7)},
      vocabulary{"vocabulary", pick(random, 2, 12)}, heads{"heads", pick(random, 1, 3)},
      hidden{"hidden", heads.size * pick(random, 1, 3)};
  Network net;
  net.dims = {batch, positions, vocabulary, heads, hidden};
  Graph& g = *net.graph;
  const Tensor tokens = g.input("tokens", {batch, positions}, DType::i32), label = g.input("label", {batch, positions}, DType::i32);
  net.inputs = {{"tokens", tokens}, {"label", label}};
  Tensor h = embedding(tokens, {.rows = vocabulary, .out = hidden, .name = "e"});
  const Tensor place = g.parameter({{"context", positions.size + 2}, hidden}, {.deviation = 0.5});
  h = add(slice(place, {.in = {"context"}, .range = {1, positions.size + 1}, .out = positions}), h);
  if (chance(random, 0.7)) {
    std::optional<Tensor> mask;
    if (chance(random, 0.5)) mask = net.inputs.emplace("mask", g.input("mask", {batch, positions})).first->second;
    h = add(h, attention(h, {.heads = heads, .causal = chance(random, 0.5), .mask = mask}));
  }
  if (chance(random, 0.4)) h = rename(dense(h, {.in = {hidden}, .out = {{"other", hidden.size}}}), {"other"}, hidden);
  net.logits = dense(h, {.in = {hidden}, .out = {vocabulary}, .bias = chance(random, 0.5), .weight = {.layer = "e"}});
  net.loss = mean(softmax_cross_entropy(net.logits, label, vocabulary));
  return net;
}

Network loss_network(Random& random) {
  const Dim batch{"batch", pick(random, 1, 6)}, positions{"positions", pick(random, 1, 5)}, in{"in", pick(random, 1, 4)},
      hidden{"hidden", pick(random, 1, 6)}, classes{"classes", pick(random, 2, 9)};
  Network net;
  net.dims = {batch, positions, hidden, classes};
  Graph& g = *net.graph;
  Tensor h = g.input("image", {batch, positions, in});
  net.inputs.emplace("image", h);
  if (chance(random, 0.5)) h = relu(dense(h, {.in = {in}, .out = {hidden}}));
  net.logits = dense(h, {.in = {h.shape().dims().back()}, .out = {classes}});
  if (chance(random, 0.3)) net.logits = transpose(net.logits, {batch, classes, positions});
  const bool of_classes = chance(random, 0.7);
  const Tensor label = of_classes ? g.input("label", chance(random, 0.3) ? Shape{batch} : Shape{batch, positions}, DType::i32)
                                  : g.input("label", net.logits.shape());
  net.inputs.emplace("label", label);
  if (!of_classes && chance(random, 0.6)) {
    const Index which = pick(random, 0, 2);
    net.loss = which == 0   ? mean_squared_error(net.logits, label)
               : which == 1 ? mean_absolute_error(net.logits, label)
                            : huber(net.logits, label, {.delta = 0.6});
    return net;
  }
  CrossEntropyOptions options;
  if (chance(random, 0.5)) options.label_smoothing = chance(random, 0.2) ? 1 : 0.1 * static_cast<double>(pick(random, 1, 9));
  if (chance(random, 0.6)) options.ignore_index = chance(random, 0.2) ? -100 : pick(random, 0, 1);
  Tensor each = of_classes ? softmax_cross_entropy(net.logits, label, classes, options) : binary_cross_entropy(net.logits, label);
  if (chance(random, 0.3)) each = mean(each, {chance(random, 0.5) ? batch : positions});
  net.loss = mean(each);
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

std::vector<CutRecipe> random_cuts(Random& random, const Network& net, const std::vector<Axis>& axes, const CutOptions& options) {
  std::vector<CutRecipe> cuts;
  std::set<std::string> taken;  // by batch, rows and columns
  auto any_axis = [&]() -> const Axis& {
    return axes[static_cast<std::size_t>(pick(random, 0, static_cast<Index>(axes.size()) - 1))];
  };
  for (const Dim& d : net.dims) {
    const bool meets = d.name == "batch" || d.name == "rows" || d.name == "cols";
    if (!chance(random, d.name == "rows" || d.name == "cols" ? options.spatial : options.often)) continue;
    const Axis &axis = any_axis(), &other = any_axis();
    const bool nested = axis.name != other.name && chance(random, options.nested) && !taken.contains(other.name);
    if (taken.contains(axis.name)) continue;
    CutRecipe cut{d.name, {axis.name}, {}, {}};
    int ranks = axis.size;
    if (nested) {
      cut.axes.push_back(other.name);
      ranks *= other.size;
    } else if (axis.name != other.name && chance(random, options.jagged)) {
      cut.per = other.name;
    }
    for (int k = 0; k < (cut.per.empty() ? 1 : other.size); k++) cut.parts.push_back(parts(random, d.size, ranks));
    if (meets) taken.insert(cut.axes.begin(), cut.axes.end());
    cuts.push_back(std::move(cut));
  }
  return cuts;
}

LayoutRules rules_of(const Case& one, const Network& net) {
  LayoutRules rules;
  for (const CutRecipe& cut : one.cuts) {
    const auto dim = std::find_if(net.dims.begin(), net.dims.end(), [&](const Dim& d) { return d.name == cut.dim; });
    if (dim == net.dims.end()) continue;
    std::vector<std::vector<Index>> lists = cut.parts;
    for (auto& list : lists) {
      if (std::accumulate(list.begin(), list.end(), Index{0}) == dim->size) continue;
      std::vector<double> shares(list.begin(), list.end());
      if (std::all_of(shares.begin(), shares.end(), [](double s) { return s == 0; })) shares.front() = 1;
      list = Partition::proportional(dim->size, shares).sizes();
    }
    if (cut.per.empty())
      rules.split.push_back({*dim, Axes(cut.axes), Sizes{lists.front()}});
    else
      rules.split.push_back({*dim, Axes(cut.axes), Jagged{lists, cut.per}});
  }
  return rules;
}

std::string to_text(const Case& one) {
  std::ostringstream text;
  const Recipe& r = one.net;
  text << "image " << r.batch << "x" << r.in << "x" << r.rows << "x" << r.cols;
  static const char* kinds[] = {"conv",    "max_pool", "avg_pool",  "residual", "shape",
                                "product", "norm",     "attention", "upsample", "map"};
  for (const Layer& l : r.layers) {
    text << "; " << kinds[static_cast<std::size_t>(l.kind)];
    if (l.kind == Layer::Kind::conv || l.kind == Layer::Kind::residual)
      text << " f" << l.id << "=" << l.filters << (l.bias ? " bias" : "");
    if (l.groups > 1) text << " groups " << l.groups;
    if (l.kind == Layer::Kind::residual) text << " g" << l.id << "=" << l.inner;
    if (l.kind == Layer::Kind::shape || l.kind == Layer::Kind::product || l.kind == Layer::Kind::attention ||
        l.kind == Layer::Kind::upsample || l.kind == Layer::Kind::map) {
      text << " " << l.form << " at " << l.inner << " " << l.activation;
      if (l.kind != Layer::Kind::upsample || l.form != 2) continue;
      text << " t" << l.id << "=" << l.filters << (l.bias ? " bias" : "");
    }
    for (const Sliding* s : {&l.rows, &l.cols}) {
      text << (s == &l.rows ? " rows " : " cols ") << s->window << "/" << s->stride;
      if (s->dilation > 1) text << " dilation " << s->dilation;
      if (!l.same && s->before + s->after > 0) text << " padding " << s->before << "," << s->after;
    }
    text << (l.same ? " same" : "");
    if (!l.activation.empty()) text << " " << l.activation;
  }
  static const char* heads[] = {"dense", "flatten", "global_pool"};
  text << "; " << heads[static_cast<std::size_t>(r.head)] << " hidden=" << r.hidden << " classes=" << r.classes
       << (r.integers ? "; integers" : "") << " | mesh";
  for (const Axis& a : one.axes) text << " " << a.name << "=" << a.size;
  for (const CutRecipe& cut : one.cuts) {
    text << " | " << cut.dim << " over";
    for (const std::string& a : cut.axes) text << " " << a;
    if (!cut.per.empty()) text << " per " << cut.per;
    for (const auto& list : cut.parts)
      for (std::size_t i = 0; i < list.size(); i++) text << (i == 0 ? " [" : " ") << list[i] << (i + 1 == list.size() ? "]" : "");
  }
  if (one.picks != 0) text << " | picks " << one.picks;
  if (one.hosts > 1) text << " | hosts " << one.hosts;
  if (one.schedules != 0) text << " | schedules " << one.schedules;
  return text.str();
}

Mesh mesh_of(const std::vector<Axis>& axes, int hosts) {
  int ranks = 1;
  for (const Axis& a : axes) ranks *= a.size;
  std::vector<Device> devices(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < devices.size() && hosts > 1; r++)
    devices[r].host = "host " + std::to_string(r % static_cast<std::size_t>(hosts));
  return Mesh(axes, std::move(devices));
}

}  // namespace motley::law
