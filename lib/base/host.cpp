// SPDX-License-Identifier: Apache-2.0
#include "base/host.h"

#include <unistd.h>

#include <array>
#include <fstream>

namespace motley {

std::string host_name() {
  std::array<char, 64> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string machine_id(const std::filesystem::path& root) {
  std::ifstream boot(root / "proc/sys/kernel/random/boot_id");
  std::string id;
  return boot >> id ? id : host_name();
}

}  // namespace motley
