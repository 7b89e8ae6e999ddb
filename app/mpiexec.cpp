// SPDX-License-Identifier: Apache-2.0
#include "app/mpiexec.h"

#include <motley/error.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <set>
#include <utility>

#include "run/start.h"

namespace motley {

namespace {

std::vector<int> cores_of(const Device& device) {
  const Device& real = driven(device);
  return device.cores.empty() ? real.cores : device.cores;
}

std::string isa_of(const Device& device) {
  std::string isa = device.isa.empty() ? driven(device).isa : device.isa;
  std::transform(isa.begin(), isa.end(), isa.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return isa;
}

// Variables that a process manager sets for its processes; ours get them from our own manager.
constexpr std::array kForeign{
    "PMI_", "PMIX_", "OMPI_", "HYDI_", "MPI_LOCAL", "MOTLEY_CORES=", "MOTLEY_SPARE_CORES=", "MOTLEY_RUN_RECORDS="};

std::string terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? std::to_string(size.ws_col) : "80";
}

// Whether this kernel lets a process read another one's memory; where it does not, UCX warns if this is required of it.
bool reads_other_processes() {
  char from = 0, to = 0;
  const iovec local{&to, 1}, remote{&from, 1};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

bool is_rule(std::string_view line) {
  return line.size() > 40 && std::all_of(line.begin(), line.end() - 1, [](char c) { return c == '='; });
}

}  // namespace

bool on_one_host(const std::vector<Device>& devices) {
  return std::all_of(devices.begin(), devices.end(), [](const Device& d) { return d.host.empty(); });
}

std::filesystem::path find_mpiexec() {
  const char* path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  for (const char* name : {"mpiexec.mpich", "mpiexec"})
    for (std::size_t at = 0; at <= folders.size();) {
      const std::size_t end = std::min(folders.find(':', at), folders.size());
      const std::filesystem::path file = std::filesystem::path(folders.substr(at, end - at)) / name;
      if (end > at && access(file.c_str(), X_OK) == 0) return file;
      at = end + 1;
    }
  throw DeviceError("mpiexec, which starts the ranks, was not found; install it: apt-get install mpich");
}

std::vector<std::vector<int>> deal_cores(const std::vector<Device>& devices, const std::vector<int>& allowed) {
  std::set<int> named;
  for (const Device& d : devices)
    if (d.host.empty())
      for (int core : cores_of(d)) named.insert(core);
  std::vector<int> pool;
  for (int core : allowed)
    if (!named.contains(core)) pool.push_back(core);
  if (pool.empty()) pool = allowed;
  std::vector<std::vector<int>> dealt;
  std::size_t next = 0;
  for (const Device& d : devices) {
    std::vector<int> cores = cores_of(d);
    if (cores.empty() && d.host.empty()) {
      const auto threads = static_cast<std::size_t>(std::max(1, driven(d).threads));
      for (std::size_t i = 0; i < std::min(threads, pool.size()); i++) cores.push_back(pool[next++ % pool.size()]);
      std::sort(cores.begin(), cores.end());
    }
    dealt.push_back(std::move(cores));
  }
  return dealt;
}

std::vector<std::string> mpiexec_arguments(const std::filesystem::path& mpiexec, const std::vector<Device>& devices,
                                           const RankCommand& command) {
  for (const std::string& word : command.program) check(word != ":", "no argument of a rank is mpiexec's separator");
  const bool one_host = on_one_host(devices);
  // Without auto-cleanup the other ranks live until the launcher has seen which died first.
  std::vector<std::string> out{mpiexec.string(), "-disable-auto-cleanup"};
  std::string hosts;  // one per rank, in order
  for (const Device& d : devices) hosts += (hosts.empty() ? "" : ",") + (d.host.empty() ? "localhost" : d.host);
  if (!one_host) out.insert(out.end(), {"-hosts", hosts});
  // A leftover SLURM_JOB_ID would make mpiexec use Slurm. With shared memory alone no network socket is opened.
  if (one_host) out.insert(out.end(), {"-launcher", "fork", "-rmk", "user"});
  if (one_host && std::getenv("UCX_TLS") == nullptr)
    out.insert(out.end(), {"-genv", "UCX_TLS", reads_other_processes() ? "posix,sysv,self,cma" : "posix,sysv,self"});
  out.insert(out.end(), {"-genv", "MOTLEY_RUN_RECORDS", command.records.string(), "-genv", "MOTLEY_TTY",
                         isatty(STDERR_FILENO) == 1 ? "1" : "0", "-genv", "COLUMNS", terminal_columns()});
  const auto cores = deal_cores(devices, command.allowed_cores);
  std::vector<int> spare = command.allowed_cores;
  for (const std::vector<int>& its : cores)
    std::erase_if(spare, [&](int core) { return std::find(its.begin(), its.end(), core) != its.end(); });
  for (std::size_t r = 0; r < devices.size(); r++) {
    const Device& d = devices[r];
    if (r > 0) out.emplace_back(":");
    out.insert(out.end(), {"-n", "1"});
    out.insert(out.end(), {"-env", "OMP_NUM_THREADS", std::to_string(std::max(1, driven(d).threads))});
    if (!isa_of(d).empty() && driven(d).library != "eigen") out.insert(out.end(), {"-env", "ONEDNN_MAX_CPU_ISA", isa_of(d)});
    if (!cores[r].empty()) out.insert(out.end(), {"-env", "MOTLEY_CORES", to_text(cores[r])});
    if (!spare.empty() && d.host.empty()) out.insert(out.end(), {"-env", "MOTLEY_SPARE_CORES", to_text(spare)});
    out.insert(out.end(), {"-env", "MOTLEY_DEVICE", d.name, "-env", "MOTLEY_DEVICE_KIND", to_string(d.kind)});
    out.insert(out.end(), command.program.begin(), command.program.end());
  }
  return out;
}

std::vector<std::string> clean_environment(const std::vector<Device>& devices) {
  const bool here = on_one_host(devices);
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; entry++) {
    const std::string_view text(*entry);
    const bool foreign =
        std::any_of(kForeign.begin(), kForeign.end(), [&](const char* prefix) { return text.starts_with(prefix); });
    if (!foreign && !(here && text.starts_with("HYDRA_"))) out.emplace_back(text);
  }
  return out;
}

std::string BannerFilter::pass(std::string_view text) {
  constexpr std::string_view kSignal = "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: ";
  std::string out;
  for (const char c : text) {
    line_ += c;
    if (c != '\n') continue;
    const bool tail = line_.starts_with("This typically refers to a problem") || line_.starts_with("Please see the FAQ page");
    if (line_.starts_with("=   BAD TERMINATION") || line_.starts_with(kSignal)) {
      if (line_.starts_with(kSignal)) signal_ = line_.substr(kSignal.size(), line_.size() - kSignal.size() - 1);
      in_banner_ = true;
      held_.clear();
    } else if (in_banner_ && (tail || line_.starts_with("=   ") || is_rule(line_))) {
      // the banner continues
    } else if (line_ == "\n" || is_rule(line_)) {
      in_banner_ = false;
      if (line_ == "\n" && !held_.empty()) out += std::exchange(held_, "");
      held_ += line_;
    } else {
      in_banner_ = false;
      out += std::exchange(held_, "") + line_;
    }
    line_.clear();
  }
  return out;
}

std::string BannerFilter::rest() {
  return std::exchange(held_, "") + std::exchange(line_, "");
}

std::string NoiseFilter::pass(std::string_view text) {
  constexpr std::array<std::string_view, 2> speakers{"[mpiexec@", "[proxy:"};
  std::string out;
  for (const char c : text) {
    if (at_ == At::noise) {
      if (noise_.size() < 4096) noise_ += c;
    } else if (at_ == At::inside) {
      out += c;
    } else {
      begin_ += c;
      const auto may_be = [&](std::string_view s) { return s.starts_with(begin_); };
      if (std::find(speakers.begin(), speakers.end(), begin_) != speakers.end()) {
        at_ = At::noise;
        noise_ += std::exchange(begin_, "");
      } else if (std::none_of(speakers.begin(), speakers.end(), may_be)) {
        at_ = At::inside;
        out += std::exchange(begin_, "");
      }
    }
    if (c == '\n') at_ = At::begin;
  }
  return out;
}

std::string NoiseFilter::rest() {
  return std::exchange(begin_, "");
}

}  // namespace motley
