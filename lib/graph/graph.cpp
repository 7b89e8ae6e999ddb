// SPDX-License-Identifier: Apache-2.0
#include <motley/graph.h>

#include <algorithm>

#include "base/at.h"
#include "base/interval.h"
#include "graph/nodes.h"

namespace motley {

std::string GraphNodes::batch() const {
  const auto input = std::find_if(nodes.begin(), nodes.end(), [](const Node& node) { return !node.op && node.shape.rank() > 0; });
  return input == nodes.end() ? "" : input->shape[0].name;
}
Dim GraphNodes::samples_of(const Tensor& t) {
  const std::string batch = graph_of({t})->batch();
  return t.shape().has(batch) ? t.shape()[t.shape().position(batch)] : t.shape()[0];
}

const Node& GraphNodes::node(const Tensor& t) {
  if (!t.nodes_) throw UserError("an empty Tensor was used; tensors come from Graph::input and from ops");
  return at(t.nodes_->nodes, t.id_);
}

Tensor GraphNodes::input_of(const Tensor& t, int input) {
  return Tensor(t.nodes_, at(node(t).inputs, input));
}

std::shared_ptr<GraphNodes> GraphNodes::graph_of(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) throw UserError("an op needs at least one tensor");
  for (const Tensor& t : tensors) {
    node(t);
    if (t.nodes_ != tensors.front().nodes_)
      throw UserError("\"" + node(t).name + "\" and \"" + node(tensors.front()).name + "\" are tensors of two graphs");
  }
  return tensors.front().nodes_;
}

void GraphNodes::declare(const std::vector<Dim>& dims) {
  std::map<std::string, Index> fresh;
  for (const Dim& dim : dims) {
    if (!is_name(dim.name))
      throw UserError("\"" + dim.name + "\" is not a valid dim name: letters, digits, _ and -, a letter or _ first");
    if (dim.size < 1)
      throw UserError("dim \"" + dim.name + "\" has the size " + std::to_string(dim.size) + "; expected at least 1");
    const auto known = sizes.find(dim.name);
    const Index size = known != sizes.end() ? known->second : fresh.emplace(dim.name, dim.size).first->second;
    if (size != dim.size)
      throw UserError("dim \"" + dim.name + "\" has the size " + std::to_string(dim.size) + " here but " + std::to_string(size) +
                      " where it first appears; a dimension has one size, give this one another name");
  }
  sizes.merge(fresh);
}

void GraphNodes::check_free(const std::string& name) const {
  if (!is_layer_name(name)) throw UserError("\"" + name + "\" is not a valid name: letters, digits, _ and -, a letter or _ first");
  if (names.contains(name)) throw UserError("two layers or inputs are called \"" + name + "\"");
}

Tensor GraphNodes::add(const std::string& kind, const std::string& wanted, std::shared_ptr<const Op> op,
                       const std::vector<Tensor>& inputs, Shape shape, DType dtype) {
  for (std::size_t i = 0; i < inputs.size(); i++)
    if (inputs[i].dtype() == DType::i32 && static_cast<int>(i) != op->label_input() && !op->reads_numbers())
      throw UserError("\"" + inputs[i].name() + "\" holds integers (i32), which " + kind +
                      " does not read; read them with an embedding");
  Node n;
  n.id = static_cast<int>(nodes.size());
  n.name = wanted.empty() ? kind + "_" + std::to_string(positions + 1) : wanted;
  check_free(n.name);
  positions++;
  names.insert(n.name);
  n.layer = n.name;
  n.op = std::move(op);
  for (const Tensor& t : inputs) n.inputs.push_back(t.id_);
  n.shape = std::move(shape);
  n.dtype = dtype;
  nodes.push_back(std::move(n));
  return Tensor(shared_from_this(), static_cast<int>(nodes.size()) - 1);
}

Tensor GraphNodes::add_input(const std::string& name, const Shape& shape, DType dtype) {
  if (dtype != DType::f32 && dtype != DType::i32)
    throw UserError("input \"" + name + "\": an input is f32 (f64 in a plan of that) or i32, not " + to_string(dtype));
  check_free(name);
  std::vector<Dim> dims = shape.dims();
  std::erase_if(dims, [&](const Dim& d) {  // with a size that windows gave it, as for labels of what windows made
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](const Node& n) { return n.shape.has(d.name) && n.shape.size_of(d.name) == d.size; });
  });
  declare(dims);
  names.insert(name);
  Node n;
  n.id = static_cast<int>(nodes.size());
  n.name = name;
  n.shape = shape;
  n.dtype = dtype;
  nodes.push_back(std::move(n));
  return Tensor(shared_from_this(), static_cast<int>(nodes.size()) - 1);
}

WeightOptions GraphNodes::weight_of(const WeightOptions& wanted) const {
  if (wanted.layer.empty()) {
    if (wanted.initial == InitialWeights::normal)
      require_within("the deviation of initial weights", wanted.deviation, {.least = 0, .most = 1e300, .above = true});
    return wanted;
  }
  std::vector<std::string> known;
  for (const Node& n : nodes) {
    const WeightOptions* its = n.op ? n.op->weight() : nullptr;
    if (its == nullptr) continue;
    known.push_back(n.layer);
    if (n.layer != wanted.layer) continue;
    WeightOptions owned = *its;
    if (owned.layer.empty()) owned.layer = n.layer;
    return owned;
  }
  throw UserError("there is no layer \"" + wanted.layer + "\" with a weight above" + did_you_mean(wanted.layer, known));
}

void GraphNodes::rename(int node, const std::string& name) {
  at(nodes, node).name = name;
}

const Shape& Tensor::shape() const {
  return GraphNodes::node(*this).shape;
}
DType Tensor::dtype() const {
  return GraphNodes::node(*this).dtype;
}
const std::string& Tensor::name() const {
  return GraphNodes::node(*this).name;
}

Graph::Graph() : nodes_(std::make_shared<GraphNodes>()) {}
Tensor Graph::input(const std::string& name, const Shape& shape, DType dtype) {
  return nodes_->add_input(name, shape, dtype);
}

}  // namespace motley
