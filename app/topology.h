// SPDX-License-Identifier: Apache-2.0
// What this host is made of, and the mesh it suggests.
#pragma once
#include <motley/mesh.h>

#include <string>
#include <vector>

#include "kernels/cuda_module.h"

namespace motley {

struct Socket {
  std::vector<int> cores{};  // one processing unit per core that this process may use
};
struct HostFacts {
  std::vector<Socket> sockets{};  // those with a core that may be used
  CudaFacts cuda{};
  std::size_t cards = 0;  // NVIDIA's that the kernel knows although none can be used
};
HostFacts host_facts();

// One rank per GPU that this build can use, then one per socket with its cores but one for each GPU, along one axis "all".
Mesh mesh_of(const HostFacts& host);

}  // namespace motley
