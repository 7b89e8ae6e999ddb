// SPDX-License-Identifier: Apache-2.0
#include "base/npy.h"

#include <motley/error.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "base/files.h"

using namespace motley;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("motley-npy-test-" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
};

std::string bytes_of_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

Exit code_of(const fs::path& path) {
  try {
    read_npy(path);
  } catch (const UserError& e) {
    CHECK(std::string(e.what()).find(path.string()) != std::string::npos);
    return e.code();
  }
  return Exit::ok;
}

template <class T>
void round_trip(const fs::path& path, const std::vector<Index>& extents, const std::vector<T>& values) {
  write_npy(path, extents, std::span<const T>(values));
  const NpyArray back = read_npy(path);
  CHECK(back.extents == extents);
  REQUIRE(std::holds_alternative<std::vector<T>>(back.data));
  CHECK(std::get<std::vector<T>>(back.data) == values);
}

}  // namespace

TEST_CASE("what is written is read back, of every type and rank") {
  Folder folder;
  const fs::path file = folder.path / "x.npy";
  round_trip<float>(file, {2, 3}, {1, -2, 3.5F, 0, 1e-38F, std::numeric_limits<float>::infinity()});
  round_trip<double>(file, {4}, {1.0 / 3, -0.0, 1e300, 5});
  round_trip<std::int32_t>(file, {2, 1, 2}, {1, -2, 2147483647, -2147483648});
  round_trip<std::int64_t>(file, {}, {1LL << 60});
  round_trip<float>(file, {3, 0, 2}, {});
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);  // nothing left beside it
}

TEST_CASE("the file is NumPy's, byte for byte") {
  Folder folder;
  const fs::path file = folder.path / "x.npy";
  const std::vector<std::int32_t> values{1, 2};
  write_npy(file, {2}, std::span<const std::int32_t>(values));
  // numpy.save(file, numpy.array([1, 2], '<i4')), as numpy.lib.format lays it out
  std::string expected = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }";
  expected.append(127 - expected.size(), ' ');
  expected += std::string("\n\x01\x00\x00\x00\x02\x00\x00\x00", 9);
  CHECK(bytes_of_file(file) == expected);
}

TEST_CASE("a damaged or missing file is refused by name and code") {
  Folder folder;
  const fs::path file = folder.path / "x.npy";
  CHECK(code_of(folder.path / "none.npy") == Exit::missing);
  CHECK(code_of(folder.path) == Exit::missing);
  const std::vector<double> values(100, 1.5);
  write_npy(file, {10, 10}, std::span<const double>(values));
  const std::string good = bytes_of_file(file);
  CHECK(code_of(file) == Exit::ok);
  for (std::size_t size = 0; size < good.size(); size += 7) {
    put(file, good.substr(0, size));
    CHECK(code_of(file) == Exit::data);
  }
  put(file, good + "x");
  CHECK(code_of(file) == Exit::data);
  auto changed = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    put(file, bad);
    return code_of(file);
  };
  CHECK(changed("False", "True ") == Exit::data);
  CHECK(changed("<f8", "<c8") == Exit::data);
  CHECK(changed("<f8", ">f8") == Exit::data);
  CHECK(changed("10, 10", "1e, 10") == Exit::data);
  CHECK(changed("(10, 10), }                    ", "(9999999999999, 9999999999999), }") == Exit::data);
  CHECK(changed("shape", "shapo") == Exit::data);
}

TEST_CASE("a header that version 1.0 cannot have is refused") {
  CHECK_THROWS_WITH(npy_start("<f4", std::vector<Index>(30000, 1)), Catch::Contains("a tensor of 30000 dims"));
}

TEST_CASE("a file that cannot be written says so and leaves the old one") {
  Folder folder;
  CHECK_THROWS_AS(write_pieces(folder.path / "no" / "such" / "x.npy", {}), UserError);
  fs::create_directory(folder.path / "taken");
  CHECK_THROWS_AS(write_pieces(folder.path / "taken", {}), UserError);
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);
}
