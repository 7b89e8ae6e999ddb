// SPDX-License-Identifier: Apache-2.0
#include "app/outputs.h"

#include <motley/error.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "report/page.h"

namespace motley::app {

namespace {

namespace fs = std::filesystem;

struct KindFacts {
  OutputKind kind{};
  const char* name = nullptr;
  std::vector<std::string> keys{};  // of a JSON file, any of them at its top
  std::string_view starts{};        // of others
  std::size_t at = 0;               // where they start so
  std::string_view first{};         // their first character is one of these, and their first line is one word
};

const KindFacts& find(OutputKind kind) {
  static const std::vector<KindFacts> kinds{{OutputKind::plan, "a plan", {"decisions", "cuts"}},
                                            {OutputKind::picture, "an SVG picture", {}, "<svg"},
                                            {OutputKind::mesh, "a mesh", {"axes"}},
                                            {OutputKind::model, "a model", {"layers", "zoo"}},
                                            {OutputKind::layout, "a layout", {"split", "tensors", "place"}},
                                            {OutputKind::profile, "a profile", {"kernels"}},
                                            {OutputKind::trace, "a Chrome trace", {}, "{\"displayTimeUnit\""},
                                            {OutputKind::page, "a page of motley report", {}, kPageStart},
                                            {OutputKind::array, "a .npy array", {}, "\x93NUMPY"},
                                            {OutputKind::table, "a table of predictions", {}, "sample,"},
                                            {OutputKind::predictions, "a file of predictions", {"samples"}},
                                            {OutputKind::safetensors, "a .safetensors file", {}, "{", 8},
                                            {OutputKind::npz, "a .npz file", {}, "PK"},
                                            {OutputKind::svm_model, "a model of libsvm", {}, "svm_type"},
                                            {OutputKind::labels, "a file of labels", {}, {}, 0, "+-0123456789"}};
  return *std::find_if(kinds.begin(), kinds.end(), [&](const KindFacts& one) { return one.kind == kind; });
}

bool is_of(const KindFacts& kind, const fs::path& file) {
  constexpr std::size_t kStart = 32;
  std::ifstream in(file, std::ios::binary);
  if (kind.keys.empty()) {
    std::string start(kStart, '\0');
    in.read(start.data(), static_cast<std::streamsize>(start.size()));
    return start.substr(kind.at).starts_with(kind.starts) &&
           (kind.first.empty() || (kind.first.find(start.front()) != std::string_view::npos &&
                                   start.substr(0, start.find('\n')).find_first_of(" \t:") == std::string::npos));
  }
  if (std::error_code failed; fs::file_size(file, failed) > kByMotley.bytes) return false;
  const auto keys = json_keys(std::string(std::istreambuf_iterator<char>(in), {}));
  return keys && std::any_of(keys->begin(), keys->end(), [&](const std::string& key) { return Reader::is_one_of(key, kind.keys); });
}

[[noreturn]] void refuse(const std::string& option, const fs::path& file, const std::string& why) {
  throw UserError(option + " " + file.string() + " " + why + "; give another name", Exit::usage);
}

}  // namespace

void require_output(const std::string& option, const fs::path& file, OutputKind kind, Pipes pipes) {
  const bool updates = kind == OutputKind::profile;
  const KindFacts& facts = find(kind);
  if (!updates && was_read(file)) refuse(option, file, "is read by this command too and would be overwritten");
  if (fs::is_regular_file(file) && fs::file_size(file) > 0 && !is_of(facts, file))
    refuse(option, file, "exists and is not " + std::string(facts.name));
  require_writable(file, pipes);
}

void require_dump_folder(const fs::path& folder) {
  static const std::vector<std::string> ours{"inputs",   "weights_before",   "weights_after", "gradients",
                                             "f32",      "statistics_after", "batches.npy",   "logits.npy",
                                             "loss.npy", "label.npy",        "manifest.json"};
  std::error_code none;
  if (!fs::exists(fs::symlink_status(folder, none))) return;
  if (!fs::is_directory(folder, none)) refuse("--dump", folder, "is not a folder");
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (!Reader::is_one_of(entry.path().filename().string(), ours))
      refuse("--dump", entry.path(), "is not of an earlier dump, and the folder is not empty");
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory(none) && (entry.is_symlink(none) || !entry.is_regular_file(none)))
      refuse("--dump", entry.path(), "is a link or not a plain file, and would be written through");
    if (entry.is_directory(none) && entry.is_symlink(none)) refuse("--dump", entry.path(), "is a link to another folder");
    if (entry.is_regular_file(none) && was_read(entry.path()))
      refuse("--dump", entry.path(), "is read by this command too and would be overwritten");
  }
}

void require_not_in_job(const std::string& option, const fs::path& file, const Json& job) {
  if (const auto* text = std::get_if<std::string>(&job.value))
    if (std::error_code none; fs::path(*text).is_absolute() && fs::equivalent(*text, file, none))
      refuse(option, file, "is a file of the job and would be overwritten");
  if (const auto* list = std::get_if<Json::Array>(&job.value))
    for (const Json& one : *list) require_not_in_job(option, file, one);
  if (const auto* object = std::get_if<Json::Object>(&job.value))
    for (const Json::Member& one : *object) require_not_in_job(option, file, one.value);
}

}  // namespace motley::app
