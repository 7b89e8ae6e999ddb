// SPDX-License-Identifier: Apache-2.0
// Files in a folder of their own, and what is complained about them.
#pragma once
#include <motley/error.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace motley {

using Lines = std::vector<std::string>;

class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / (name + "-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }
  std::string at(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// The first line of every complaint, without the folder.
inline Lines complaints_in(const Folder& folder, const std::string& text) {
  Lines out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("  ")) continue;  // what the file says, the caret
    const std::string path = folder.at("");
    for (std::size_t at; (at = line.find(path)) != std::string::npos;) line.erase(at, path.size());
    out.push_back(line);
  }
  return out;
}

// What f complains about; "fine" when it does not.
template <class F>
Lines said(const Folder& folder, F&& f) {
  try {
    f();
  } catch (const UserError& e) {
    return complaints_in(folder, e.what());
  }
  return {"fine"};
}

inline std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  if (at == std::string::npos) throw InternalError("the text has no " + what);
  return text.replace(at, what.size(), with);
}

}  // namespace motley
