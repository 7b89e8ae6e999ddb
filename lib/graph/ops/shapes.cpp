// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/shapes.h"

#include <algorithm>
#include <set>

namespace motley {

namespace {

bool is_in(const std::string& name, const std::vector<std::string>& list) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

void shape_copy(Lowering& to, const Node& node, const std::string& what, int from, int into,
                const std::vector<DimMap>& index_maps) {
  Pass& p = to.pass(node, what, KernelOp::map, PassKind::forward);
  const Shape source = to.tensor(from).shape, result = to.tensor(into).shape;
  p.indices = indices_of(result);
  const auto mapped = [&](const std::string& name) {
    return std::any_of(index_maps.begin(), index_maps.end(), [&](const DimMap& t) { return is_in(name, t.in); });
  };
  std::vector<int> source_at;
  for (const Dim& d : source.dims()) {
    if (!mapped(d.name)) {
      source_at.push_back(static_cast<int>(result.position(d.name)));
      continue;
    }
    source_at.push_back(static_cast<int>(p.indices.size()));
    p.whole.push_back(source_at.back());
    p.indices.push_back({d.name, d.size});
  }
  for (const DimMap& t : index_maps) {
    IndexMap map{{}, {}, t.offset};
    for (const std::string& name : t.in) map.read.push_back(source_at[source.position(name)]);
    for (const std::string& name : t.out) map.made.push_back(static_cast<int>(result.position(name)));
    p.index_maps.push_back(std::move(map));
  }
  p.reads = {{from, source_at}};
  p.writes = {into, indices_in(p.indices, result)};
}

void shape_pass(Lowering& to, const Node& node, const std::string& what, int from, const std::vector<DimMap>& index_maps) {
  shape_copy(to, node, what, from, to.value(node), index_maps);
}

std::vector<DimMap> turned(const std::vector<DimMap>& index_maps) {
  std::vector<DimMap> back;
  for (const DimMap& t : index_maps) back.push_back({t.out, t.in, -t.offset});
  return back;
}

void shape_gradient(Lowering& to, const Node& node, const std::string& what, int from, const std::vector<DimMap>& index_maps) {
  if (to.wants_gradient(from)) shape_copy(to, node, what, to.gradient(to.value(node)), to.gradient(from), turned(index_maps));
}

void cut_alike(Lowering& to, const Dim& out, const Dim& in) {
  to.out().derived_dims.push_back({out.name, in.name, out.size, in.size, 0, DerivedDim::Kind::scaled});
}

void floats_only(const std::string& op, const Tensor& x) {
  if (x.dtype() == DType::i32) throw UserError(op + " works on floats; \"" + x.name() + "\" holds integers");
}

void check_float_labels(const std::string& op, const Tensor& x, const Tensor& labels) {
  floats_only(op, x);
  floats_only(op, labels);
  const auto has_all = [](const Tensor& of, const Tensor& in) {
    return std::all_of(of.shape().dims().begin(), of.shape().dims().end(),
                       [&](const Dim& d) { return in.shape().has(d.name) && in.shape().size_of(d.name) == d.size; });
  };
  if (!has_all(x, labels) || !has_all(labels, x))
    throw UserError(op + ": the labels \"" + labels.name() + "\" have other dims than \"" + x.name() + "\"");
}

const Tensor& with_all_dims(const std::string& done, const std::vector<Tensor>& tensors) {
  const Tensor* all = &tensors.front();
  for (const Tensor& t : tensors)
    if (t.shape().rank() > all->shape().rank()) all = &t;
  for (const Tensor& t : tensors)
    for (const Dim& d : t.shape().dims()) {
      if (!all->shape().has(d.name)) {
        const bool as_many = t.shape().rank() == all->shape().rank();  // then each lacks a dim of the other
        std::string missing = d.name;
        for (const Dim& its : all->shape().dims())
          if (as_many && !t.shape().has(its.name)) missing = its.name;
        throw UserError("\"" + t.name() + "\" and \"" + all->name() + "\" cannot be " + done + ": their dims differ (\"" + missing +
                        "\")");
      }
      if (all->shape().size_of(d.name) != d.size)
        throw UserError("\"" + all->name() + "\" and \"" + t.name() + "\" cannot be " + done + ": \"" + d.name +
                        "\" has the size " + std::to_string(all->shape().size_of(d.name)) + " in one and " +
                        std::to_string(d.size) + " in the other");
    }
  return *all;
}

Dim dim_of(const std::string& op, const Tensor& x, const std::string& dim, const std::string& key) {
  if (const auto at = x.shape().find(dim)) return x.shape()[*at];
  std::vector<std::string> known;
  for (const Dim& d : x.shape().dims()) known.push_back(d.name);
  throw UserError(op + ": `" + key + "` names \"" + dim + "\", which \"" + x.name() + "\" does not have" +
                  did_you_mean(dim, known));
}

void check_dims(const std::string& op, const Tensor& x, const std::vector<Dim>& dims, const std::string& key) {
  std::set<std::string> seen;
  for (const Dim& d : dims)
    if (!seen.insert(dim_of(op, x, d.name, key).name).second)
      throw UserError(op + ": `" + key + "` names \"" + d.name + "\" twice");
}

Dim made_dim(const std::string& op, const Tensor& x, const Dim& out, Index size) {
  if (x.shape().has(out.name))
    throw UserError(op + ": `out` may not be a dim that the input has: \"" + out.name + "\" is one of \"" + x.name() + "\"");
  if (out.size != 0 && out.size != size)
    throw UserError(op + ": \"" + out.name + "\" has the size " + std::to_string(out.size) + " here, but from \"" + x.name() +
                    "\" follows the size " + std::to_string(size));
  const Dim made{out.name, size};
  GraphNodes::graph_of({x})->declare(made);
  return made;
}

Shape replaced(const Tensor& x, const std::vector<std::string>& in, const std::vector<Dim>& out) {
  std::vector<Dim> dims;
  bool placed = false;
  for (const Dim& d : x.shape().dims()) {
    if (!is_in(d.name, in)) {
      dims.push_back(d);
      continue;
    }
    if (!placed) dims.insert(dims.end(), out.begin(), out.end());
    placed = true;
  }
  return Shape(dims);
}

}  // namespace motley
