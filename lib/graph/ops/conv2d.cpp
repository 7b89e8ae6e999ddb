// SPDX-License-Identifier: Apache-2.0
// conv2d: x[n c h w], w[f c r s] -> y[n f p q]; reduced c r s; windows h~r->p, w~s->q. By groups: x[n c h w], w[f i r s] -> y[n f p
// q], i the channel in its group; a third window c~i->f, whose stride and extent are a group's channels, shared by its filters.
#include "graph/ops/windows.h"

namespace motley {

namespace {

class Conv2d final : public Op {
 public:
  Conv2d(std::string in, Dim out, std::array<Slide, 2> slides, Index groups, WeightOptions weight, bool bias)
      : in_(std::move(in)),
        out_(std::move(out)),
        slides_(std::move(slides)),
        groups_(groups),
        weight_(std::move(weight)),
        bias_(bias) {}
  bool has_parameters() const override { return true; }

  void forward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    Pass& p = pass(to, node, t, "forward", PassKind::forward);
    p.reads = {{t.x, t.x_at}, {t.w, t.w_at}};
    p.writes = {t.y, t.y_at};
    if (groups_ > 1) {
      const Index channels = to.tensor(t.x).shape.size_of(in_);
      to.out().derived_dims.push_back({out_.name, in_, out_.size, channels, 0, DerivedDim::Kind::scaled});
    }
    if (bias_) copy_pass(to, node, "bias", to.parameter(node, "bias", Shape{out_}, Initial::bias, Decays::no), t.y);
  }

  void backward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    const int dy = to.gradient(t.y), dw = to.gradient(t.w);
    if (to.wants_gradient(t.x)) {  // first: the layers before this one wait for it
      const int dx = to.gradient(t.x);
      Pass& data = pass(to, node, t, "backward_data", PassKind::backward_data);
      data.reads = {{dy, t.y_at}, {t.w, t.w_at}};
      data.writes = {dx, t.x_at};
    }
    Pass& filter = pass(to, node, t, "backward_filter", PassKind::backward_filter);
    filter.reads = {{t.x, t.x_at}, {dy, t.y_at}};
    filter.writes = {dw, t.w_at};
    if (groups_ > 1) filter.whole = {t.window.roles[1]};  // a part of the channels makes parts of dw that are no box
    if (bias_)
      copy_pass(to, node, "backward_bias", dy, to.gradient(to.parameter(node, "bias", Shape{out_}, Initial::bias, Decays::no)));
  }

 private:
  struct Parts {
    WindowIndices window{};
    int x = -1, w = -1, y = -1;
    std::vector<int> x_at{}, w_at{}, y_at{};
  };

  Parts parts(Lowering& to, const Node& node) const {
    Parts t;
    t.x = to.value(node.inputs[0]);
    t.y = to.value(node);
    const Shape x = to.tensor(t.x).shape;
    Dim n;
    for (const Dim& d : x.dims())
      if (d.name != in_ && d.name != slides_[0].dim && d.name != slides_[1].dim) n = d;
    const Dim c = x[x.position(in_)];
    t.window = window_indices(n, c, slides_, out_);
    const Dim in_group = groups_ > 1 ? Dim{"window-" + in_, c.size / groups_} : c;
    if (groups_ > 1) {
      const int tap = static_cast<int>(t.window.indices.size());
      t.window.indices.push_back({in_group.name, in_group.size});
      t.window.windows.push_back({t.window.roles[1], t.window.roles[4], tap, in_group.size, 0, 1, out_.size / groups_});
      t.window.roles.push_back(tap);
    }
    t.w = to.weight(
        node, weight_,
        Shape{out_, in_group, {"window-" + slides_[0].dim, slides_[0].window}, {"window-" + slides_[1].dim, slides_[1].window}});
    t.x_at = window_operand(t.window, x, slides_, WindowEnd::read);
    t.y_at = window_operand(t.window, node.shape, slides_, WindowEnd::made);
    const std::vector<int>& role = t.window.roles;
    t.w_at = {role[4], groups_ > 1 ? role[9] : role[1], role[5], role[6]};
    return t;
  }
  static Pass& pass(Lowering& to, const Node& node, const Parts& t, const std::string& what, PassKind kind) {
    Pass& p = to.pass(node, what, KernelOp::conv2d, kind);
    p.indices = t.window.indices;
    p.windows = t.window.windows;
    p.roles = t.window.roles;
    return p;
  }

  std::string in_;
  Dim out_;
  std::array<Slide, 2> slides_;
  Index groups_;
  WeightOptions weight_;
  bool bias_;
};

void check_groups(Index groups, const Dim& in, const Dim& out) {
  if (groups < 1) throw UserError("`groups` is " + std::to_string(groups) + "; expected at least 1");
  for (const Dim* d : {&in, &out})
    if (d->size % groups != 0)
      throw UserError("`groups` is " + std::to_string(groups) + ", which does not divide the " + std::to_string(d->size) +
                      " of \"" + d->name + "\"; every group has as many channels, and as many filters");
}

}  // namespace

Tensor conv2d(const Tensor& x, const Conv2dOptions& o) {
  auto graph = GraphNodes::graph_of({x});
  const auto slides = slides_of(x, {o.over, o.window, o.stride, o.dilation, o.padding});
  if (x.shape().rank() != 4)
    throw UserError("conv2d takes tensors of 4 dims; \"" + x.name() + "\" has " + std::to_string(x.shape().rank()));
  const std::vector<std::string> others = other_dims(x, slides);
  const std::string in = o.in.name.empty() ? others.back() : o.in.name;
  x.shape().position(in);
  if (in == slides[0].dim || in == slides[1].dim) throw UserError("conv2d cannot contract \"" + in + "\": it slides over it");
  if (o.out.name.empty()) throw UserError("conv2d needs `out`: the name and number of its filters");
  if (x.shape().has(o.out.name)) throw UserError("`out` may not be a dim that the input has: \"" + o.out.name + "\"");
  check_groups(o.groups, x.shape()[x.shape().position(in)], o.out);
  graph->declare(o.out);
  std::vector<Dim> dims;
  for (const Dim& d : x.shape().dims())
    dims.push_back(d.name == in              ? o.out
                   : d.name == slides[0].dim ? Dim{d.name, slides[0].out}
                   : d.name == slides[1].dim ? Dim{d.name, slides[1].out}
                                             : d);
  graph->check_weight(o.weight);
  return graph->add("conv2d", o.name, std::make_shared<Conv2d>(in, o.out, slides, o.groups, o.weight, o.bias), {x}, Shape(dims));
}

}  // namespace motley
