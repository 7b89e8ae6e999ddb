// SPDX-License-Identifier: Apache-2.0
#include "base/core_use.h"

#include <sched.h>

#include <catch2/catch.hpp>

using namespace motley;

namespace {

constexpr const char* kStat =
    "cpu  900 90 9 90000 9 9 9 9 0 0\n"
    "cpu0 100 20 30 40000 500 6 7 8 60 1\n"
    "cpu1 1000 2 3 4 5 0 0 0 0 0\n"
    "cpu10 7 0 0 0 0 0 0 1000 0 0\n"
    "intr 12345 0 0\n"
    "ctxt 99\n";

}  // namespace

TEST_CASE("core use: busy time is all but idle and waiting for disks, guests once, steal too, of the named cores") {
  CHECK(busy_core_seconds(kStat, {0}, 100) == Approx((100 + 20 + 30 + 6 + 7 + 8) / 100.0));
  CHECK(busy_core_seconds(kStat, {1}, 100) == Approx(10.05));  // not cpu10's line
  CHECK(busy_core_seconds(kStat, {10}, 1000) == Approx(1.007));
  CHECK(busy_core_seconds(kStat, {0, 1}, 100) == Approx(11.76));
  CHECK(busy_core_seconds(kStat, {}, 100) == Approx(0));
}

TEST_CASE("core use: a core without a line, or an older line without steal, is not known") {
  CHECK_FALSE(busy_core_seconds(kStat, {0, 2}, 100));
  CHECK_FALSE(busy_core_seconds("", {0}, 100));
  CHECK_FALSE(busy_core_seconds("cpu 1\ncpu0 1 2 3 4 5 6 7\n", {0}, 100));
}

TEST_CASE("core use: a thread's waiting is the second number of its schedstat") {
  CHECK(*waited_seconds("206538 3730961 2\n") == Approx(3730961e-9));
  CHECK(*waited_seconds("0 0 0\n") == 0);
  CHECK_FALSE(waited_seconds(""));
  CHECK_FALSE(waited_seconds("17"));
}

TEST_CASE("core use: a share of this process's cores") {
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  const CoreUse use(cores);
  volatile double work = 0;
  for (int i = 0; i < 10'000'000; i++) work = work + i;
  const auto share = use.others_share();
  REQUIRE(share);
  CHECK(*share >= 0);
  CHECK(*share <= 1);
  CHECK_FALSE(CoreUse({100000}).others_share());  // no such core
}
