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
    std::ofstream(file) << text;
    return file.string();
  }
  std::string at(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// The first lines of what f throws, one per complaint, without the folder; "fine" when it does not.
template <class F>
std::vector<std::string> said(const Folder& folder, F&& f) {
  try {
    f();
  } catch (const UserError& e) {
    std::vector<std::string> out;
    std::string text = e.what(), line;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      line = text.substr(begin, end - begin);
      begin = end + 1;
      if (line.starts_with("  ")) continue;
      for (std::size_t at; (at = line.find(folder.at(""))) != std::string::npos;) line.erase(at, folder.at("").size());
      out.push_back(line);
    }
    return out;
  }
  return {"fine"};
}

}  // namespace motley
