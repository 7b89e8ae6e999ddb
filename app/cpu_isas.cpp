// SPDX-License-Identifier: Apache-2.0
#include "app/cpu_isas.h"

#include <motley/device.h>

#include <fstream>
#include <map>

namespace motley {

std::vector<std::string> usable_isas() {
  static const std::map<std::string, std::string> flags{{"sse41", "sse4_1"},
                                                        {"avx", "avx"},
                                                        {"avx2", "avx2"},
                                                        {"avx2_vnni", "avx_vnni"},
                                                        {"avx512_core", "avx512bw"},
                                                        {"avx512_core_vnni", "avx512_vnni"},
                                                        {"avx512_core_bf16", "avx512_bf16"}};
  std::string here;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; here.empty() && std::getline(file, line);)
    if (line.starts_with("flags")) here = " " + line.substr(line.find(':') + 1) + " ";
  std::vector<std::string> out;
  for (const std::string& isa : isa_names())
    if (const auto flag = flags.find(isa);
        isa == "generic" || (flag != flags.end() && here.find(" " + flag->second + " ") != std::string::npos))
      out.push_back(isa);
  return out;
}

}  // namespace motley
