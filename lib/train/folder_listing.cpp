// SPDX-License-Identifier: Apache-2.0
#include "train/folder_listing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/error.h>

#include <algorithm>
#include <array>
#include <set>

namespace motley {

namespace fs = std::filesystem;

namespace {

// In the order in which they are preferred. The last ones are the usual names beside torchvision's ImageFolder.
constexpr std::array kTestNames{"test", "val", "valid", "validation"};
constexpr const char* kExpected = "expected train/CLASS/*.png or *.jpg, and test/ likewise";

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// The names in a folder, sorted. UserError (74)
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    out.push_back(at->path().filename().string());
  if (error) throw UserError(folder.string() + ": cannot be read: " + error.message(), Exit::io);
  std::sort(out.begin(), out.end());
  return out;
}

// The folders in `folder` that are called so, in letters of any size: that of these letters first.
std::vector<std::string> called(const fs::path& folder, const std::string& name) {
  std::vector<std::string> out;
  for (const std::string& its : names_in(folder))
    if (lower_case(its) == name && is_folder(folder / its)) out.push_back(its);
  std::stable_partition(out.begin(), out.end(), [&](const std::string& its) { return its == name; });
  return out;
}

std::vector<std::string> test_folders(const fs::path& folder) {
  std::vector<std::string> out;
  for (const char* name : kTestNames)
    for (std::string& its : called(folder, name)) out.push_back(std::move(its));
  return out;
}

class Lister {
 public:
  Lister(fs::path folder, const std::vector<std::string>& without, FolderListing& out)
      : folder_(std::move(folder)), without_(without.begin(), without.end()), out_(out) {}

  // classes: those that are known; null: each folder is one.
  void list(FolderPart& part, std::vector<std::string>* classes) {
    const fs::path at = folder_ / part.name;
    std::vector<std::string> found;
    for (const std::string& name : names_in(at)) {
      if (name.front() == '.')
        out_.hidden.push_back(part.name + "/" + name);
      else if (is_folder(at / name))
        found.push_back(name);
      else
        out_.elsewhere.push_back(part.name + "/" + name);
    }
    if (found.empty())
      throw UserError(at.string() + ": no folders in it; expected one for each class, with its images", Exit::missing);
    for (std::size_t c = 0; c < found.size(); c++)
      list_class(part, found[c], classes == nullptr ? c : number(at, found[c], *classes));
    if (part.files.empty())
      throw UserError(
          at.string() + ": no .png, .jpg or .jpeg file in its class folders" + (without_.empty() ? "" : " that is not damaged"),
          Exit::data);
    if (classes == nullptr) out_.classes = std::move(found);
  }

 private:
  static std::size_t number(const fs::path& at, const std::string& name, const std::vector<std::string>& classes) {
    const auto known = std::lower_bound(classes.begin(), classes.end(), name);
    if (known == classes.end() || *known != name)
      throw UserError((at / name).string() + ": the training data has no class of this name" + did_you_mean(name, classes),
                      Exit::data);
    return static_cast<std::size_t>(known - classes.begin());
  }
  void list_class(FolderPart& part, const std::string& name, std::size_t label) {
    const std::string at = part.name + "/" + name;
    const std::size_t before = part.files.size();
    for (const std::string& file : names_in(folder_ / at)) {
      const std::string path = at + "/" + file;
      if (file.front() == '.')
        out_.hidden.push_back(path);
      else if (is_folder(folder_ / path))
        out_.elsewhere.push_back(path + "/");
      else if (!is_picture_name(file))
        out_.others.push_back(path);
      else if (!without_.contains(path))
        part.files.push_back(name + "/" + file);
    }
    if (part.files.size() == before) out_.empty.push_back(at);
    part.labels.resize(part.files.size(), static_cast<std::int32_t>(label));
  }

  const fs::path folder_;
  const std::set<std::string> without_;
  FolderListing& out_;
};

// "; 3 hidden files ignored (a, b, ...)".
std::string passed_over(const std::vector<std::string>& names, const char* one, const char* several) {
  constexpr std::size_t kMost = 3;
  if (names.empty()) return "";
  const std::vector<std::string> shown(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size())));
  return fmt::format("; {} {} ({}{})", names.size(), names.size() == 1 ? one : several, fmt::join(shown, ", "),
                     names.size() > kMost ? ", ..." : "");
}

}  // namespace

std::string FolderListing::text() const {
  const std::size_t all = train.files.size() + test.files.size();
  return fmt::format("{} picture{} in {} class{}", all, all == 1 ? "" : "s", classes.size(), classes.size() == 1 ? "" : "es") +
         passed_over(others, "file of another kind ignored", "files of another kind ignored") +
         passed_over(hidden, "hidden file ignored", "hidden files ignored") +
         passed_over(elsewhere, "entry that is neither a class nor a picture of one ignored",
                     "entries that are neither classes nor pictures of one ignored") +
         passed_over(empty, "class is empty", "classes are empty") +
         passed_over(unused, "folder beside it is not used", "folders beside it are not used");
}

FolderListing list_folder(const fs::path& folder, const std::vector<std::string>& without) {
  if (!is_folder(folder)) throw UserError(folder.string() + ": there is no such folder", Exit::missing);
  const std::vector<std::string> trains = called(folder, "train");
  if (trains.empty()) throw UserError(folder.string() + ": there is no folder \"train\" in it; " + kExpected, Exit::missing);
  FolderListing out;
  Lister lister(folder, without, out);
  out.train.name = trains.front();
  lister.list(out.train, nullptr);
  std::error_code missing;
  if (const fs::path test = folder / "test";
      !is_folder(test) && fs::symlink_status(test, missing).type() != fs::file_type::not_found)
    throw UserError(test.string() + ": not a folder; expected test/CLASS/*.png or *.jpg, or nothing of this name", Exit::data);
  const std::vector<std::string> tests = test_folders(folder);
  if (tests.empty()) return out;
  out.test.name = tests.front();
  out.unused.assign(tests.begin() + 1, tests.end());
  lister.list(out.test, &out.classes);
  return out;
}

std::string test_folder(const fs::path& folder) {
  if (!is_folder(folder)) return "";
  try {
    const std::vector<std::string> tests = test_folders(folder);
    return tests.empty() ? "" : tests.front();
  } catch (const UserError&) {  // a folder that cannot be read: said where its samples are needed
    return "";
  }
}

bool is_picture_name(const std::string& file) {
  const std::string ending = lower_case(fs::path(file).extension().string());
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

std::vector<std::string> pictures_below(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::follow_directory_symlink, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.front() == '.')
      at.disable_recursion_pending();
    else if (!is_folder(at->path()) && is_picture_name(name))
      out.push_back(at->path().lexically_relative(folder).string());
  }
  if (error) throw UserError(folder.string() + ": cannot be read: " + error.message(), Exit::io);
  if (out.empty()) throw UserError(folder.string() + ": no .png, .jpg or .jpeg file in it", Exit::missing);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace motley
