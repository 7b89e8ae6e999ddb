// SPDX-License-Identifier: Apache-2.0
// Shared by the ops that change a tensor's shape: a copy whose two sides are related by index maps (passes.h).
#pragma once
#include <string>
#include <vector>

#include "graph/nodes.h"

namespace motley {

// One map from an op's input to its output, by dim names: number over `in` = number over `out` + offset.
struct DimMap {
  std::vector<std::string> in{}, out{};
  Index offset = 0;
};

// Copies `from` to `into`: dims with the same name are one index, mapped dims are related by their maps (`in`: dims of `from`).
void shape_copy(Lowering& to, const Node& node, const std::string& what, int from, int into, const std::vector<DimMap>& index_maps);
// The forward pass: into the node's output.
void shape_pass(Lowering& to, const Node& node, const std::string& what, int from, const std::vector<DimMap>& index_maps);
// The inverse maps.
std::vector<DimMap> turned(const std::vector<DimMap>& index_maps);
// Backward of shape_pass: the gradient of `from` is copied from the output's gradient. Does nothing if it is not required.
void shape_gradient(Lowering& to, const Node& node, const std::string& what, int from, const std::vector<DimMap>& index_maps);

// Without its own rule `out` is cut as `in` is, with scaled boundaries.
void cut_alike(Lowering& to, const Dim& out, const Dim& in);

// UserErrors of a shape op; they name op and tensor.
void floats_only(const std::string& op, const Tensor& x);
void check_float_labels(const std::string& op, const Tensor& x, const Tensor& labels);  // labels must have x's dims
// The one that has all dims of all others, with their sizes. done: "added", of the error.
const Tensor& with_all_dims(const std::string& done, const std::vector<Tensor>& tensors);
// x has these dims, and none is named twice.
void check_dims(const std::string& op, const Tensor& x, const std::vector<Dim>& dims, const std::string& key);
Dim dim_of(const std::string& op, const Tensor& x, const std::string& dim, const std::string& key);
// Declares a dim that the op makes: size 0 means `size`.
Dim made_dim(const std::string& op, const Tensor& x, const Dim& out, Index size);
// x's dims with `out` in the place of the first of `in`, without the others of `in`.
Shape replaced(const Tensor& x, const std::vector<std::string>& in, const std::vector<Dim>& out);

}  // namespace motley
