// SPDX-License-Identifier: Apache-2.0
#include "app/topology.h"

#include <hwloc.h>
#include <motley/error.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "run/start.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw DeviceError("hwloc_topology_init failed");
  Topology topology(raw);
  if (hwloc_topology_load(raw) != 0) throw DeviceError("hwloc_topology_load failed");
  return topology;
}

// The first allowed processing unit of each core below `object`.
std::vector<int> cores_of(hwloc_topology_t topology, hwloc_obj_t object, const std::set<int>& allowed) {
  std::vector<int> out;
  const auto add_first = [&](hwloc_const_cpuset_t set) {
    for (int unit = hwloc_bitmap_first(set); unit >= 0; unit = hwloc_bitmap_next(set, unit))
      if (allowed.contains(unit)) return out.push_back(unit);
  };
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_inside_cpuset_by_type(topology, object->cpuset, HWLOC_OBJ_CORE, core)) != nullptr)
    add_first(core->cpuset);
  std::sort(out.begin(), out.end());
  return out;
}

// Splits a socket's cores by their kind (hwloc's, slowest first).
void add_kinds(hwloc_topology_t topology, const std::vector<int>& cores, const std::string& name, std::vector<Socket>& out) {
  std::map<int, std::vector<int>> kinds;
  for (const int core : cores) {
    hwloc_bitmap_t one = hwloc_bitmap_alloc();
    hwloc_bitmap_only(one, static_cast<unsigned>(core));
    kinds[std::max(0, hwloc_cpukinds_get_by_cpuset(topology, one, 0))].push_back(core);
    hwloc_bitmap_free(one);
  }
  for (auto& [kind, own] : kinds)
    out.push_back({std::move(own), kinds.size() == 1 ? name : name + " core kind " + std::to_string(kind)});
}

std::vector<Socket> sockets() {
  const std::vector<int> list = allowed_cores();
  const std::set<int> allowed(list.begin(), list.end());
  const Topology topology = load_topology();
  std::vector<Socket> out;
  int number = 0;
  hwloc_obj_t package = nullptr;
  while ((package = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, package)) != nullptr)
    add_kinds(topology.get(), cores_of(topology.get(), package, allowed), "socket " + std::to_string(number++), out);
  if (out.empty()) out.push_back({list, "socket 0"});  // a machine that gives no topology
  return out;
}

std::size_t cards_in_proc() {
  std::error_code error;
  std::size_t cards = 0;
  for (fs::directory_iterator at("/proc/driver/nvidia/gpus", error), end; !error && at != end; at.increment(error)) cards++;
  return cards;
}

void find_gpus(HostFacts& host) {
  host.cuda = cuda_facts();
  if (host.cuda.gpus.empty()) host.cards = cards_in_proc();
}

}  // namespace

HostFacts host_facts() {
  HostFacts host;
  host.sockets = sockets();
  find_gpus(host);
  return host;
}

std::vector<std::vector<int>> units_by_core() {
  const std::vector<int> list = allowed_cores();
  std::set<int> left(list.begin(), list.end());
  const Topology topology = load_topology();
  std::vector<std::vector<int>> out;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_CORE, core)) != nullptr) {
    std::vector<int> units;
    for (int unit = hwloc_bitmap_first(core->cpuset); unit >= 0; unit = hwloc_bitmap_next(core->cpuset, unit))
      if (left.erase(unit) > 0) units.push_back(unit);
    if (!units.empty()) out.push_back(std::move(units));
  }
  for (const int unit : left) out.push_back({unit});
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<int> units_in_turn() {
  const std::vector<std::vector<int>> cores = units_by_core();
  std::vector<int> out;
  for (std::size_t k = 0, added = 1; added > 0; k++) {
    added = 0;
    for (const std::vector<int>& units : cores)
      if (k < units.size()) out.push_back(units[k]), added++;
  }
  return out;
}

Mesh mesh_of(const HostFacts& host) {
  std::vector<Device> devices;
  std::vector<Socket> sockets = host.sockets;
  for (std::size_t i = 0; i < host.cuda.gpus.size() && !sockets.empty(); i++)  // a core for the rank that drives the GPU
    if (std::vector<int>& cores = sockets[i % sockets.size()].cores; cores.size() > 1) cores.pop_back();
  for (std::size_t i = 0; i < host.cuda.gpus.size(); i++) {
    Device device;
    device.name = "gpu " + std::to_string(i);
    device.kind = DeviceKind::cuda;
    device.index = static_cast<int>(i);
    devices.push_back(std::move(device));
  }
  for (std::size_t i = 0; i < sockets.size(); i++) {
    Device device;
    device.name = sockets[i].name;
    device.threads = static_cast<int>(sockets[i].cores.size());
    device.cores = sockets[i].cores;
    devices.push_back(std::move(device));
  }
  const int ranks = static_cast<int>(devices.size());
  return {{{"all", ranks}}, std::move(devices)};
}

}  // namespace motley
