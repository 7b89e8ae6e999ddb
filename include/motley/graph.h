// SPDX-License-Identifier: Apache-2.0
/// @file
/// What to compute: no device, no rank, no cut.
#pragma once
#include <motley/dims.h>
#include <motley/dtype.h>

#include <memory>
#include <string>

namespace motley {
/// @addtogroup network
/// @{

struct ParameterOptions;
struct GraphNodes;  // owned together by the Graph, its Tensors and its Steps

/// A handle to one value of a graph: cheap to copy, keeps the nodes alive.
class Tensor {
 public:
  Tensor() = default;
  const Shape& shape() const;       ///< of the complete tensor. UserError: an empty handle
  DType dtype() const;              ///< as declared; a plan chooses f32 or f64 for all float tensors
  const std::string& name() const;  ///< of the input, or of the op that makes it
  bool operator==(const Tensor&) const = default;

 private:
  friend struct GraphNodes;
  Tensor(std::shared_ptr<GraphNodes> nodes, int id) : nodes_(std::move(nodes)), id_(id) {}
  std::shared_ptr<GraphNodes> nodes_{};
  int id_ = -1;
};

/// A network under construction. Ops (ops.h) add to the graph of the tensors they take.
class Graph {
 public:
  Graph();
  Graph(const Graph&) = delete;  // two names for one set of nodes would surprise
  Graph& operator=(const Graph&) = delete;
  /// Declares an input and its dims. UserError: a name that is taken or not a valid name, a dim that already has another size.
  Tensor input(const std::string& name, const Shape& shape, DType dtype = DType::f32);
  /// A learned constant `<name>.weight` of this shape, without a batch. Its options: ops.h.
  Tensor parameter(const Shape& shape, const ParameterOptions& options);

 private:
  std::shared_ptr<GraphNodes> nodes_;
};

/// @}
}  // namespace motley
