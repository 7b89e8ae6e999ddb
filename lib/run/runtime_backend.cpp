// SPDX-License-Identifier: Apache-2.0
// Separate from runtime.cpp: programs that open no device need no kernels.
#include <motley/runtime.h>

#include <cstdlib>

#include "run/start.h"

namespace motley {

constexpr int kMostThreadsPerCore = 16;

Backend& Runtime::backend(const Mesh& mesh) {
  if (mesh.ranks() != ranks())
    throw UserError("the mesh has " + std::to_string(mesh.ranks()) + " devices, but " + std::to_string(ranks()) +
                    (ranks() == 1 ? " rank runs" : " ranks run") + "; start one rank per device: mpiexec -n " +
                    std::to_string(mesh.ranks()));
  if (backend_) return *backend_;
  const Device& device = mesh.device(rank());
  kind_ = to_string(device.kind);
  // Ranks of the launcher were bound before their first thread started.
  if (std::getenv("MOTLEY_CORES") == nullptr && !device.cores.empty()) bind_to_cores(device.cores);
  const auto cores = static_cast<int>(allowed_cores().size());
  if (const int threads = driven(device).threads; threads > kMostThreadsPerCore * cores)
    throw UserError("\"" + device.name + "\" requests " + std::to_string(threads) + " threads on " + std::to_string(cores) +
                        (cores == 1 ? " core" : " cores") + "; more than " + std::to_string(kMostThreadsPerCore) +
                        " per core only wait for each other: lower \"threads\" in the mesh",
                    Exit::device);
  backend_ = open_backend(device);
  return *backend_;
}

}  // namespace motley
