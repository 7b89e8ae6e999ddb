// SPDX-License-Identifier: Apache-2.0
// slice: y[j] = x[begin + j]. pad: y[before + i] = x[i], 0 elsewhere. Each is the gradient of the other.
#include <limits>

#include "graph/ops/shapes.h"

namespace motley {

namespace {

class Shifted final : public Op {
 public:
  // x's number = y's number + offset.
  Shifted(std::string in, std::string out, Index offset) : maps_{{{std::move(in)}, {std::move(out)}, offset}} {}

  void forward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]);
    shape_pass(to, node, "forward", x, maps_);
    const std::string &from = maps_[0].in.front(), &made = maps_[0].out.front();
    const Index from_size = to.tensor(x).shape.size_of(from);
    to.out().derived_dims.push_back({made, from, node.shape.size_of(made), from_size, -maps_[0].offset, DerivedDim::Kind::shifted});
  }
  void backward(Lowering& to, const Node& node) const override {
    shape_gradient(to, node, "backward_data", to.value(node.inputs[0]), maps_);
  }

 private:
  std::vector<DimMap> maps_;
};

Tensor shifted(const std::string& op, const Tensor& x, const std::string& in, const Dim& out, Index size, Index offset,
               const std::string& name) {
  const Dim made = made_dim(op, x, out, size);
  return GraphNodes::graph_of({x})->add(op, name, std::make_shared<Shifted>(in, made.name, offset), {x}, replaced(x, {in}, {made}));
}

}  // namespace

Tensor slice(const Tensor& x, const SliceOptions& o) {
  floats_only("slice", x);
  const Dim in = dim_of("slice", x, o.in.name, "in");
  if (o.range.begin < 0 || o.range.end > in.size || o.range.size() == 0)
    throw UserError("slice: the range [" + std::to_string(o.range.begin) + ", " + std::to_string(o.range.end) + ") of \"" +
                    in.name + "\" does not fit its size " + std::to_string(in.size) + " in \"" + x.name() +
                    "\"; expected 0 <= begin < end <= " + std::to_string(in.size));
  return shifted("slice", x, in.name, o.out, o.range.size(), o.range.begin, o.name);
}

Tensor pad(const Tensor& x, const PadOptions& o) {
  floats_only("pad", x);
  const Dim in = dim_of("pad", x, o.in.name, "in");
  constexpr Index kMost = Index{1} << 40;
  if (o.before < 0 || o.after < 0 || o.before > kMost || o.after > kMost || o.before + o.after == 0)
    throw UserError("pad: before " + std::to_string(o.before) + " and after " + std::to_string(o.after) +
                    "; expected numbers from 0 to 2^40, one above 0");
  return shifted("pad", x, in.name, o.out, o.before + in.size + o.after, -o.before, o.name);
}

}  // namespace motley
