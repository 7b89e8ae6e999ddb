// SPDX-License-Identifier: Apache-2.0
#include "base/host.h"

#include <motley/error.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>

namespace motley {

double seconds_of_environment(const char* variable, double usual) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return usual;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != 0 || !(value > 0) || !std::isfinite(value))
    throw UserError(std::string(variable) + "=" + text + " in the environment: expected a number of seconds above 0");
  return value;
}

std::string host_name() {
  std::array<char, kHostNameSize> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string machine_id(const std::filesystem::path& root) {
  std::ifstream boot(root / "proc/sys/kernel/random/boot_id");
  std::string id;
  return boot >> id ? id : host_name();
}

}  // namespace motley
