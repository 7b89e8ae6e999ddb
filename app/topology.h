// SPDX-License-Identifier: Apache-2.0
// What this node is made of, and the mesh it suggests.
#pragma once
#include <motley/mesh.h>

#include <string>
#include <vector>

namespace motley {

struct Socket {
  std::vector<int> cores{};  // one processing unit per core that this process may use
};
struct Gpu {
  std::string model{};
  Index memory_bytes = 0;
};
struct Node {
  std::vector<Socket> sockets{};  // those with a core that may be used
  std::vector<Gpu> gpus{};
  std::string gpu_note{};  // why none can be used although there are some; empty: nothing to say
};
Node this_node();

// One rank per socket, with all its cores, along one axis "all". GPUs join where this build can use them.
Mesh mesh_of(const Node& node);

}  // namespace motley
