// SPDX-License-Identifier: Apache-2.0
#include "base/open_directory.h"

#include <motley/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <iterator>

#include "base/files.h"
#include "tests/support/directory.h"

namespace motley {
namespace {

namespace fs = std::filesystem;
using Kind = OpenDirectory::Kind;

std::string text_in(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

Exit code_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.code();
  }
  return Exit::ok;
}

TEST_CASE("open directory: its contents are listed, each with its kind, and no link in it is followed") {
  const testing::Directory in;
  fs::create_directories(in.path / "run/checkpoints/step-1");
  const OpenDirectory run(in.path / "run");
  write_text(run / "a", "text");
  std::ofstream(in.path / "outside") << "precious";
  fs::create_directory(in.path / "others");
  std::ofstream(in.path / "others/file") << "precious";
  fs::create_symlink("../outside", in.path / "run/link");
  fs::create_symlink("../others", in.path / "run/folder");
  REQUIRE(::mkfifo((in.path / "run/pipe").c_str(), 0600) == 0);

  CHECK(run.names() == std::vector<std::string>{"a", "checkpoints", "folder", "link", "pipe"});
  CHECK(run.kind("a") == Kind::file);
  CHECK(run.kind("checkpoints") == Kind::directory);
  CHECK(run.kind("link") == Kind::other);
  CHECK(run.kind("b") == Kind::none);
  CHECK(run.why_not("a", Kind::file).empty());
  CHECK(run.why_not("b", Kind::file).empty());
  CHECK(run.why_not("a", Kind::directory) == "is a file; expected a directory");
  CHECK(run.why_not("checkpoints", Kind::file) == "is a directory; expected a file");
  CHECK(run.why_not("link", Kind::file) == "is a symbolic link; expected the file itself");
  CHECK(run.why_not("pipe", Kind::file) == "is a pipe; expected a file");

  CHECK(InputFile(run / "a").text() == "text");
  CHECK(code_of([&] { InputFile(run / "link"); }) == Exit::data);
  CHECK(code_of([&] { write_text(run / "link", "new"); }) == Exit::io);
  CHECK(code_of([&] { write_text(run / "pipe", "new"); }) == Exit::io);
  CHECK(code_of([&] { static_cast<void>(run.find("folder")); }) == Exit::io);
  CHECK(code_of([&] { static_cast<void>(run.made("link")); }) == Exit::io);
  CHECK(!run.find("b"));
  CHECK(run.find("checkpoints")->names() == std::vector<std::string>{"step-1"});

  fs::create_symlink("../../../others", in.path / "run/checkpoints/step-1/folder");
  run.remove_all("checkpoints");
  run.remove_all("folder");
  run.remove_all("link");
  run.rename("a", run / "z");
  CHECK(run.names() == std::vector<std::string>{"pipe", "z"});
  CHECK(text_in(in.path / "outside") == "precious");
  CHECK(text_in(in.path / "others/file") == "precious");
}

TEST_CASE("open directory: one that is renamed, replaced or removed is written no more") {
  const testing::Directory in;
  fs::create_directories(in.path / "run/inner");
  fs::create_symlink("run", in.path / "link");
  const OpenDirectory run(in.path / "run"), inner = run.made("inner"), linked(in.path / "link");
  for (const OpenDirectory& one : {run, inner, linked}) CHECK(one.is_here());
  fs::rename(in.path / "run", in.path / "moved");
  for (const OpenDirectory& one : {run, inner, linked}) {
    CHECK(!one.is_here());
    CHECK(code_of([&] { write_text(one / "file", ""); }) == Exit::io);
    CHECK(code_of([&] { static_cast<void>(one.made("more")); }) == Exit::io);
  }
  fs::create_directories(in.path / "run/inner");  // another one
  CHECK(!run.is_here());
  CHECK(!inner.is_here());
  fs::remove_all(in.path / "run");
  fs::rename(in.path / "moved", in.path / "run");
  CHECK(inner.is_here());
  {
    NewFile file(run / "file");
    fs::remove_all(in.path / "run/inner");
    CHECK(!inner.is_here());
    CHECK(run.is_here());
    fs::remove_all(in.path / "run");
    CHECK(code_of([&] { file.keep(); }) == Exit::io);
  }
  CHECK(code_of([&] { OpenDirectory(in.path / "run"); }) == Exit::io);
}

TEST_CASE("files: those that were read are known, by whatever name") {
  const testing::Directory in;
  for (const char* name : {"read", "not"}) std::ofstream(in.path / name) << "text";
  fs::create_symlink("read", in.path / "link");
  CHECK(!was_read(in.path / "read"));
  CHECK(InputFile(in.path / "read").size() == 4);
  CHECK(was_read(in.path / "link"));
  CHECK(!was_read(in.path / "not"));
  CHECK(!was_read(in.path / "none"));
}

}  // namespace
}  // namespace motley
