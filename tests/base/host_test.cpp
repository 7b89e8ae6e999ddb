// SPDX-License-Identifier: Apache-2.0
#include "base/host.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/directory.h"

using namespace motley;

TEST_CASE("host: a machine is known by its boot id, else by its name") {
  const testing::Directory root;
  CHECK(machine_id(root.path) == host_name());
  const auto folder = root.path / "proc/sys/kernel/random";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "boot_id") << "0c5c1d7e-36c5-4f0e-9d0f-4f0a4bd9b2d5\n";
  CHECK(machine_id(root.path) == "0c5c1d7e-36c5-4f0e-9d0f-4f0a4bd9b2d5");
  CHECK(!host_name().empty());
}
