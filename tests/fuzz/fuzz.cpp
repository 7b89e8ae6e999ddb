// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace motley::fuzz {

namespace {

struct OwnFolder {
  OwnFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "motley-fuzz-XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, "cannot create " + name);
    path = name;
  }
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  std::filesystem::path path;
};

}  // namespace

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "motley-fuzz: %s\n", what.c_str());
  std::abort();
}

const std::filesystem::path& folder() {
  static const OwnFolder own;
  return own.path;
}

std::string file_of(const std::string& name, std::string_view bytes) {
  const std::string path = (folder() / name).string();
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  require(out.good(), "cannot write " + path);
  return path;
}

bool is_refusal(Exit code) {
  return code == Exit::data || code == Exit::missing || code == Exit::device || code == Exit::config;
}

}  // namespace motley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  motley::fuzz::take({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
