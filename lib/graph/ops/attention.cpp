// SPDX-License-Identifier: Apache-2.0
// attention: per head y[i] = sum over j of softmax over j of (q[i] k[j] / sqrt(head size)) times v[j], for i and j along one dim;
// q, k, v and the output are dense layers of x (Vaswani et al., arXiv 1706.03762, 3.2). Heads and positions i are cut as any dim; j
// has a dim of its own, "key-<positions>", so that a rule for the positions cuts the queries and all keys come to each. Of a mask
// the values at j are read.
#include <algorithm>
#include <cmath>

#include "graph/compiled.h"
#include "graph/layer_kind.h"
#include "graph/nodes.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

// What a score (operand 0) counts as: scaled; of a position after the query's or one that the mask leaves out, so little that its
// exponential is 0.
struct Scores {
  double scale = 1;
  int query = -1, key = -1;  // indices of the positions, where causal
  int mask = 0;              // which operand; 0: there is none
  Value value() const {
    Value out = operand(0) * scale;
    if (mask > 0) out = select(0.0 < operand(mask), out, -0x1p100);
    return query < 0 ? out : select(precedes(position(query), position(key)), -0x1p100, out);
  }
  // As the operand after `others` ones.
  Scores masked_after(int others) const { return {scale, query, key, mask > 0 ? others : 0}; }
};
Formula scaled(const Scores& s) {  // scores, mask
  return formula({s.masked_after(1).value()});
}
Formula exponential(const Scores& s) {  // scores max, mask
  return formula({exp(s.masked_after(2).value() - operand(1))});
}
Formula softmax_of(const Scores& s) {  // scores max sum, mask
  const Value weight = exp(s.masked_after(3).value() - operand(1)) / operand(2);
  return formula({s.mask > 0 ? select(operand(1) <= -0x1p100, 0.0, weight) : weight});  // 0 where no key is left
}
Formula product() {  // gradient of the weights, weights
  return formula({operand(0) * operand(1)});
}
Formula softmax_gradient(double scale) {  // weights, their gradient, sum
  return formula({operand(0) * (operand(1) - operand(2)) * scale});
}
constexpr Scores kAll{0.125}, kCausal{0.125, 2, 3}, kMasked{0.125, -1, -1, 1};
const Compiled kCompiled({scaled(kAll), product(), exponential(kAll), softmax_of(kAll), scaled(kCausal), exponential(kCausal),
                          softmax_of(kCausal), softmax_gradient(0.125), scaled(kMasked), exponential(kMasked),
                          softmax_of(kMasked)});

class Attention final : public Op {
 public:
  Attention(Dim heads, Dim head, std::string over, bool causal, bool bias)
      : heads_(std::move(heads)), head_(std::move(head)), over_(std::move(over)), causal_(causal), bias_(bias) {}
  bool has_parameters() const override { return true; }

  void forward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    for (const Projection* p : {&t.query, &t.key, &t.value}) {
      contract(to, node, t, p->name, PassKind::forward, t.x, p->weight, p->queries);
      if (bias_) copy_pass(to, node, p->name + " bias", p->bias, p->queries.tensor);
    }
    contract(to, node, t, "scores", PassKind::forward, t.query.queries, t.key.keys, t.scores);
    const int scores = t.scores.tensor, weights = t.weights.tensor;
    const int query = causal_ ? static_cast<int>(to.tensor(scores).shape.position(over_)) : -1, key = causal_ ? query + 1 : -1;
    const Scores values{t.scale, query, key, t.mask >= 0 ? 1 : 0};
    std::vector<int> reads{scores};
    const auto with_mask = [&](Pass& p) -> Pass& {  // its positions are those of the keys
      if (t.mask < 0) return p;
      PassOperand mask{t.mask, {}};
      for (const Dim& d : to.tensor(t.mask).shape.dims())
        for (std::size_t i = 0; i < p.indices.size(); i++)
          if (p.indices[i].name == (d.name == over_ ? "key-" + over_ : d.name)) mask.indices.push_back(static_cast<int>(i));
      p.reads.push_back(mask);
      return p;
    };
    with_mask(map_pass(to, node, "max", {scores}, t.max, scaled(values))).combine = Combine::max;
    with_mask(map_pass(to, node, "sum", {scores, t.max}, t.sum, exponential(values)));
    with_mask(map_pass(to, node, "weights", {scores, t.max, t.sum}, weights, softmax_of(values)));
    contract(to, node, t, "heads", PassKind::forward, t.weights, t.value.keys, t.joined);
    contract(to, node, t, "forward", PassKind::forward, t.joined, t.out_weight, t.y);
    if (bias_) copy_pass(to, node, "bias", t.out_bias, t.y.tensor);
  }

  void backward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    const auto gradient_of = [&](const PassOperand& o) { return PassOperand{to.gradient(o.tensor), o.indices}; };
    const PassOperand dy = gradient_of(t.y), joined = gradient_of(t.joined), weights = gradient_of(t.weights),
                      scores = gradient_of(t.scores);
    contract(to, node, t, "backward_data heads", PassKind::backward_data, dy, t.out_weight, joined);
    contract(to, node, t, "backward_data weights", PassKind::backward_data, joined, t.value.keys, weights);
    const int sum = to.inner(node, "sum_g", to.tensor(t.sum).shape);
    map_pass(to, node, "sum_g", {weights.tensor, t.weights.tensor}, sum, product());
    map_pass(to, node, "backward_data scores", {t.weights.tensor, weights.tensor, sum}, scores.tensor, softmax_gradient(t.scale));
    contract(to, node, t, "backward_data query", PassKind::backward_data, scores, t.key.keys, gradient_of(t.query.queries));
    contract(to, node, t, "backward_data key", PassKind::backward_filter, t.query.queries, scores, gradient_of(t.key.keys));
    contract(to, node, t, "backward_data value", PassKind::backward_filter, t.weights, joined, gradient_of(t.value.keys));
    for (const Projection* p : {&t.query, &t.key, &t.value}) {
      const PassOperand from = gradient_of(p->queries);
      if (to.wants_gradient(t.x.tensor))
        contract(to, node, t, "backward_data of " + p->name, PassKind::backward_data, from, p->weight, gradient_of(t.x));
      contract(to, node, t, "backward_filter of " + p->name, PassKind::backward_filter, t.x, from, gradient_of(p->weight));
      if (bias_) copy_pass(to, node, "backward_bias of " + p->name, from.tensor, to.gradient(p->bias));
    }
    contract(to, node, t, "backward_filter", PassKind::backward_filter, t.joined, dy, gradient_of(t.out_weight));
    if (bias_) copy_pass(to, node, "backward_bias", dy.tensor, to.gradient(t.out_bias));
  }

 private:
  struct Projection {
    std::string name{};
    PassOperand weight{}, queries{}, keys{};  // what it makes, read at the positions i and j
    int bias = -1;
  };
  struct Parts {
    double scale = 1;
    std::vector<PassIndex> indices{};  // batch.., heads, positions i, positions j, head, features
    Projection query{"query"}, key{"key"}, value{"value"};
    PassOperand x{}, scores{}, weights{}, joined{}, out_weight{}, y{};
    int max = -1, sum = -1, out_bias = -1, mask = -1;  // mask: -1: none
  };

  Parts parts(Lowering& to, const Node& node) const {
    Parts t;
    const int x = to.value(node.inputs[0]);
    if (node.inputs.size() > 1) t.mask = to.value(node.inputs[1]);
    const Shape shape = to.tensor(x).shape;
    const Dim features = shape.dims().back(), positions = shape[shape.position(over_)], keys{"key-" + over_, positions.size};
    std::vector<Dim> rows;  // one softmax each
    for (const Dim& d : shape.dims())
      if (d.name != over_ && d.name != features.name) rows.push_back(d);
    rows.insert(rows.end(), {heads_, positions});
    std::vector<Dim> scores = rows, each = rows;
    scores.push_back(keys);
    each.push_back(head_);
    std::vector<Dim> all = scores;
    all.insert(all.end(), {head_, features});
    t.scale = 1 / std::sqrt(static_cast<double>(head_.size));
    t.indices = indices_of(Shape(all));
    const auto here = [&](int tensor) { return PassOperand{tensor, indices_in(t.indices, to.tensor(tensor).shape)}; };
    t.x = here(x);
    t.y = here(to.value(node));
    for (Projection* p : {&t.query, &t.key, &t.value}) {
      p->weight = here(to.parameter(node, p->name + ".weight", Shape({heads_, head_, features}), Initial::weight, Decays::yes));
      if (bias_) p->bias = to.parameter(node, p->name + ".bias", Shape({heads_, head_}), Initial::bias, Decays::no);
      p->keys = p->queries = here(to.inner(node, p->name, Shape(each)));
      p->keys.indices.at(rows.size() - 1) = static_cast<int>(rows.size());
    }
    t.scores = here(to.inner(node, "scores", Shape(scores)));
    t.weights = here(to.inner(node, "weights", Shape(scores)));
    t.max = to.inner(node, "max", Shape(rows));
    t.sum = to.inner(node, "sum", Shape(rows));
    t.joined = here(to.inner(node, "heads", Shape(each)));
    t.out_weight = here(to.parameter(node, "out.weight", Shape({features, heads_, head_}), Initial::weight, Decays::yes));
    if (bias_) t.out_bias = to.parameter(node, "out.bias", Shape({features}), Initial::bias, Decays::no);
    return t;
  }

  // A product over the indices that these have, of all that are named.
  static void contract(Lowering& to, const Node& node, const Parts& t, const std::string& what, PassKind kind, const PassOperand& a,
                       const PassOperand& b, const PassOperand& y) {
    Pass& p = to.pass(node, what, KernelOp::dense, kind);
    std::vector<int> place(t.indices.size(), -1);
    const auto placed = [&](PassOperand o) {
      for (int& i : o.indices) {
        if (at(place, i) < 0) {
          at(place, i) = static_cast<int>(p.indices.size());
          p.indices.push_back(at(t.indices, i));
        }
        i = at(place, i);
      }
      return o;
    };
    p.reads = {placed(a), placed(b)};
    p.writes = placed(y);
  }

  Dim heads_, head_;
  std::string over_;
  bool causal_, bias_;
};

}  // namespace

Tensor attention(const Tensor& x, const AttentionOptions& o) {
  floats_only("attention", x);
  const Shape& shape = x.shape();
  if (shape.rank() < 3)
    throw UserError("attention reads a batch, positions and features; \"" + x.name() + "\" has " + std::to_string(shape.rank()) +
                    " dims");
  const Dim features = shape.dims().back();
  const Dim over = o.over.name.empty() ? shape[shape.rank() - 2] : dim_of("attention", x, o.over.name, "over");
  if (over.name == features.name)
    throw UserError("attention is over positions; \"" + over.name + "\" holds the features, the last dim of \"" + x.name() + "\"");
  if (over.name == shape[0].name) throw UserError("attention is over positions; \"" + over.name + "\" counts the samples");
  if (o.heads.name.empty() || o.heads.size < 1) throw UserError("attention needs `heads`: a dim and how many there are");
  if (shape.has(o.heads.name)) throw UserError("attention: `heads` may not be a dim that the input has: \"" + o.heads.name + "\"");
  if (features.size % o.heads.size != 0)
    throw UserError("attention: " + std::to_string(o.heads.size) + " heads do not divide the " + std::to_string(features.size) +
                    " features of \"" + x.name() + "\"");
  const Dim head{"head-" + o.heads.name, features.size / o.heads.size};
  std::vector<Tensor> reads{x};
  if (o.mask) {
    const Shape& mask = o.mask->shape();
    const bool fits = mask.rank() > 0 && mask.has(over.name) && !mask.has(features.name) &&
                      std::all_of(mask.dims().begin(), mask.dims().end(),
                                  [&](const Dim& d) { return shape.has(d.name) && shape.size_of(d.name) == d.size; });
    floats_only("attention's mask", *o.mask);
    if (!fits)
      throw UserError("attention: the mask \"" + o.mask->name() +
                      "\" says for each position whether it is there: expected dims of \"" + x.name() + "\", \"" + over.name +
                      "\" among them, not \"" + features.name + "\"");
    if (GraphNodes::node(*o.mask).op != nullptr)
      throw UserError("attention: a mask is an input; \"" + o.mask->name() + "\" is computed");
    reads.push_back(*o.mask);
  }
  auto graph = GraphNodes::graph_of(reads);
  for (const Dim& d : {o.heads, head, Dim{"key-" + over.name, over.size}}) graph->declare(d);
  return graph->add("attention", o.name, std::make_shared<Attention>(o.heads, head, over.name, o.causal, o.bias), reads, shape);
}

static const LayerKind kKind("attention", 1,
                             {{"heads", "a dim and how many heads there are, as { \"heads\": 8 }", LayerKey::Kind::dim},
                              {"over", "the positions' dim; default: its input's last but one", LayerKey::Kind::names},
                              {"causal", "whether a position attends to those up to itself alone", LayerKey::Kind::flag, 0},
                              {"bias", "whether query, key, value and output add a bias", LayerKey::Kind::flag, 1}},
                             [](const LayerArguments& l) {
                               const std::vector<std::string>& over = l.names.at("over");
                               if (over.size() > 1)
                                 throw UserError("attention is over one dim; `over` names " + std::to_string(over.size()));
                               return attention(l.in(), {.heads = l.dims.at("heads").front(),
                                                         .over = over.empty() ? Dim{} : Dim{over.front(), 0},
                                                         .causal = l.numbers.at("causal") != 0,
                                                         .bias = l.numbers.at("bias") != 0,
                                                         .mask = l.x.size() > 1 ? std::optional(l.x[1]) : std::nullopt,
                                                         .name = l.name});
                             },
                             {.optional = "a mask, above 0 where a position is attended to"});

}  // namespace motley
