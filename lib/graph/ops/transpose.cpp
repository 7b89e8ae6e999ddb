// SPDX-License-Identifier: Apache-2.0
// transpose: the same dims in another order. rename: the same dims, one of them under another name. Nothing is computed: readers
// read the source in place.
#include <algorithm>

#include "graph/ops/shapes.h"

namespace motley {

namespace {

class Transpose final : public Op {
 public:
  void forward(Lowering& to, const Node& node) const override {
    copy_pass(to, node, "forward", to.value(node.inputs[0]), to.value(node));
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]);
    if (to.wants_gradient(x)) copy_pass(to, node, "backward_data", to.gradient(to.value(node)), to.gradient(x));
  }
};

class Rename final : public Op {
 public:
  Rename(std::string in, std::string out) : in_(std::move(in)), out_(std::move(out)) {}
  void forward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), y = to.value(node);
    copy(to, node, "forward", x, y);
    const Index size = node.shape.size_of(out_);
    to.out().derived_dims.push_back({out_, in_, size, size, 0, DerivedDim::Kind::scaled});
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]);
    if (to.wants_gradient(x)) copy(to, node, "backward_data", to.gradient(to.value(node)), to.gradient(x));
  }

 private:
  // Dims match by position: the two names share one index.
  static void copy(Lowering& to, const Node& node, const std::string& what, int from, int into) {
    const Shape result = to.tensor(into).shape;
    Pass& p = to.pass(node, what, KernelOp::map, PassKind::forward);
    p.indices = indices_of(result);
    const std::vector<int> all = indices_in(p.indices, result);
    p.reads = {{from, all}};
    p.writes = {into, all};
  }
  std::string in_, out_;
};

}  // namespace

Tensor transpose(const Tensor& x, const std::vector<Dim>& order, const NameOption& o) {
  auto graph = GraphNodes::graph_of({x});
  floats_only("transpose", x);
  std::vector<Dim> dims;
  for (const Dim& d : order) dims.push_back(dim_of("transpose", x, d.name, "order"));
  for (const Dim& d : x.shape().dims())
    if (std::count(dims.begin(), dims.end(), d) != 1)
      throw UserError("transpose: `order` names each dim of \"" + x.name() + "\" once; \"" + d.name + "\" is listed " +
                      std::to_string(std::count(dims.begin(), dims.end(), d)) + " times");
  return graph->add("transpose", o.name, std::make_shared<Transpose>(), {x}, Shape(dims));
}

Tensor rename(const Tensor& x, const Dim& in, const Dim& out, const NameOption& o) {
  auto graph = GraphNodes::graph_of({x});
  floats_only("rename", x);
  const Dim made = made_dim("rename", x, out, dim_of("rename", x, in.name, "in").size);
  return graph->add("rename", o.name, std::make_shared<Rename>(in.name, made.name), {x}, replaced(x, {in.name}, {made}));
}

}  // namespace motley
