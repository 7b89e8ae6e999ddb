// SPDX-License-Identifier: Apache-2.0
// attention: per head y[i] = sum over j of softmax over j of (q[i] k[j] / sqrt(head size)) times v[j], for i and j along one dim;
// q, k, v and the output are dense layers of x (Vaswani et al., arXiv 1706.03762, 3.2). Heads and positions i can be cut as any
// dim; j has a separate index, which is not cut: a rule for the positions cuts the queries, and every rank receives all keys. A
// mask is read at the positions j. No scores are stored (Dao et al., arXiv 2205.14135): forward keeps their log-sum-exp, from which
// the gradients compute the weights again.
#include <algorithm>
#include <cmath>

#include "graph/compiled.h"
#include "graph/layer_kind.h"
#include "graph/nodes.h"
#include "graph/ops/shapes.h"
#include "kernels/operands.h"

namespace motley {

namespace {

const Compiled kAttentionCompiled({product()});

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
    if (t.expands) copy_pass(to, node, "mask", to.value(node.inputs[1]), t.mask.tensor);
    std::vector<PassOperand> reads{t.query.queries, t.key.keys, t.value.keys};
    if (t.mask.tensor >= 0) reads.push_back(t.mask);
    attend(to, node, t, "heads", PassKind::forward, reads, t.joined, kMakesOutput);
    if (to.trains()) attend(to, node, t, "lse", PassKind::forward, reads, t.lse, kMakesLogSum);
    contract(to, node, t, "forward", PassKind::forward, t.joined, t.out_weight, t.y);
    if (bias_) copy_pass(to, node, "bias", t.out_bias, t.y.tensor);
  }

  void backward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    const auto gradient_of = [&](const PassOperand& o) { return PassOperand{to.gradient(o.tensor), o.indices}; };
    const PassOperand dy = gradient_of(t.y), joined = gradient_of(t.joined);
    contract(to, node, t, "backward_data heads", PassKind::backward_data, dy, t.out_weight, joined);
    const PassOperand dot{to.inner(node, "dot", to.tensor(t.lse.tensor).shape), t.lse.indices};
    map_pass(to, node, "dot", {t.joined.tensor, joined.tensor}, dot.tensor, product());
    std::vector<PassOperand> reads{t.query.queries, t.key.keys, t.value.keys, joined, t.lse, dot};
    if (t.mask.tensor >= 0) reads.push_back(t.mask);
    const auto gradient = [&](const Projection& p, const PassOperand& into, Index made) {
      attend(to, node, t, "backward_data " + p.name, PassKind::backward_data, reads, gradient_of(into), made);
    };
    gradient(t.query, t.query.queries, kMakesQuery);
    gradient(t.key, t.key.keys, kMakesKey);
    gradient(t.value, t.value.keys, kMakesValue);
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
    PassOperand weight{}, queries{}, keys{};  // keys: what the projection makes, read at the positions i and j
    int bias = -1;
  };
  struct Parts {
    std::vector<PassIndex> indices{};  // batch.., heads, positions i, positions j, head, features
    int queries = -1;                  // number of the index of positions i; positions j and head come next
    Projection query{"query"}, key{"key"}, value{"value"};
    PassOperand x{}, lse{}, joined{}, out_weight{}, y{}, mask{};  // mask without a tensor: there is none
    bool expands = false;                                         // the mask lacks dims of the batch, or has them in another order
    int out_bias = -1;
  };

  Parts parts(Lowering& to, const Node& node) const {
    Parts t;
    const int x = to.value(node.inputs[0]);
    const Shape shape = to.tensor(x).shape;
    const Dim features = shape.dims().back(), positions = shape[shape.position(over_)];
    std::vector<Dim> rows;  // one softmax for each
    for (const Dim& d : shape.dims())
      if (d.name != over_ && d.name != features.name) rows.push_back(d);
    std::vector<Dim> masked = rows;
    masked.push_back(positions);
    rows.insert(rows.end(), {heads_, positions});
    std::vector<Dim> each(rows.begin(), rows.end() - 2), all = rows;
    each.insert(each.end(), {positions, heads_, head_});  // as the products make and read them: no copies between
    all.insert(all.end(), {head_, features});
    t.indices = indices_of(Shape(all));
    t.indices.insert(t.indices.end() - 2, {"keys of " + over_, positions.size});  // not a dim of any tensor
    t.queries = static_cast<int>(rows.size()) - 1;
    const auto here = [&](int tensor) { return PassOperand{tensor, indices_in(t.indices, to.tensor(tensor).shape)}; };
    const auto at_keys = [&](PassOperand o) {
      std::replace(o.indices.begin(), o.indices.end(), t.queries, t.queries + 1);
      return o;
    };
    t.x = here(x);
    t.y = here(to.value(node));
    for (Projection* p : {&t.query, &t.key, &t.value}) {
      p->weight = here(to.parameter(node, p->name + ".weight", Shape({heads_, head_, features}), Initial::weight, Decays::yes));
      if (bias_) p->bias = to.parameter(node, p->name + ".bias", Shape({heads_, head_}), Initial::bias, Decays::no);
      p->queries = here(to.inner(node, p->name, Shape(each)));
      p->keys = at_keys(p->queries);
    }
    if (node.inputs.size() > 1) {
      const int mask = to.value(node.inputs[1]);
      t.expands = to.tensor(mask).shape != Shape(masked);
      t.mask = at_keys(here(t.expands ? to.inner(node, "mask", Shape(masked)) : mask));
    }
    if (to.trains()) t.lse = here(to.inner(node, "lse", Shape(rows)));
    t.joined = here(to.inner(node, "heads", Shape(each)));
    t.out_weight = here(to.parameter(node, "out.weight", Shape({features, heads_, head_}), Initial::weight, Decays::yes));
    if (bias_) t.out_bias = to.parameter(node, "out.bias", Shape({features}), Initial::bias, Decays::no);
    return t;
  }

  void attend(Lowering& to, const Node& node, const Parts& t, const std::string& what, PassKind kind,
              const std::vector<PassOperand>& reads, const PassOperand& writes, Index made) const {
    Pass& p = to.pass(node, what, KernelOp::attention, kind);
    p.indices.assign(t.indices.begin(), t.indices.end() - 1);
    p.reads = reads;
    p.writes = writes;
    p.roles = {t.queries, t.queries + 1, t.queries + 2};
    p.whole = {t.queries + 1, t.queries + 2};
    p.scale = 1 / std::sqrt(static_cast<double>(head_.size));
    p.causal = causal_;
    p.made = made;
  }

  // A product over those of the named indices that these operands have.
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
  if (over.name == GraphNodes::samples_of(x).name)
    throw UserError("attention is over positions; \"" + over.name + "\" counts the samples: name another dim with `over`");
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
                      "\" marks the positions that are attended to: expected dims of \"" + x.name() + "\", \"" + over.name +
                      "\" among them, not \"" + features.name + "\"");
    if (GraphNodes::node(*o.mask).op != nullptr)
      throw UserError("attention: a mask must be an input; \"" + o.mask->name() + "\" is computed");
    reads.push_back(*o.mask);
  }
  auto graph = GraphNodes::graph_of(reads);
  for (const Dim& d : {o.heads, head}) graph->declare(d);
  return graph->add("attention", o.name, std::make_shared<Attention>(o.heads, head, over.name, o.causal, o.bias), reads, shape);
}

static const LayerKind kAttentionKind("attention", 1,
                                      {{"heads", "a dim and how many heads there are, as { \"heads\": 8 }", LayerKey::Kind::dim},
                                       {"over", "the positions' dim; default: its input's last but one", LayerKey::Kind::names},
                                       {"causal", "whether a position attends only to itself and earlier positions",
                                        LayerKey::Kind::flag, 0},
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
