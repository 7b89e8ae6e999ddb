// SPDX-License-Identifier: Apache-2.0
#include "kernels/open_cpu.h"

#include <motley/error.h>

#include <algorithm>

#include "kernels/eigen/eigen_backend.h"
#ifdef MOTLEY_ONEDNN
#include "kernels/cpu/cpu_backend.h"
#endif

namespace motley {

std::unique_ptr<Backend> open_cpu(const Device& device) {
  const std::vector<std::string>&names = cpu_library_names(), &built = cpu_libraries();
  const std::string& library = device.library.empty() ? built.front() : device.library;
  const auto is_in = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), library) != list.end();
  };
  if (!is_in(names))
    throw UserError("device \"" + device.name + "\": library \"" + library + "\" is unknown" + did_you_mean(library, names));
  if (!is_in(built))
    throw UserError(
        "device \"" + device.name + "\": this motley is built without the library \"" + library +
            "\"; write \"library\": \"eigen\", or build with oneDNN (libdnnl-dev; meson configure build -Donednn=enabled)",
        Exit::device);
#ifdef MOTLEY_ONEDNN
  if (library == "onednn") return open_cpu_backend(device);
#endif
  return open_eigen_backend(device);
}

}  // namespace motley
