// SPDX-License-Identifier: Apache-2.0
#include "run/same_devices.h"

#include "base/at.h"
#include "profiler/measure_kernels.h"
#include "run/agreed.h"

namespace motley {

void require_same_devices(Runtime& rt, const Mesh& mesh, const Profile& profile, const std::string& file) {
  check_device_count(profile, mesh.ranks(), file);
  agreed(rt.transport(),
         [&] { check_same_device(at(profile.devices, rt.rank()), facts_of(mesh.device(rt.rank()), rt.backend(mesh)), file); });
}

}  // namespace motley
