// SPDX-License-Identifier: Apache-2.0
#include "app/reach_hosts.h"

#include <motley/error.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/support/config_files.h"

using namespace motley;
using Catch::Matchers::Contains;

namespace {

std::vector<Device> on(const std::vector<std::string>& hosts) {
  std::vector<Device> out;
  for (const std::string& host : hosts) {
    out.emplace_back();
    out.back().name = "device " + std::to_string(out.size());
    out.back().host = host;
  }
  return out;
}

// What is said where `script` stands in for ssh.
std::string said(const std::string& script, const std::vector<std::string>& hosts) {
  const Folder folder("motley-hosts");
  const std::string file = folder.write("ssh", "#!/bin/bash\n" + script);
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  setenv("HYDRA_LAUNCHER_EXEC", script.empty() ? "/nowhere/ssh" : file.c_str(), 1);
  std::string out;
  try {
    reach_hosts(on(hosts));
  } catch (const DeviceError& e) {
    out = e.what();
  }
  unsetenv("HYDRA_LAUNCHER_EXEC");
  return out;
}

}  // namespace

TEST_CASE("hosts that answer are reached; this one is not asked") {
  CHECK(said("exit 0", {"", "far", "further", "far"}) == "");
  CHECK(said("exit 1", {"", "localhost", "127.0.0.1"}) == "");
}

TEST_CASE("a host that cannot be reached is named with its ranks and with what ssh said") {
  const std::string text = said("[[ $* == *far* ]] || exit 0; echo 'ssh: no such name' >&2; exit 255", {"", "near", "far", "far"});
  CHECK_THAT(text, Contains("host \"far\" of rank 2 (device 3), rank 3 (device 4) cannot be reached: ssh: no such name\n"));
  CHECK_THAT(text, !Contains("near"));
  CHECK_THAT(said("", {"far"}), Contains("No such file") && Contains("openssh-client"));
}
