// SPDX-License-Identifier: Apache-2.0
// Random small networks and cuts for the laws. Seeded: a number tells a case.
#pragma once
#include <motley/mesh.h>
#include <motley/ops.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace motley::law {

using Random = std::mt19937;

Index pick(Random& random, Index low, Index high);
bool chance(Random& random, double p);

struct Network {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Tensor loss{};
  std::vector<Dim> dims{};  // that a rule may name
};
// Convolutions with strides, padding and residual blocks, pools, flatten, dense layers, all activations.
Network network(Random& random);
std::vector<Index> parts(Random& random, Index size, int ranks);  // sum to size; zeros, all on one rank at times
Mesh mesh_of(const std::vector<Axis>& axes);

}  // namespace motley::law
