// SPDX-License-Identifier: Apache-2.0
// The hardware of this host, and the mesh it suggests.
#pragma once
#include <motley/mesh.h>

#include <string>
#include <vector>

#include "kernels/cuda_module.h"

namespace motley {

struct Socket {              // the cores of one kind in a socket
  std::vector<int> cores{};  // one processing unit for each core that this process may use
  std::string name{};  // "socket 0", "socket 0 core kind 1" where a socket has several kinds (performance and efficiency cores)
};
struct HostFacts {
  std::vector<Socket> sockets{};  // those with a usable core; slowest kind of core first
  CudaFacts cuda{};
  std::size_t cards = 0;  // if no GPU can be used: number of NVIDIA cards that the kernel knows
};
HostFacts host_facts();

// The processing units that this process may use, by the core that they are of (two of one core share its arithmetic units). A unit
// that hwloc knows no core of is one.
std::vector<std::vector<int>> units_by_core();
// In the order in which ranks get them: one of each core, then the second ones, ...
std::vector<int> units_in_turn();

// One rank per GPU that this build can use, then one per socket and kind of core with all its cores but one for each GPU, along one
// axis "all".
Mesh mesh_of(const HostFacts& host);

}  // namespace motley
