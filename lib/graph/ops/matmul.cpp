// SPDX-License-Identifier: Apache-2.0
// matmul: a[batch.., rows.., over..], b[batch.., cols.., over..] -> y[batch.., rows.., cols..], dims in any order; reduced: over.
// Three passes of dense, b in the place of the weight.
#include <algorithm>

#include "graph/ops/shapes.h"

namespace motley {

namespace {

class Matmul final : public Op {
 public:
  void forward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    for (const Dim& d : to.tensor(t.a).shape.dims())
      if (!node.shape.has(d.name)) to.refuse_micro_batches(node, d.name);
    Pass& p = pass(to, node, t, "forward", PassKind::forward);
    p.reads = {{t.a, t.a_at}, {t.b, t.b_at}};
    p.writes = {t.y, t.y_at};
  }

  void backward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    const int dy = to.gradient(t.y);
    if (to.wants_gradient(t.a)) {
      const int da = to.gradient(t.a);
      Pass& p = pass(to, node, t, "backward_data", PassKind::backward_data);
      p.reads = {{dy, t.y_at}, {t.b, t.b_at}};
      p.writes = {da, t.a_at};
    }
    if (to.wants_gradient(t.b)) {
      const int db = to.gradient(t.b);
      Pass& p = pass(to, node, t, "backward_filter", PassKind::backward_filter);
      p.reads = {{t.a, t.a_at}, {dy, t.y_at}};
      p.writes = {db, t.b_at};
    }
  }

 private:
  struct Parts {
    std::vector<PassIndex> indices{};
    int a = -1, b = -1, y = -1;
    std::vector<int> a_at{}, b_at{}, y_at{};
  };

  static Parts parts(Lowering& to, const Node& node) {
    Parts t{{}, to.value(node.inputs[0]), to.value(node.inputs[1]), to.value(node)};
    const Shape a = to.tensor(t.a).shape, b = to.tensor(t.b).shape;
    t.indices = indices_of(a);
    for (const Dim& d : b.dims())
      if (!a.has(d.name)) t.indices.push_back({d.name, d.size});
    t.a_at = indices_in(t.indices, a);
    t.b_at = indices_in(t.indices, b);
    t.y_at = indices_in(t.indices, node.shape);
    return t;
  }
  static Pass& pass(Lowering& to, const Node& node, const Parts& t, const std::string& what, PassKind kind) {
    Pass& p = to.pass(node, what, KernelOp::dense, kind);
    p.indices = t.indices;
    return p;
  }
};

bool names(const std::vector<Dim>& dims, const std::string& name) {
  return std::any_of(dims.begin(), dims.end(), [&](const Dim& d) { return d.name == name; });
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& o) {
  auto graph = GraphNodes::graph_of({a, b});
  for (const Tensor* t : {&a, &b}) floats_only("matmul", *t);
  if (o.over.empty()) throw UserError("matmul needs `over`: the dims of both tensors that it contracts");
  for (const Tensor* t : {&a, &b})
    for (const Dim& d : o.over) dim_of("matmul", *t, d.name, "over");
  for (const Dim& d : a.shape().dims())
    if (b.shape().has(d.name) && b.shape().size_of(d.name) != d.size)
      throw UserError("matmul: \"" + d.name + "\" has the size " + std::to_string(d.size) + " in \"" + a.name() + "\" and " +
                      std::to_string(b.shape().size_of(d.name)) + " in \"" + b.name() + "\"; rename() it in one of them");
  std::vector<Dim> dims;
  bool placed = false;
  for (const Dim& d : a.shape().dims()) {
    if (!names(o.over, d.name)) {
      dims.push_back(d);
      continue;
    }
    for (const Dim& own : b.shape().dims())
      if (!placed && !a.shape().has(own.name)) dims.push_back(own);
    placed = true;
  }
  return graph->add("matmul", o.name, std::make_shared<Matmul>(), {a, b}, Shape(dims));
}

}  // namespace motley
