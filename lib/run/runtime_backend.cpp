// SPDX-License-Identifier: Apache-2.0
// Separate from runtime.cpp: programs that open no device need no kernels.
#include <motley/runtime.h>

#include <cstdlib>
#include <tuple>

#include "run/start.h"

namespace motley {

namespace {

constexpr int kMostThreadsPerCore = 16;

// Whether both are opened as the same backend: name and host make no difference, and the memory limit only on a GPU, where
// workspaces depend on it.
bool same_backend(const Device& a, const Device& b) {
  const auto facts = [](const Device& d) {
    return std::tuple(d.kind, d.index, d.isa, d.library, d.threads, d.cores, d.slowdown, d.tf32, d.deterministic,
                      d.kind == DeviceKind::cuda ? d.memory_bytes : 0);
  };
  return facts(a) == facts(b) && (a.of == nullptr) == (b.of == nullptr) && (a.of == nullptr || same_backend(*a.of, *b.of));
}

}  // namespace

Backend& Runtime::backend(const Mesh& mesh) {
  if (mesh.ranks() != ranks())
    throw UserError("the mesh has " + std::to_string(mesh.ranks()) + " devices, but " + std::to_string(ranks()) +
                    (ranks() == 1 ? " rank runs" : " ranks run") + "; start one rank per device: mpiexec -n " +
                    std::to_string(mesh.ranks()));
  const Device& device = mesh.device(rank());
  if (backend_ && !same_backend(*device_, device))
    throw UserError("rank " + std::to_string(rank()) + " has opened the device \"" + device_->name +
                    "\" of another mesh, which differs from \"" + device.name + "\" in more than its name" +
                    (device.kind == DeviceKind::cuda ? "" : " and memory limit") +
                    "; a Runtime has one device: give all its meshes the same one");
  if (backend_) return *backend_;
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
  device_ = std::make_unique<Device>(device);
  return *backend_;
}

}  // namespace motley
