// SPDX-License-Identifier: Apache-2.0
// What the ops that change a tensor's shape share: a copy whose two sides are related by index maps (passes.h).
#pragma once
#include <string>
#include <vector>

#include "graph/nodes.h"

namespace motley {

// One map of an op's input to its output, by dim names: number over `in` = number over `out` + offset.
struct DimMap {
  std::vector<std::string> in{}, out{};
  Index offset = 0;
};

// `into` is copied from `from`: dims of one name are one index, mapped dims are mapped (`in`: those of `from`).
void shape_copy(Lowering& to, const Node& node, const std::string& what, int from, int into, const std::vector<DimMap>& index_maps);
// Forward: into the node's output.
void shape_pass(Lowering& to, const Node& node, const std::string& what, int from, const std::vector<DimMap>& index_maps);
// Maps that lead back.
std::vector<DimMap> turned(const std::vector<DimMap>& index_maps);
// Backward of shape_pass: the gradient of `from` is copied from the output's. Nothing where it is not wanted.
void shape_gradient(Lowering& to, const Node& node, const std::string& what, int from, const std::vector<DimMap>& index_maps);

// Without a rule of its own `out` is cut as `in` is, its boundaries scaled.
void cut_alike(Lowering& to, const Dim& out, const Dim& in);

// UserErrors of a shape op, which name op and tensor.
void floats_only(const std::string& op, const Tensor& x);
void check_float_labels(const std::string& op, const Tensor& x, const Tensor& labels);  // of x's dims
Dim dim_of(const std::string& op, const Tensor& x, const std::string& dim, const std::string& key);
// A dim that the op makes: size 0 means `size`. Declares it.
Dim made_dim(const std::string& op, const Tensor& x, const Dim& out, Index size);
// x's dims with `out` in the place of the first of `in`; the others of `in` are gone.
Shape replaced(const Tensor& x, const std::vector<std::string>& in, const std::vector<Dim>& out);

}  // namespace motley
