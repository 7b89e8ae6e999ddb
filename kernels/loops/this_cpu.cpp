// SPDX-License-Identifier: Apache-2.0
#include "kernels/loops/this_cpu.h"

#include <motley/error.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

namespace motley::cpu {

namespace {

bool has(Simd simd) {
#if defined(__x86_64__)
  switch (simd) {
    case Simd::generic: return true;
    case Simd::sse41: return __builtin_cpu_supports("sse4.1");
    case Simd::avx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Simd::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
  }
#endif
  return simd == Simd::generic;
}

constexpr std::array kWidestFirst{Simd::avx512, Simd::avx2, Simd::sse41, Simd::generic};

}  // namespace

const std::string& isa_of(Simd simd) {
  static const std::array<std::string, 4> names{"generic", "sse41", "avx2", "avx512_core"};
  return names[static_cast<std::size_t>(simd)];
}

Simd simd_within(const std::string& cap) {
  const std::vector<std::string>& names = isa_names();
  const auto place = [&](const std::string& isa) { return std::find(names.begin(), names.end(), isa); };
  const auto most = cap.empty() ? names.end() : place(cap);
  if (!cap.empty() && most == names.end()) throw DeviceError("isa \"" + cap + "\" is unknown" + did_you_mean(cap, names));
  for (const Simd simd : kWidestFirst)
    if (has(simd) && place(isa_of(simd)) <= most) return simd;
  throw InternalError("no ISA is generic");
}

const Loops& loops_of(Simd simd) {
#if defined(__x86_64__)
  switch (simd) {
    case Simd::generic: return kLoopsGeneric;
    case Simd::sse41: return kLoopsSse41;
    case Simd::avx2: return kLoopsAvx2;
    case Simd::avx512: return kLoopsAvx512;
  }
#endif
  check(simd == Simd::generic, "an ISA of another architecture");
  return kLoopsGeneric;
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
  utsname name{};
  return uname(&name) == 0 ? std::string(name.machine) + " CPU" : "unknown CPU";
}

Index host_memory_bytes() {
  return Index{sysconf(_SC_PHYS_PAGES)} * Index{sysconf(_SC_PAGE_SIZE)};
}

void check_threads(const Device& device) {
  if (device.threads < 1)
    throw DeviceError("device \"" + device.name + "\" has " + std::to_string(device.threads) + " threads; it needs at least 1");
}

}  // namespace motley::cpu
