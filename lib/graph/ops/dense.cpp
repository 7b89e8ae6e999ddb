// SPDX-License-Identifier: Apache-2.0
// dense: x[kept.., in..], w[out.., in..] -> y[kept.., out..]; reduced: in.
#include <algorithm>

#include "graph/nodes.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

class Dense final : public Op {
 public:
  Dense(std::vector<std::string> in, std::vector<Dim> out, WeightOptions weight, bool bias)
      : in_(std::move(in)), out_(std::move(out)), weight_(std::move(weight)), bias_(bias) {}
  bool has_parameters() const override { return true; }
  const WeightOptions* weight() const override { return &weight_; }

  void forward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    Pass& p = pass(to, node, t, "forward", PassKind::forward);
    p.reads = {{t.x, t.x_at}, {t.w, t.w_at}};
    p.writes = {t.y, t.y_at};
    if (bias_) copy_pass(to, node, "bias", to.parameter(node, "bias", Shape(out_), Initial::bias, Decays::no), t.y);
  }

  void backward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    const int dy = to.gradient(t.y), dw = to.gradient(t.w);
    if (to.wants_gradient(t.x)) {  // first: earlier layers wait for it
      const int dx = to.gradient(t.x);
      Pass& data = pass(to, node, t, "backward_data", PassKind::backward_data);
      data.reads = {{dy, t.y_at}, {t.w, t.w_at}};
      data.writes = {dx, t.x_at};
    }
    Pass& filter = pass(to, node, t, "backward_filter", PassKind::backward_filter);
    filter.reads = {{t.x, t.x_at}, {dy, t.y_at}};
    filter.writes = {dw, t.w_at};
    if (bias_)
      copy_pass(to, node, "backward_bias", dy, to.gradient(to.parameter(node, "bias", Shape(out_), Initial::bias, Decays::no)));
  }

 private:
  struct Parts {
    std::vector<PassIndex> indices{};
    int x = -1, w = -1, y = -1;
    std::vector<int> x_at{}, w_at{}, y_at{};
  };

  Parts parts(Lowering& to, const Node& node) const {
    Parts t;
    t.x = to.value(node.inputs[0]);
    t.y = to.value(node);
    const Shape x = to.tensor(t.x).shape;
    std::vector<Dim> w = out_, kept;
    for (const Dim& d : x.dims()) (std::find(in_.begin(), in_.end(), d.name) == in_.end() ? kept : w).push_back(d);
    t.indices = indices_of(Shape(kept));
    for (std::size_t i = out_.size(); i < w.size(); i++) t.indices.push_back({w[i].name, w[i].size});
    for (const Dim& d : out_) t.indices.push_back({d.name, d.size});
    t.w = to.weight(node, weight_, Shape(w));
    t.x_at = indices_in(t.indices, x);
    t.w_at = indices_in(t.indices, Shape(w));
    t.y_at = indices_in(t.indices, node.shape);
    return t;
  }
  static Pass& pass(Lowering& to, const Node& node, const Parts& t, const std::string& what, PassKind kind) {
    Pass& p = to.pass(node, what, KernelOp::dense, kind);
    p.indices = t.indices;
    return p;
  }

  std::vector<std::string> in_;
  std::vector<Dim> out_;
  WeightOptions weight_;
  bool bias_;
};

}  // namespace

Tensor dense(const Tensor& x, const DenseOptions& o) {
  auto graph = GraphNodes::graph_of({x});
  std::vector<std::string> in;
  if (!o.in.empty() && !o.keep.empty()) throw UserError("dense takes `in` or `keep`, not both");
  if (o.out.empty()) throw UserError("dense needs `out`: the dims it makes");
  check_dims("dense", x, o.keep, "keep");
  check_dims("dense", x, o.in, "in");
  for (std::size_t i = 0; i < x.shape().rank(); i++) {
    const std::string& name = x.shape()[i].name;
    auto is = [&](const Dim& d) { return d.name == name; };
    const bool kept = !o.keep.empty() ? std::any_of(o.keep.begin(), o.keep.end(), is)
                      : !o.in.empty() ? std::none_of(o.in.begin(), o.in.end(), is)
                                      : i == 0;
    if (!kept) in.push_back(name);
  }
  const WeightOptions weight = graph->weight_of(o.weight);
  if (in.empty()) throw UserError("dense has nothing to contract in \"" + x.name() + "\"");
  if (in.size() == x.shape().rank()) throw UserError("dense keeps no dim of \"" + x.name() + "\"; keep the batch at least");
  for (const Dim& d : o.out)
    if (x.shape().has(d.name)) throw UserError("`out` may not be a dim that the input has: \"" + d.name + "\"");
  graph->declare(o.out);
  std::vector<Dim> dims;
  for (const Dim& d : x.shape().dims()) {
    if (d.name == in.front()) dims.insert(dims.end(), o.out.begin(), o.out.end());
    if (std::find(in.begin(), in.end(), d.name) == in.end()) dims.push_back(d);
  }
  return graph->add("dense", o.name, std::make_shared<Dense>(in, o.out, weight, o.bias), {x}, Shape(dims));
}

}  // namespace motley
