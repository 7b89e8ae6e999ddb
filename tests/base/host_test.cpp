// SPDX-License-Identifier: Apache-2.0
#include "base/host.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST_CASE("host: a name is as long as Linux takes them") {
  const std::string longest(64, 'h');
  const pid_t child = fork();
  if (child == 0) {  // with a name of its own, where it may have one
    if (unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0 || sethostname(longest.data(), longest.size()) != 0) _exit(77);
    _exit(host_name() == longest ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
}
