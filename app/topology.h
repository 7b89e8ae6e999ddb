// SPDX-License-Identifier: Apache-2.0
// What this host is made of, and the mesh it suggests.
#pragma once
#include <motley/mesh.h>

#include <string>
#include <vector>

#include "kernels/cuda_module.h"

namespace motley {

struct Socket {              // the cores of one kind in a socket
  std::vector<int> cores{};  // one processing unit per core that this process may use
  std::string name{};  // "socket 0", "socket 0 core kind 1" where a socket has several kinds (performance and efficiency cores)
};
struct HostFacts {
  std::vector<Socket> sockets{};  // those with a core that may be used; slowest kind of core first
  CudaFacts cuda{};
  std::size_t cards = 0;  // NVIDIA's that the kernel knows although none can be used
};
HostFacts host_facts();

// One rank per GPU that this build can use, then one per socket and kind of core with its cores but one for each GPU, along one
// axis "all".
Mesh mesh_of(const HostFacts& host);

}  // namespace motley
