// SPDX-License-Identifier: Apache-2.0
// y[n.. f] = w[x[n..] f]: the sum over rows v of (v == x ? w[v f] : 0), for which kernels compute only the row x
// (kernels/one_hot.h). A rank with only some of the rows gives 0 for numbers of other rows: partial sums. dw[v f] = sum over n.. of
// (v == x ? dy[n.. f] : 0).
#include "graph/layer_kind.h"
#include "graph/nodes.h"
#include "graph/ops/shapes.h"
#include "kernels/value.h"

namespace motley {

namespace {

Formula row(std::size_t rows) {  // x, w or dy; `rows`: the index that counts the rows
  return formula({select(matches(position(static_cast<int>(rows)), integer(0)), operand(1), 0.0)});
}

class Embedding final : public Op {
 public:
  Embedding(Dim rows, Dim out, WeightOptions weight) : shape_({std::move(rows), std::move(out)}), weight_(std::move(weight)) {}
  bool has_parameters() const override { return true; }
  const WeightOptions* weight() const override { return &weight_; }
  bool reads_numbers() const override { return true; }

  void forward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]);
    to.numbers_below(x, shape_[0].size);
    map_pass(to, node, "forward", {x, to.weight(node, weight_, shape_)}, to.value(node), row(node.shape.rank()));
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), dy = to.gradient(to.value(node));
    map_pass(to, node, "backward_weight", {x, dy}, to.gradient(to.weight(node, weight_, shape_)), row(0));
  }

 private:
  Shape shape_;
  WeightOptions weight_;
};

}  // namespace

Tensor embedding(const Tensor& x, const EmbeddingOptions& o) {
  auto graph = GraphNodes::graph_of({x});
  if (GraphNodes::node(x).op)
    throw UserError("embedding reads integers from an input (\"dtype\": \"i32\"); \"" + x.name() + "\" is computed");
  if (x.dtype() != DType::i32)
    throw UserError("embedding reads integers: declare the input \"" + x.name() + "\" with \"dtype\": \"i32\"");
  const WeightOptions weight = graph->weight_of(o.weight);
  std::vector<Dim> dims = x.shape().dims();
  for (const Dim& d : {o.rows, o.out})
    if (x.shape().has(d.name))
      throw UserError("embedding adds the dim \"" + d.name + "\", which \"" + x.name() + "\" already has; give it another name");
  if (o.rows.name == o.out.name) throw UserError("embedding: rows and features are two dims, both are \"" + o.rows.name + "\"");
  graph->declare({o.rows, o.out});
  dims.push_back(o.out);
  return graph->add("embedding", o.name, std::make_shared<Embedding>(o.rows, o.out, weight), {x}, Shape(dims));
}

static const LayerKind kEmbeddingKind("embedding", 1,
                                      {{"rows", "the vocabulary: a dim and its size", LayerKey::Kind::dim},
                                       {"out", "its output dim and the size", LayerKey::Kind::dim}},
                                      [](const LayerArguments& l) {
                                        return embedding(l.in(), {.rows = l.dims.at("rows").front(),
                                                                  .out = l.dims.at("out").front(),
                                                                  .weight = l.weight,
                                                                  .name = l.name});
                                      },
                                      {.weight = EmbeddingOptions{}.weight, .reshapes = true});

}  // namespace motley
