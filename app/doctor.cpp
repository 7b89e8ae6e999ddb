// SPDX-License-Identifier: Apache-2.0
// motley doctor: what is installed, what is missing and how to get it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/backend.h>
#include <motley/error.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "app/console.h"
#include "app/cpu_isas.h"
#include "app/mpiexec.h"
#include "app/outputs.h"
#include "app/topology.h"
#include "app/verbs.h"
#include "base/control_groups.h"
#include "base/json.h"
#include "base/version.h"
#include "mesh/host_memory.h"
#include "mesh/mesh_json.h"
#include "mesh/mpi_session.h"
#include "run/shared_space.h"
#include "run/start.h"
#include "train/data_files.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

struct Findings {
  std::string lines{};
  std::vector<std::string> missing{}, packages{};
  void line(const std::string& what, const std::string& text) { lines += fmt::format("{:<12}{}\n", what, text); }
};

// The rest of the first line of a file that starts with `key` and ':'.
std::string line_of(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key))
      if (const std::size_t at = line.find(':'); at != std::string::npos)
        return line.substr(std::min(line.size(), line.find_first_not_of(" \t", at + 1)));
  return "";
}

double meminfo_bytes(const std::string& key) {
  std::istringstream text(line_of("/proc/meminfo", key));
  double kib = 0;
  return text >> kib ? kib * 1024 : 0;
}

void look_at_cpu(Findings& found, const HostFacts& host) {
  const auto backend = open_backend({.name = "cpu"});
  std::string libraries;
  for (const std::string& library : cpu_libraries()) {
    const auto one = open_backend({.name = "cpu", .library = library});
    libraries += fmt::format("{}{} (\"{}\"), uses {}", libraries.empty() ? "" : "; ", one->library(), library, one->isa());
  }
  if (cpu_libraries().size() > 1) libraries += "; a device without \"library\" uses the first";
  const std::vector<int> cores = allowed_cores();
  std::size_t physical = 0;
  for (const Socket& socket : host.sockets) physical += socket.cores.size();
  found.line("CPU", backend->model());
  found.line("cores", fmt::format("{} in {} socket{}; processing units allowed: {}", physical, host.sockets.size(),
                                  host.sockets.size() == 1 ? "" : "s", to_text(cores)));
  found.line(
      "ranks",
      fmt::format(
          "up to {} with one core each; predicted seconds assume a core for each rank, more ranks share cores and are slower",
          physical));
  if (const CpuQuota quota = cpu_quota(); quota.cores < static_cast<double>(cores.size()))
    found.line("CPU quota",
               fmt::format("{:g} cores' time for all processes of the control group {}: more ranks than that wait for it",
                           quota.cores, quota.group));
  found.line("ISA", fmt::format("{}", fmt::join(usable_isas(), " ")));
  found.line("libraries", libraries);
}

// On a machine without NVIDIA cards nothing counts as missing.
void look_at_gpus(Findings& found, const HostFacts& host) {
  std::map<std::string, int> models;
  for (const CudaGpu& gpu : host.cuda.gpus)
    models[fmt::format("{} ({}, {})", gpu.model, gpu.isa, bytes_text(static_cast<double>(gpu.memory_bytes)))]++;
  std::string text;
  for (const auto& [model, count] : models) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, model);
  if (text.empty()) text = host.cards > 0 ? fmt::format("{} NVIDIA card(s), none can be used", host.cards) : "none";
  found.line("GPUs", text);
  found.line("CUDA", host.cuda.library.empty() ? host.cuda.missing
                                               : host.cuda.library + (host.cuda.missing.empty() ? "" : "; " + host.cuda.missing));
  if (host.cards > 0 && !host.cuda.missing.empty()) found.missing.push_back("GPUs that can be used: " + host.cuda.missing);
}

std::string first_version(const fs::path& program) {
  std::string quoted = "'";
  for (const char c : program.string()) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  FILE* pipe = popen((quoted + "' --version 2>&1").c_str(), "r");
  if (pipe == nullptr) return "";
  std::array<char, 256> line{};
  std::string version;
  while (std::fgets(line.data(), line.size(), pipe) != nullptr)
    if (const std::string text(line.data()); version.empty() && text.find("Version:") != std::string::npos) {
      const std::size_t at = text.find_first_not_of(" \t", text.find(':') + 1);
      version = text.substr(at, text.find_last_not_of(" \n") + 1 - at);
    }
  return pclose(pipe) == 0 ? version : "";
}

void look_at_mpi(Findings& found, bool takes_device_memory) {
  try {
    const fs::path mpiexec = find_mpiexec();
    const std::string version = first_version(mpiexec);
    found.line("MPI", version.empty() ? mpiexec.string() + ": its version is unknown; expected MPICH's mpiexec"
                                      : fmt::format("MPICH {} ({}); GPU buffers {}", version, mpiexec.string(),
                                                    takes_device_memory ? "are sent and received directly (GPU-aware MPI)"
                                                                        : "are staged through host memory"));
    if (version.empty()) found.packages.emplace_back("mpich");
  } catch (const DeviceError&) {
    found.line("MPI", "no mpiexec");
    found.missing.emplace_back("mpiexec, which starts the ranks");
    found.packages.emplace_back("mpich");
  }
}

// ranks: of this node's mesh.
void look_at_limits(Findings& found, int ranks) {
  std::string memory =
      fmt::format("{}, {} available", bytes_text(meminfo_bytes("MemTotal")), bytes_text(meminfo_bytes("MemAvailable")));
  for (const MemoryLimit& limit : read_memory().limits)
    if (limit.id != 0 && static_cast<double>(limit.free) < meminfo_bytes("MemAvailable"))
      memory += fmt::format("; {} left of what {} may use", bytes_text(static_cast<double>(limit.free)), limit.name);
  found.line("memory", memory);
  const SharedSpace shared = shared_space();
  found.line("/dev/shm", shared.error.empty()
                             ? fmt::format("{}, {} free", bytes_text(shared.total_bytes), bytes_text(shared.free_bytes))
                             : shared.error);
  if (std::string fault = shared_space_fault(shared, std::max(2, ranks)); !fault.empty()) found.missing.push_back(std::move(fault));
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0)
    found.line("open files", fmt::format("{}, at most {}", files.rlim_cur, files.rlim_max));
}

void look_at_data(Findings& found) {
  try {
    found.line("data", "fashion_mnist (" + fashion_mnist_files({}).front().parent_path().string() + ")");
    return;
  } catch (const UserError&) {
    found.line("data", "none installed; synthetic needs none");
  }
  found.missing.emplace_back("the Fashion-MNIST images");
  found.packages.emplace_back("dataset-fashion-mnist");
}

}  // namespace

int doctor(const Options& options) {
  if (!options.mesh.empty()) require_output("--mesh", options.mesh, OutputKind::mesh);
  Console console(options, Console::Voice::speaks);
  const bool direct = mpi_takes_device_memory();  // first: a child process queries, and must not inherit a device
  const HostFacts host = host_facts();
  Findings found;
  found.line("motley", kMotleyVersion);
  look_at_cpu(found, host);
  look_at_gpus(found, host);
  look_at_mpi(found, direct);
  look_at_limits(found, mesh_of(host).ranks());
  look_at_data(found);
  for (const std::string& what : found.missing) found.line("missing", what);
  if (!found.packages.empty()) found.line("to get it", fmt::format("apt-get install {}", fmt::join(found.packages, " ")));
  if (found.missing.empty()) found.line("missing", "nothing");
  if (!options.mesh.empty()) {
    const Mesh mesh = mesh_of(host);
    write_file(options.mesh.string(), to_text(to_json(mesh), 2) + "\n");
    found.line("mesh", options.mesh.string());
    if (mesh.ranks() == 1)
      found.line("note",
                 "the mesh has one rank, so nothing will be split; to try motley on one CPU, give each rank some of its cores and "
                 "cap one's \"isa\" (configs/meshes/fast_slow.json)");
  }
  print_result(found.lines);
  return 0;
}

}  // namespace motley::app
