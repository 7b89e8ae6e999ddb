// SPDX-License-Identifier: Apache-2.0
// A directory of a test's own, gone with it.
#pragma once
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace motley::testing {

struct Directory {
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "motley-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() { std::filesystem::remove_all(path); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::filesystem::path path;
};

}  // namespace motley::testing
