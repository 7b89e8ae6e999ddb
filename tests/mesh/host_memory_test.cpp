// SPDX-License-Identifier: Apache-2.0
// Memory of a host: what is read of a made tree of /proc and /sys, and what the ranks of a host may take together.
#include "mesh/host_memory.h"

#include <motley/error.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "tests/support/threads.h"

using namespace motley;
using Catch::Matchers::Contains;

namespace {

namespace fs = std::filesystem;

struct Tree {
  Tree() {
    std::string name = (fs::temp_directory_path() / "motley-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root = name;
    put("proc/meminfo", "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    800 kB\n");
  }
  ~Tree() { fs::remove_all(root); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }
  void group(const std::string& path, const std::string& limit, const std::string& used,
             const std::string& file_pages = "0") const {
    put("sys/fs/cgroup" + path + "/memory.max", limit + "\n");
    put("sys/fs/cgroup" + path + "/memory.current", used + "\n");
    put("sys/fs/cgroup" + path + "/memory.stat", "anon 5\ninactive_file " + file_pages + "\nactive_file 0\n");
  }
  fs::path root;
};

MemoryReading reading(const std::string& host, std::uint64_t free) {
  return {host, host, {{0, free, "the machine"}}};
}

// What each rank hears: "" or the error.
std::vector<std::string> verdicts(const std::vector<std::pair<std::uint64_t, MemoryReading>>& ranks) {
  std::vector<std::string> out(ranks.size());
  on_threads(static_cast<int>(ranks.size()), [&](Transport& t) {
    const auto r = static_cast<std::size_t>(t.rank());
    try {
      check_host_memory(t, ranks[r].first, ranks[r].second);
    } catch (const DeviceError& e) {
      out[r] = e.what();
    }
  });
  return out;
}

}  // namespace

TEST_CASE("host memory: the machine's, without control groups") {
  const Tree tree;
  CHECK(free_bytes(read_memory(tree.root)) == 800 * 1024);
  CHECK(free_bytes(read_memory(tree.root / "nothing")) == std::numeric_limits<std::uint64_t>::max());
  CHECK(free_bytes(read_memory()) < (std::uint64_t{1} << 60U));  // of this machine
}

TEST_CASE("host memory: every control group up to the root, less what is in use, plus file pages") {
  const Tree tree;
  tree.put("proc/self/cgroup", "0::/job/step\n");
  tree.group("/job/step", "max", "100000");
  tree.group("/job", "500000", "300000", "50000");
  tree.group("", "600000", "100000");
  const MemoryReading got = read_memory(tree.root);
  REQUIRE(got.limits.size() == 3);  // "max" limits nothing
  CHECK(free_bytes(got) == 250000);
  CHECK(got.limits[1].name == "the control group /job");
  CHECK(got.limits[1].id != got.limits[2].id);
  tree.group("/job/step", "10000", "20000");  // over its limit
  CHECK(free_bytes(read_memory(tree.root)) == 0);
}

TEST_CASE("host memory: version 1, and a path of which only the root is mounted") {
  const Tree tree;
  tree.put("proc/self/cgroup", "3:cpu,cpuacct:/x\n7:memory:/docker/0123\n0::/other\n");
  tree.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "400000\n");
  tree.put("sys/fs/cgroup/memory/memory.usage_in_bytes", "150000\n");
  tree.put("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 10000\ntotal_active_file 5000\n");
  CHECK(free_bytes(read_memory(tree.root)) == 265000);
}

TEST_CASE("host memory: the sum of a host's ranks is refused on all ranks, a sum that fits is not") {
  for (const std::string& text : verdicts({{60, reading("a", 100)}, {50, reading("a", 120)}, {90, reading("b", 100)}})) {
    CHECK_THAT(
        text,
        Contains(
            "the ranks of host a need 110 bytes of its memory together (rank 0 60, rank 1 50), but the machine has 100 bytes free; "
            "use a smaller batch, give the devices of this host smaller parts"));
  }
  for (const std::string& text :
       verdicts({{60, reading("a", 110)}, {50, reading("a", 120)}, {90, reading("b", 100)}, {0, reading("c", 0)}}))
    CHECK(text.empty());
  CHECK(verdicts({{101, reading("a", 100)}})[0].find("need 101 bytes") != std::string::npos);
}

TEST_CASE("host memory: ranks share the limits that are the same group's") {
  const MemoryLimit machine{0, 1000, "the machine"}, one{7, 100, "the control group /one"}, two{8, 100, "the control group /two"};
  const MemoryReading in_one{"m", "a", {machine, one}}, in_two{"m", "a", {machine, two}};
  for (const std::string& text : verdicts({{90, in_one}, {90, in_two}})) CHECK(text.empty());
  for (const std::string& text : verdicts({{90, in_one}, {90, in_one}}))
    CHECK_THAT(text, Contains("need 180 bytes") && Contains("the control group /one has 100"));
}
