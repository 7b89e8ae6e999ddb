// SPDX-License-Identifier: Apache-2.0
// reshape: x[.., a, b, ..] -> y[.., d, e, ..], row-major over (a, b) = row-major over (d, e): one dim split, several merged, or
// both. flatten merges all dims but the first.
#include <algorithm>

#include "graph/ops/shapes.h"

namespace motley {

namespace {

class Reshape final : public Op {
 public:
  Reshape(std::vector<std::string> in, std::vector<std::string> out) : maps_{{std::move(in), std::move(out), 0}} {}

  void forward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]);
    shape_pass(to, node, "forward", x, maps_);
    const Shape from = to.tensor(x).shape;
    const std::string &first = maps_[0].in.front(), &made = maps_[0].out.front();
    cut_alike(to, {made, node.shape.size_of(made)}, {first, from.size_of(first)});
  }
  void backward(Lowering& to, const Node& node) const override {
    shape_gradient(to, node, "backward_data", to.value(node.inputs[0]), maps_);
  }

 private:
  std::vector<DimMap> maps_;
};

// The product of the given sizes. UserError: more than a tensor may have.
Index product_of(const std::vector<Dim>& dims) {
  std::vector<Dim> given;
  std::copy_if(dims.begin(), dims.end(), std::back_inserter(given), [](const Dim& d) { return d.size > 0; });
  return Shape(given).elements();
}

// "2 x 3 = 6", or one size alone
std::string product_text(const std::vector<Dim>& dims) {
  std::string out;
  for (const Dim& d : dims) out += (out.empty() ? "" : " x ") + std::to_string(d.size);
  return out + (dims.size() > 1 ? " = " + std::to_string(product_of(dims)) : "");
}

// The sizes of `out`, of which at most one is left open (and computed here).
std::vector<Dim> closed(const std::string& op, const Tensor& x, const std::vector<Dim>& in, std::vector<Dim> out) {
  const Index all = product_of(in), given = product_of(out);
  Dim* open = nullptr;
  for (Dim& d : out) {
    if (d.size < 0) throw UserError(op + ": \"" + d.name + "\" has the size " + std::to_string(d.size));
    if (d.size > 0) continue;
    if (open != nullptr)
      throw UserError(op + ": the sizes of \"" + open->name + "\" and \"" + d.name + "\" are both missing; give one of them");
    open = &d;
  }
  const std::string from = "\"" + x.name() + "\" has " + product_text(in) + " in `in`";
  if (open == nullptr && given != all) throw UserError(op + ": `out` makes " + product_text(out) + " elements, " + from);
  if (open != nullptr && all % given != 0)
    throw UserError(op + ": " + from + ", which " + std::to_string(given) + " does not divide: \"" + open->name +
                    "\" would not have an integer size");
  if (open != nullptr) open->size = all / given;
  return out;
}

Tensor reshaped(const std::string& op, const Tensor& x, const ReshapeOptions& o) {
  auto graph = GraphNodes::graph_of({x});
  floats_only(op, x);
  if (o.in.empty() || o.out.empty())
    throw UserError(op + " needs `in` and `out`: the dims to replace and the dims that replace them");
  std::vector<Dim> in;
  std::vector<std::string> from, to;
  for (const Dim& d : o.in) {
    in.push_back(dim_of(op, x, d.name, "in"));
    if (std::find(from.begin(), from.end(), d.name) != from.end()) throw UserError(op + ": `in` names \"" + d.name + "\" twice");
    from.push_back(d.name);
  }
  std::vector<Dim> made;
  for (const Dim& d : closed(op, x, in, o.out)) {
    made.push_back(made_dim(op, x, d, d.size));
    to.push_back(d.name);
  }
  return graph->add(op, o.name, std::make_shared<Reshape>(from, to), {x}, replaced(x, from, made));
}

}  // namespace

Tensor reshape(const Tensor& x, const ReshapeOptions& o) {
  return reshaped("reshape", x, o);
}

Tensor flatten(const Tensor& x, const std::string& into, const NameOption& o) {
  if (x.shape().rank() < 2)
    throw UserError("flatten needs a tensor of at least 2 dims; \"" + x.name() + "\" has " + std::to_string(x.shape().rank()));
  return reshaped("flatten", x, {{x.shape().dims().begin() + 1, x.shape().dims().end()}, {Dim{into, 0}}, o.name});
}

}  // namespace motley
