// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/device.h>

#include <string>
#include <vector>

#include "base/json.h"

namespace motley::bench {

// Starts this program as one rank per device, with these arguments, and reads the file that rank 0 wrote. Not 0: how it ended.
int launched(const std::vector<Device>& devices, std::vector<std::string> arguments, const std::string& file, Json& made);

}  // namespace motley::bench
