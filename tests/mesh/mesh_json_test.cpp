// SPDX-License-Identifier: Apache-2.0
// Mesh files: what is right is read, what is wrong is said at its place.
#include "mesh/mesh_json.h"

#include <catch2/catch.hpp>

#include "tests/support/config_files.h"

using namespace motley;

namespace {

const std::string kGood = R"({ "version": 1,
  "axes": [ { "name": "rows", "size": 2 }, { "name": "cols", "size": 2 } ],
  "devices": [
    { "name": "big gpu", "kind": "cuda", "index": 0, "memory_bytes": 20e9, "tf32": true, "deterministic": false },
    { "name": "fast cpu", "kind": "cpu", "threads": 1, "cores": [0] },
    { "kind": "cpu", "threads": 2, "cores": [1, 2], "isa": "avx2", "host": "node-2.local", "library": "eigen" },
    { "name": "slow", "kind": "emulated", "of": { "kind": "cpu", "threads": 3 }, "slowdown": 3.5 } ] }
)";

Lines said_of(const std::string& text) {
  const Folder folder("motley-mesh");
  const std::string file = folder.write("m.json", text);
  return said(folder, [&] { Mesh::load(file); });
}

}  // namespace

TEST_CASE("devices that are made in C++ have a mesh file's ranges") {
  const auto mesh_of = [](const Device& d) { return Mesh({{"all", 1}}, {d}); };
  CHECK_THROWS_WITH(mesh_of({.name = "a", .memory_bytes = -1}),
                    Catch::Contains("device \"a\": memory_bytes and index are at least 0"));
  CHECK_THROWS_WITH(mesh_of({.threads = 0}), Catch::Contains("device \"rank 0\"") && Catch::Contains("threads at least 1"));
  CHECK_THROWS_WITH(mesh_of({.isa = "avx3"}), Catch::Contains("isa is \"avx3\""));
  CHECK_THROWS_WITH(mesh_of({.library = "mkl"}), Catch::Contains("library is \"mkl\""));
  std::vector<Axis> axes;  // 2^72 ranks
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) axes.push_back({name, 4096});
  CHECK_THROWS_WITH(Mesh(axes, {}), "the axes make more than 2e9 ranks");
}

TEST_CASE("a mesh file is read whole") {
  const Folder folder(
      "motley-mesh gr\xc3\xb6\xc3\x9f"
      "e");
  const Mesh mesh = Mesh::load(folder.write("m.json", kGood));
  CHECK(mesh.ranks() == 4);
  CHECK(mesh.axes() == std::vector<Axis>{{"rows", 2}, {"cols", 2}});
  CHECK(mesh.device(0).kind == DeviceKind::cuda);
  CHECK(mesh.device(0).memory_bytes == 20000000000);
  CHECK(mesh.device(0).tf32);
  CHECK_FALSE(mesh.device(1).tf32);
  CHECK_FALSE(mesh.device(0).deterministic);
  CHECK(mesh.device(1).deterministic);
  CHECK(mesh.device(1).cores == std::vector<int>{0});
  CHECK(mesh.device(2).name == "rank 2");
  CHECK(mesh.device(2).isa == "avx2");
  CHECK(mesh.device(2).library == "eigen");
  CHECK(mesh.device(1).library.empty());
  CHECK(mesh.device(2).host == "node-2.local");
  CHECK(mesh.device(3).kind == DeviceKind::emulated);
  CHECK(mesh.device(3).slowdown == 3.5);
  REQUIRE(mesh.device(3).of);
  CHECK(mesh.device(3).of->threads == 3);
  CHECK(mesh.device(3).threads == 3);  // given once, true of both
  const Mesh again = Mesh::load(folder.write("again.json", to_text(to_json(mesh), 2)));
  CHECK(to_text(to_json(again)) == to_text(to_json(mesh)));
}

TEST_CASE("what is wrong in a mesh file") {
  const std::vector<std::tuple<std::string, std::string, Lines>> cases{
      {"\"version\": 1,", "", {"m.json:1:1: error: \"version\" is missing (version of the file format)"}},
      {"\"version\": 1", "\"version\": 2", {"m.json:1:14: error: /version: expected 1, found 2"}},
      {"\"threads\": 1, \"cores\": [0] },\n    { \"kind\": \"cpu\", \"threads\": 2, \"cores\": [1, 2], \"isa\": \"avx2\", "
       "\"host\": "
       "\"node-2.local\", \"library\": \"eigen\" },",
       "\"count\": 3 },",
       {"m.json:3:14: error: /devices: the axes make 2 x 2 = 4 ranks, but 5 devices are listed, each as often as its \"count\" "
        "says; "
        "list one device per rank"}},
      {"\"threads\": 1,",
       "\"count\": 0, \"threads\": 1,",
       {"m.json:5:51: error: /devices/1/count: expected an integer from 1 to 4096, found 0"}},
      {"\"threads\": 1,",
       "\"flops_per_second\": 1e9, \"threads\": 1,",
       {"m.json:5:62: error: /devices/1/flops_per_second: a device of kind \"cpu\" has no \"flops_per_second\"; it is a key of "
        "kind "
        "\"modelled\""}},
      {"] }\n",
       "],\n  \"links\": [ { \"between\": \"ranks\", \"seconds\": 0, \"bytes_per_second\": 1 } ] }\n",
       {"m.json:8:12: error: /links: no device is modelled: the links of devices that are here are measured; leave this out"}},
      {"\"axes\"", "\"axis\"", {"m.json:2:3: error: /axis: unknown key; did you mean \"axes\"?"}},
      {"\"size\": 2 }, {",
       "\"size\": 2.5 }, {",
       {"m.json:2:39: error: /axes/0/size: expected an integer from 1 to 4096, found 2.5"}},
      {"\"size\": 2 }, {",
       "\"size\": true }, {",
       {"m.json:2:39: error: /axes/0/size: expected an integer from 1 to 4096, found true"}},
      {"\"size\": 2 }, {",
       "\"size\": 3 }, {",
       {"m.json:3:14: error: /devices: the axes make 3 x 2 = 6 ranks, but 4 devices are listed; list one device per rank"}},
      {"\"size\": 2 }, {", "\"sise\": 2 }, {", {"m.json:2:31: error: /axes/0/sise: unknown key; did you mean \"size\"?"}},
      {"[ { \"name\": \"rows\", \"size\": 2 }, { \"name\": \"cols\", \"size\": 2 } ]",
       "\"automatic\"",
       {"m.json:2:11: error: /axes: expected \"auto\" or a list of { \"name\", \"size\" }, found \"automatic\""}},
      {"\"name\": \"cols\"", "\"name\": \"rows\"", {"m.json:2:44: error: /axes/1: axis \"rows\" is listed twice in the mesh"}},
      {"\"name\": \"cols\"",
       "\"name\": \"2cols\"",
       {"m.json:2:54: error: /axes/1/name: \"2cols\" is not a valid name: letters, digits, _ and -, a letter or _ first"}},
      {"\"index\": 0",
       "\"index\": 0, \"isa\": \"avx2\"",
       {"m.json:4:61: error: /devices/0/isa: a device of kind \"cuda\" has no \"isa\"; it is a key of kind \"cpu\""}},
      {"\"kind\": \"cuda\"",
       "\"kind\": \"gpu\"",
       {"m.json:4:34: error: /devices/0/kind: \"gpu\" is not known here; did you mean \"cuda\"?"}},
      {"20e9", "20.5", {"m.json:4:70: error: /devices/0/memory_bytes: expected an integer of at least 1, found 20.5"}},
      {"\"fast cpu\"", "\"big gpu\"", {"m.json:5:15: error: /devices/1/name: two devices are called \"big gpu\"; name them apart"}},
      {"\"cores\": [0]", "\"cores\": [0, 0]", {"m.json:5:69: error: /devices/1/cores/1: core 0 is listed twice"}},
      {"\"cores\": [0]", "\"cores\": 0", {"m.json:5:65: error: /devices/1/cores: expected a list, found 0"}},
      {"\"threads\": 1, ",
       "\"threads\": 0, ",
       {"m.json:5:53: error: /devices/1/threads: expected an integer from 1 to 4096, found 0"}},
      {"\"threads\": 1, ",
       "\"threads\": 1, \"threads\": 1, ",
       {"m.json:5:56: error: /devices/1/threads: this key is written twice; the first is at line 5, column 42"}},
      {"\"isa\": \"avx2\"",
       "\"isa\": \"avx3\"",
       {"m.json:6:60: error: /devices/2/isa: \"avx3\" is not known here; did you mean \"avx\"?"}},
      {"\"library\": \"eigen\"",
       "\"library\": \"dnnl\"",
       {"m.json:6:103: error: /devices/2/library: \"dnnl\" is not known here; did you mean \"onednn\"?"}},
      {"\"tf32\": true",
       "\"library\": \"eigen\"",
       {"m.json:4:87: error: /devices/0/library: a device of kind \"cuda\" has no \"library\"; it is a key of kind \"cpu\""}},
      {"node-2.local",
       "-oProxy",
       {"m.json:6:76: error: /devices/2/host: \"-oProxy\" is not a valid host name: letters, digits, . - and _, a letter or digit "
        "first"}},
      {"3.5", "0.5", {"m.json:7:94: error: /devices/3/slowdown: expected a number from 1 to 1000, found 0.5"}},
      {", \"slowdown\": 3.5",
       "",
       {"m.json:7:5: error: /devices/3: \"slowdown\" is missing; an emulated device is { \"kind\": \"emulated\", \"of\": { "
        "\"kind\": \"cpu\" }, \"slowdown\": 3.0 }"}},
      {"\"slowdown\": 3.5",
       "\"slowdown\": 3.5, \"threads\": 1",
       {"m.json:7:110: error: /devices/3/threads: \"threads\" is written here and in \"of\"; keep one"}},
      {"{ \"kind\": \"cpu\", \"threads\": 3 }",
       "{ \"kind\": \"emulated\" }",
       {"m.json:7:49: error: /devices/3/of: an emulated device slows down a cpu or a cuda device"}},
      {"{ \"kind\": \"cpu\", \"threads\": 3 }",
       "{ \"kind\": \"cpu\", \"threats\": 3 }",
       {"m.json:7:66: error: /devices/3/of/threats: unknown key; did you mean \"threads\"?"}}};
  for (const auto& [what, with, expected] : cases) {
    INFO(with);
    CHECK(said_of(replaced(kGood, what, with)) == expected);
  }
  CHECK(said_of("[]") == Lines{"m.json:1:1: error: expected an object, found a list"});
  CHECK(said_of(R"({"version": 1, "axes": [], "devices": []})") ==
        Lines{"m.json:1:24: error: /axes: a mesh has at least one axis"});
}

namespace {

const std::string kModelled = R"({ "version": 1,
  "axes": [ { "name": "all", "size": 5 } ],
  "devices": [
    { "name": "new", "kind": "modelled", "count": 2, "host": "a", "flops_per_second": 60e12, "memory_bytes_per_second": 2e12,
      "memory_bytes": 80e9, "granules": { "filters": 8, "batch": 4 }, "efficiency": { "conv2d": 0.5 },
      "launch_seconds": 4e-6, "cache_bytes": 50e6 },
    { "name": "old", "kind": "modelled", "count": 2, "host": "b", "flops_per_second": 15e12, "memory_bytes_per_second": 9e11 },
    { "name": "cpu", "kind": "cpu", "threads": 4 } ],
  "links": [
    { "between": "hosts", "seconds": 2e-6, "bytes_per_second": 12e9 },
    { "between": "ranks", "seconds": 1e-6, "bytes_per_second": 50e9 },
    { "between": ["old", "old"], "seconds": 3e-6, "bytes_per_second": 20e9 },
    { "between": ["new[1]", "old[0]"], "seconds": 4e-6, "bytes_per_second": 1e9 },
    { "between": ["new[1]", "old"], "seconds": 5e-6, "bytes_per_second": 2e9 } ] }
)";

}  // namespace

TEST_CASE("devices that are not here are described by numbers, and counted") {
  const Folder folder("motley-mesh");
  const Mesh mesh = Mesh::load(folder.write("m.json", kModelled));
  REQUIRE(mesh.ranks() == 5);
  CHECK(mesh.device(1).name == "new[1]");
  CHECK(mesh.device(3).name == "old[1]");
  CHECK(mesh.device(3).host == "b");
  CHECK(mesh.device(1).kind == DeviceKind::modelled);
  CHECK(mesh.device(1).memory_bytes == 80000000000);
  REQUIRE(mesh.device(1).numbers);
  const DeviceNumbers& numbers = *mesh.device(1).numbers;
  CHECK(numbers.flops_per_second == 60e12);
  CHECK(numbers.memory_bytes_per_second == 2e12);
  CHECK(numbers.granules.filters == 8);
  CHECK(numbers.granules.channels == 1);
  CHECK(numbers.granules.batch == 4);
  CHECK(numbers.efficiency.conv2d == 0.5);
  CHECK(numbers.efficiency.dense == 0.7);
  CHECK(numbers.efficiency.depthwise == 0.15);
  CHECK(numbers.efficiency.map == 1);
  CHECK(numbers.launch_seconds == 4e-6);
  CHECK(numbers.cache_bytes == 50000000);
  CHECK(mesh.device(4).numbers == nullptr);
  const auto seconds = [&](int from, int to) { return mesh.link(from, to)->seconds; };
  CHECK(seconds(0, 1) == 1e-6);
  CHECK(seconds(2, 3) == 3e-6);
  CHECK(seconds(0, 2) == 2e-6);
  CHECK(seconds(1, 2) == 4e-6);
  CHECK(seconds(2, 1) == 4e-6);
  CHECK(seconds(1, 3) == 5e-6);
  CHECK(seconds(4, 0) == 2e-6);
  const Mesh again = Mesh::load(folder.write("again.json", to_text(to_json(mesh), 2)));
  CHECK(to_text(to_json(again)) == to_text(to_json(mesh)));
  CHECK(again.links() == mesh.links());
  CHECK(mesh_notes(mesh).empty());
  const Mesh without =
      Mesh::load(folder.write("w.json", replaced(kModelled, "\"between\": \"hosts\"", "\"between\": [\"cpu\", \"new\"]")));
  REQUIRE(mesh_notes(without).size() == 1);
  CHECK_THAT(mesh_notes(without).front(),
             Catch::Contains("of different hosts") && Catch::Contains("5 us and 2e9 bytes per second"));
}

TEST_CASE("the index of counted GPUs counts up") {
  const Folder folder("motley-mesh");
  const Mesh mesh = Mesh::load(folder.write("m.json", R"({ "version": 1, "axes": [ { "name": "all", "size": 3 } ],
    "devices": [ { "kind": "cuda", "index": 1, "count": 2 }, { "name": "one", "kind": "cpu", "count": 1 } ] })"));
  CHECK(mesh.device(0).index == 1);
  CHECK(mesh.device(1).index == 2);
  CHECK(mesh.device(1).name == "rank 1");
  CHECK(mesh.device(2).name == "one[0]");
}

TEST_CASE("what is wrong in a mesh with modelled devices") {
  const std::vector<std::tuple<std::string, std::string, Lines>> cases{
      {"\"flops_per_second\": 60e12, ",
       "",
       {"m.json:4:5: error: /devices/0: \"flops_per_second\" is missing; a modelled device is { \"kind\": \"modelled\", "
        "\"flops_per_second\": 60e12, \"memory_bytes_per_second\": 2e12 }"}},
      {"60e12", "0", {"m.json:4:87: error: /devices/0/flops_per_second: expected a number of at least 1, found 0"}},
      {"\"filters\": 8",
       "\"filter\": 8",
       {"m.json:5:43: error: /devices/0/granules/filter: unknown key; did you mean \"filters\"?"}},
      {"\"batch\": 4",
       "\"batch\": 0.5",
       {"m.json:5:66: error: /devices/0/granules/batch: expected an integer from 1 to 65536, found 0.5"}},
      {"\"conv2d\": 0.5",
       "\"conv2d\": 1.5",
       {"m.json:5:97: error: /devices/0/efficiency/conv2d: expected a number above 0 and at most 1, found 1.5"}},
      {"\"launch_seconds\": 4e-6",
       "\"launch_seconds\": 4",
       {"m.json:6:25: error: /devices/0/launch_seconds: expected a number from 0 to 1, found 4"}},
      {"\"cache_bytes\": 50e6",
       "\"threads\": 2",
       {"m.json:6:42: error: /devices/0/threads: a device of kind \"modelled\" has no \"threads\"; it is a key of kind \"cpu\""}},
      {"{ \"name\": \"cpu\", \"kind\": \"cpu\", \"threads\": 4 }",
       "{ \"kind\": \"emulated\", \"slowdown\": 2, \"of\": { \"kind\": \"modelled\", \"flops_per_second\": 1e9, "
       "\"memory_bytes_per_second\": 1e9 } }",
       {"m.json:8:48: error: /devices/2/of: an emulated device slows down a cpu or a cuda device"}},
      {"\"name\": \"old\"",
       "\"name\": \"new\"",
       {"m.json:7:15: error: /devices/1/name: two devices are called \"new[0]\"; name them apart",
        "m.json:7:15: error: /devices/1/name: two devices are called \"new[1]\"; name them apart",
        "m.json:12:18: error: /links/2/between: the mesh has no device \"old\" (known: cpu, new, new[0], new[1])",
        "m.json:13:18: error: /links/3/between: the mesh has no device \"old[0]\" (known: cpu, new, new[0], new[1])",
        "m.json:14:18: error: /links/4/between: the mesh has no device \"old\" (known: cpu, new, new[0], new[1])"}},
      {"\"between\": \"ranks\"",
       "\"between\": \"rank\"",
       {"m.json:11:18: error: /links/1/between: \"rank\" is not known here; did you mean \"ranks\"?"}},
      {"\"between\": \"ranks\"",
       "\"between\": \"hosts\"",
       {"m.json:11:18: error: /links/1/between: a link between these is listed twice"}},
      {"[\"new[1]\", \"old[0]\"]", "[\"new[1]\"]", {"m.json:13:18: error: /links/3/between: expected two devices, found 1"}},
      {"[\"new[1]\", \"old[0]\"]",
       "[\"cpu\", \"cpu\"]",
       {"m.json:13:18: error: /links/3/between: expected two devices, found \"cpu\" twice"}},
      {"12e9", "0", {"m.json:10:64: error: /links/0/bytes_per_second: expected a number of at least 1, found 0"}}};
  for (const auto& [what, with, expected] : cases) {
    INFO(with);
    CHECK(said_of(replaced(kModelled, what, with)) == expected);
  }
}

TEST_CASE("modelled devices that are made in C++ have a mesh file's ranges") {
  Device device{.name = "a"};
  device.kind = DeviceKind::modelled;
  const auto made = [&](const std::vector<MeshLink>& links = {}) { return Mesh({{"all", 1}}, {device}, links); };
  CHECK_THROWS_WITH(made(), Catch::Contains("a modelled device has numbers"));
  DeviceNumbers numbers{.flops_per_second = 1e12, .memory_bytes_per_second = 1e11};
  device.numbers = std::make_shared<const DeviceNumbers>(numbers);
  CHECK_NOTHROW(made({{MeshLink::Between::ranks, "", "", 0, 1}}));
  CHECK_THROWS_WITH(made({{MeshLink::Between::ranks, "", "", 0, 0}}), Catch::Contains("bytes_per_second above 0"));
  CHECK_THROWS_WITH(made({{MeshLink::Between::devices, "a", "b", 0, 1}}), Catch::Contains("the mesh has no device \"b\""));
  CHECK_THROWS_WITH(Mesh({{"all", 1}}, {Device{.name = "a"}}, {{MeshLink::Between::ranks, "", "", 0, 1}}),
                    Catch::Contains("links are of a mesh with modelled devices"));
  numbers.granules.rows = 0;
  device.numbers = std::make_shared<const DeviceNumbers>(numbers);
  CHECK_THROWS_WITH(made(), Catch::Contains("granules at least 1"));
}

TEST_CASE("generic is an ISA of Eigen's kernels alone") {
  const std::string without = R"("isa": "generic")", onednn = without + R"(, "library": "onednn")",
                    eigen = without + R"(, "library": "eigen")";
  const std::string said_of_both =
      " has no kernels for \"generic\"; expected \"library\": \"eigen\" beside it, or its slowest, \"sse41\"";
  const auto with = [](const std::string& key, const std::string& keys) { return replaced(kGood, key, key + ", " + keys); };
  const std::string cpu = R"("name": "fast cpu", "kind": "cpu")", inner = R"("kind": "cpu", "threads": 3)",
                    outer = R"("slowdown": 3.5)";
  CHECK(said_of(with(cpu, onednn)) == Lines{"m.json:5:49: error: /devices/1/isa: oneDNN" + said_of_both});
  CHECK(said_of(with(inner, onednn)) == Lines{"m.json:7:87: error: /devices/3/of/isa: oneDNN" + said_of_both});
  CHECK(said_of(with(outer, onednn)) == Lines{"m.json:7:106: error: /devices/3/isa: oneDNN" + said_of_both});
  for (const std::string& key : {cpu, inner, outer}) CHECK(said_of(with(key, eigen)) == Lines{"fine"});
  // Without "library" it is the build that says which computes.
  const Lines by_default =
      cpu_libraries().front() == "eigen"
          ? Lines{"fine"}
          : Lines{"m.json:5:49: error: /devices/1/isa: oneDNN, which computes where no \"library\" is named," + said_of_both};
  CHECK(said_of(with(cpu, without)) == by_default);
}

TEST_CASE("all errors of a mesh file at once") {
  CHECK(said_of(R"({ "axes": [ { "name": "all", "size": 2 } ], "device": [],
  "devices": [ { "kind": "cpu", "treads": 1 }, { "kind": "cpu", "cores": [-1] }, { "name": "" } ] })") ==
        Lines{"m.json:1:1: error: \"version\" is missing (version of the file format)",
              "m.json:1:45: error: /device: unknown key; did you mean \"devices\"?",
              "m.json:2:14: error: /devices: the axes make 2 ranks, but 3 devices are listed; list one device per rank",
              "m.json:2:33: error: /devices/0/treads: unknown key; did you mean \"threads\"?",
              "m.json:2:75: error: /devices/1/cores/0: expected an integer from 0 to 65536, found -1",
              "m.json:2:82: error: /devices/2: \"kind\" is missing (cpu, cuda, emulated or modelled)",
              "m.json:2:92: error: /devices/2/name: a device's name has 1 to 64 characters, no control characters"});
}

TEST_CASE("a mesh file that is not there") {
  const Folder folder("motley-mesh");
  try {
    Mesh::load(folder.at("none.json"));
    FAIL("loaded");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::missing);
    CHECK(std::string(e.what()) == "no file " + folder.at("none.json"));
  }
}
