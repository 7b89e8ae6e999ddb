// SPDX-License-Identifier: Apache-2.0
#include "bench/support/launched.h"

#include "app/launcher.h"

namespace motley::bench {

int launched(const std::vector<Device>& devices, std::vector<std::string> arguments, const std::string& file, Json& made) {
  if (const int code = launch({.devices = devices, .arguments = std::move(arguments)}); code != 0) return code;
  Complaints complaints;
  made = *read_json(file, read_file(file), complaints);
  return 0;
}

}  // namespace motley::bench
