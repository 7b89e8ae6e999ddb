// SPDX-License-Identifier: Apache-2.0
// What to compute: no device, no rank, no cut.
#pragma once
#include <motley/dims.h>
#include <motley/dtype.h>

#include <memory>
#include <string>

namespace motley {

struct GraphNodes;  // owned together by the Graph, its Tensors and its Steps

// A handle to one value of a graph: cheap to copy, keeps the nodes alive.
class Tensor {
 public:
  Tensor() = default;
  const Shape& shape() const;
  DType dtype() const;
  const std::string& name() const;
  bool operator==(const Tensor&) const = default;

 private:
  friend struct GraphNodes;
  Tensor(std::shared_ptr<GraphNodes> nodes, int id) : nodes_(std::move(nodes)), id_(id) {}
  std::shared_ptr<GraphNodes> nodes_{};
  int id_ = -1;
};

class Graph {
 public:
  Graph();
  Graph(const Graph&) = delete;  // two names for one set of nodes would surprise
  Graph& operator=(const Graph&) = delete;
  // Declares the shape's dims. UserError: a name that is taken or no name, a dim that has another size already.
  Tensor input(const std::string& name, const Shape& shape, DType dtype = DType::f32);

 private:
  std::shared_ptr<GraphNodes> nodes_;
};

}  // namespace motley
