// SPDX-License-Identifier: Apache-2.0
#include "base/host.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "base/control_groups.h"
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

TEST_CASE("host: the least quota of a process's control groups, of both versions") {
  const testing::Directory root;
  const auto put = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root.path / file).parent_path());
    std::ofstream(root.path / file) << text << "\n";
  };
  CHECK(std::isinf(cpu_quota(root.path).cores));
  put("proc/self/cgroup", "5:cpu,cpuacct:/docker/0123\n0::/job/step");
  put("sys/fs/cgroup/job/step/cpu.max", "max 100000");
  CHECK(std::isinf(cpu_quota(root.path).cores));
  put("sys/fs/cgroup/job/cpu.max", "250000 100000");
  CHECK(cpu_quota(root.path).cores == 2.5);
  CHECK(cpu_quota(root.path).group == "/job");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");  // the host's path is not mounted here: its root is
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  CHECK(cpu_quota(root.path).cores == 2.5);
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000");
  CHECK(cpu_quota(root.path).cores == 0.5);
  CHECK(cpu_quota(root.path).group == "/");
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
