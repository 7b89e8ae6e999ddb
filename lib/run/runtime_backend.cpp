// SPDX-License-Identifier: Apache-2.0
// Apart from runtime.cpp: programs that open no device need no kernels.
#include <motley/runtime.h>

#include <cstdlib>

#include "run/start.h"

namespace motley {

Backend& Runtime::backend(const Mesh& mesh) {
  if (mesh.ranks() != ranks())
    throw UserError("the mesh has " + std::to_string(mesh.ranks()) + " devices, but " + std::to_string(ranks()) +
                    (ranks() == 1 ? " rank runs" : " ranks run") + "; start one rank per device: mpiexec -n " +
                    std::to_string(mesh.ranks()));
  if (backend_) return *backend_;
  const Device& device = mesh.device(rank());
  kind_ = to_string(device.kind);
  // The launcher's ranks are bound already, before their first thread.
  if (std::getenv("MOTLEY_CORES") == nullptr && !device.cores.empty()) bind_to_cores(device.cores);
  backend_ = open_backend(device);
  return *backend_;
}

}  // namespace motley
