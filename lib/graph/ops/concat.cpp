// SPDX-License-Identifier: Apache-2.0
// concat: y[.., start_k + i, ..] = x_k[.., i, ..]. stack: y[.., k, ..] = x_k[..]. One tensor, one writer per part; the parts do not
// overlap, so nothing is added.
#include <algorithm>

#include "graph/ops/shapes.h"

namespace motley {

namespace {

class Joined final : public Op {
 public:
  explicit Joined(std::vector<DimMap> index_maps) : maps_(std::move(index_maps)) {}  // one per input

  void forward(Lowering& to, const Node& node) const override {
    for (std::size_t k = 0; k < maps_.size(); k++)
      shape_pass(to, node, "forward " + std::to_string(k), to.value(node.inputs[k]), {maps_[k]});
  }
  void backward(Lowering& to, const Node& node) const override {
    for (std::size_t k = 0; k < maps_.size(); k++)
      shape_gradient(to, node, "backward_data " + std::to_string(k), to.value(node.inputs[k]), {maps_[k]});
  }

 private:
  std::vector<DimMap> maps_;
};

// Checks that `part` and `first` have the same dims with the same sizes, except for their concatenated dims.
void check_same(const std::string& op, const Tensor& first, const std::string& first_in, const Tensor& part,
                const std::string& in) {
  const std::string both = op + ": \"" + part.name() + "\" and \"" + first.name() + "\" ";
  if (part.shape().rank() != first.shape().rank())
    throw UserError(both + "have " + std::to_string(part.shape().rank()) + " and " + std::to_string(first.shape().rank()) +
                    " dims; expected the same dims");
  for (const Dim& d : part.shape().dims()) {
    if (d.name == in) continue;
    if (d.name == first_in || !first.shape().has(d.name))
      throw UserError(both + "differ in a dim: only the first of them has \"" + d.name + "\"");
    if (first.shape().size_of(d.name) != d.size)
      throw UserError(both + "do not fit: \"" + d.name + "\" has the size " + std::to_string(d.size) + " in one and " +
                      std::to_string(first.shape().size_of(d.name)) + " in the other");
  }
}

}  // namespace

Tensor concat(const std::vector<Tensor>& parts, const ConcatOptions& o) {
  auto graph = GraphNodes::graph_of(parts);
  if (parts.size() < 2) throw UserError("concat needs at least two tensors");
  if (o.in.size() != 1 && o.in.size() != parts.size())
    throw UserError("concat: `in` names " + std::to_string(o.in.size()) + " dims for " + std::to_string(parts.size()) +
                    " tensors; expected one dim for all, or one for each");
  std::vector<DimMap> index_maps;
  Index size = 0;
  auto in_of = [&](std::size_t k) { return o.in[o.in.size() == 1 ? 0 : k].name; };
  for (std::size_t k = 0; k < parts.size(); k++) {
    floats_only("concat", parts[k]);
    const Dim in = dim_of("concat", parts[k], in_of(k), "in");
    check_same("concat", parts[0], in_of(0), parts[k], in.name);
    index_maps.push_back({{in.name}, {o.out.name}, -size});
    size += in.size;
  }
  for (const Tensor& t : parts) made_dim("concat", t, {o.out.name, o.out.size}, size);
  return graph->add("concat", o.name, std::make_shared<Joined>(index_maps), parts,
                    replaced(parts[0], {in_of(0)}, {{o.out.name, size}}));
}

Tensor stack(const std::vector<Tensor>& parts, const StackOptions& o) {
  auto graph = GraphNodes::graph_of(parts);
  if (parts.size() < 2) throw UserError("stack needs at least two tensors");
  std::vector<DimMap> index_maps;
  const Index size = static_cast<Index>(parts.size());
  for (std::size_t k = 0; k < parts.size(); k++) {
    floats_only("stack", parts[k]);
    check_same("stack", parts[0], "", parts[k], "");
    index_maps.push_back({{}, {o.out.name}, -static_cast<Index>(k)});
  }
  const Dim made = made_dim("stack", parts[0], o.out, size);
  std::vector<Dim> dims = parts[0].shape().dims();
  dims.insert(dims.begin() + (dims.empty() ? 0 : 1), made);
  return graph->add("stack", o.name, std::make_shared<Joined>(index_maps), parts, Shape(dims));
}

}  // namespace motley
