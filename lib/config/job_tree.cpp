// SPDX-License-Identifier: Apache-2.0
#include "config/job_tree.h"

#include <motley/dims.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "base/utf8.h"
#include "config/data_options.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kParts{"mesh", "model", "layout", "data", "train"};

// `file` relative to the current directory, without `..` detours if that names the same file.
std::string tidy(const fs::path& file) {
  std::error_code failed;
  const fs::path normal = file.lexically_normal();
  return fs::equivalent(file, normal, failed) ? normal.string() : file.string();
}

Json* member(Json& j, const std::string& key) {
  if (auto* o = std::get_if<Json::Object>(&j.value))
    for (Json::Member& m : *o)
      if (m.key == key) return &m.value;
  return nullptr;
}

// Marks every node of `j`, and every key in it, as being in `source`.
void take_over(Json& j, const std::shared_ptr<const Source>& source) {
  j.where.source = source;
  if (auto* o = std::get_if<Json::Object>(&j.value))
    for (Json::Member& m : *o) {
      m.where.source = source;
      take_over(m.value, source);
    }
  if (auto* a = std::get_if<Json::Array>(&j.value))
    for (Json& one : *a) take_over(one, source);
}

// The longest existing key of `o` that begins here (keys may hold dots), else the text up to the next dot.
std::size_t end_of_key(const Json::Object* o, const std::string& argument, std::size_t begin, std::size_t end) {
  for (std::size_t stop = end; stop > begin && o != nullptr; stop = argument.rfind('.', stop - 1)) {
    if (stop == std::string::npos || stop <= begin) break;
    const std::string key = argument.substr(begin, stop - begin);
    if (std::any_of(o->begin(), o->end(), [&](const Json::Member& m) { return m.key == key; })) return stop;
  }
  return std::min(argument.find('.', begin), end);
}

// Whether a text that is not JSON is a bare word: neither the beginning of an object, a list or a text, nor a number that is too
// large.
bool is_bare_word(const std::string& value) {
  const std::size_t first = value.find_first_not_of(' '), last = value.find_last_not_of(' ');
  if (first != std::string::npos && std::string("{[\"").find(value[first]) != std::string::npos) return false;
  if (value.find_first_not_of("0123456789+-.eE ") != std::string::npos) return true;
  char* end = nullptr;
  return !std::isinf(std::strtod(value.c_str(), &end)) || end != value.c_str() + last + 1;
}

}  // namespace

bool JobTree::load(const std::string& path) {
  auto root = read_json(path, read_file(path), complaints_);
  if (!root) return false;
  root_ = std::move(*root);
  join_parts();
  return true;
}

bool JobTree::parse(const std::string& name, const std::string& text) {
  auto root = read_json(name, text, complaints_, kByMotley);  // joined from several files
  if (!root) return false;
  root_ = std::move(*root);
  join_parts();
  return true;
}

std::string JobTree::folder_of(const Where& where) const {
  if (where.source == nullptr || sets_.contains(where.source.get())) return "";
  return fs::path(where.source->name).parent_path().string();
}

void JobTree::join_parts() {
  for (const std::string& key : kParts) {
    Json* part = member(root_, key);
    const auto* text = part == nullptr ? nullptr : std::get_if<std::string>(&part->value);
    if (text == nullptr || broken(key) || (key == "layout" && *text == "auto")) continue;
    const std::string path = *text;
    const std::string pointer = "/" + key;
    auto refuse = [&](const std::string& why, Exit code = Exit::config) {
      complaints_.add(part->where, pointer, why, code);
      broken_.insert(key);
    };
    if (path.empty() || path.find('\0') != std::string::npos) {
      refuse("expected the path of a file, or the object itself");
      continue;
    }
    if (key == "data" && path.find_first_of("./") == std::string::npos) {
      refuse("expected an object, e.g. { \"kind\": \"" + path + "\" }, or the path of a file that holds one");
      continue;
    }
    try {
      const std::string file = tidy(fs::path(folder_of(part->where)) / path);
      auto tree = read_json(file, read_file(file), complaints_);
      if (!tree) {
        broken_.insert(key);
        continue;
      }
      files_.emplace(tree->where.source.get(), key);
      kept_.push_back(tree->where.source);
      *part = std::move(*tree);
    } catch (const UserError& e) {
      refuse(e.what(), e.code());
    }
  }
}

// The pointer of KEY.KEY, as far as the tree has these keys.
std::string JobTree::pointer_of(const std::string& keys) const {
  std::string out;
  const Json* at = &root_;
  for (std::size_t begin = 0; begin < keys.size();) {
    const auto* object = at == nullptr ? nullptr : std::get_if<Json::Object>(&at->value);
    const std::size_t end = end_of_key(object, keys, begin, keys.size());
    const std::string key = keys.substr(begin, end - begin);
    out += "/" + pointer_token(key);
    at = at == nullptr ? nullptr : at->at("/" + pointer_token(key));
    begin = end + 1;
  }
  return out;
}

void JobTree::set(const std::string& argument) {
  const auto source = std::make_shared<const Source>(Source{"--set", argument});
  sets_.insert(source.get());
  kept_.push_back(source);
  const std::size_t eq = argument.find('=');
  if (eq == std::string::npos || eq == 0) return complaints_.add({source, 0}, "", "expected KEY.KEY=VALUE, e.g. train.batch=64");
  if (eq + 1 == argument.size()) return complaints_.add({source, eq}, "", "a value is missing after this =");
  Complaints own;
  auto value = read_json("--set", std::string(eq + 1, ' ') + argument.substr(eq + 1), own);  // padded: columns stay right
  if (!value && is_bare_word(argument.substr(eq + 1))) {                                     // a text without quotes
    own.list.clear();
    if (printable(argument) != argument)
      return complaints_.add({source, eq + 1}, "", "expected a string without control characters, in UTF-8");
    value = Json(argument.substr(eq + 1));
    value->where.byte = eq + 1;
  }
  for (auto& one : own.list) complaints_.add({source, one.where.byte}, pointer_of(argument.substr(0, eq)) + one.path, one.text);
  if (!value) return;
  take_over(*value, source);
  Json* at = &root_;
  std::string pointer, part;
  for (std::size_t begin = 0; begin < eq;) {
    const Where here{source, begin};
    const std::size_t end = end_of_key(std::get_if<Json::Object>(&at->value), argument, begin, eq);
    const std::string key = argument.substr(begin, end - begin);
    if (pointer.empty()) part = key;
    pointer += "/" + pointer_token(key);
    begin = end + 1;
    if (end + 1 == eq) return complaints_.add({source, end}, "", "a key is missing after this dot");
    if (auto* list = std::get_if<Json::Array>(&at->value)) {
      std::size_t i = 0;
      const auto read = std::from_chars(key.data(), key.data() + key.size(), i);
      if (read.ec != std::errc{} || read.ptr != key.data() + key.size() || i >= list->size())
        return complaints_.add(
            here, pointer,
            list->empty() ? "this list is empty" : "expected an index from 0 to " + std::to_string(list->size() - 1));
      at = &(*list)[i];
      continue;
    }
    if (std::holds_alternative<std::nullptr_t>(at->value)) *at = Json(Json::Object{}), at->where = here;
    if (!std::holds_alternative<Json::Object>(at->value)) {
      if (!broken(part)) complaints_.add(here, pointer, Reader::kind(*at) + " has no keys that could be set");
      return;
    }
    if (Json* inner = member(*at, key); inner != nullptr) {
      at = inner;
      continue;
    }
    auto& members = std::get<Json::Object>(at->value);
    members.push_back({key, Json(), here});
    at = &members.back().value;
    at->where = here;
  }
  if (at == member(root_, part)) broken_.erase(part);
  changes_.push_back({pointer, value->where});
  *at = std::move(*value);
  join_parts();
}

void JobTree::blame_sets(Complaints::One& complaint, const std::set<std::string>& needed) const {
  const auto file = files_.find(complaint.where.source.get());
  const std::string about = (file == files_.end() ? "" : "/" + file->second) + complaint.path;
  std::string part;  // "/mesh"
  for (std::size_t i = 0; i < about.size() && (i == 0 || about[i] != '/'); i++) part += about[i];
  const auto below = [](const std::string& pointer, const std::string& top) { return (pointer + "/").starts_with(top + "/"); };
  std::vector<const Set*> inside, beside, all;
  for (const Set& set : changes_) {
    if (!needed.empty() && !needed.contains(set.value.source->text)) continue;
    all.push_back(&set);
    if (below(set.pointer, about))
      inside.push_back(&set);
    else if (below(set.pointer, part) && !below(about, set.pointer))
      beside.push_back(&set);
  }
  const std::vector<const Set*>& likely = !inside.empty() ? inside : !beside.empty() ? beside : all;
  if (likely.size() == 1 && &likely != &all) {
    complaint.where = likely.front()->value;
    complaint.path = about;
    return;
  }
  std::string arguments;
  for (const Set* set : likely) arguments += (arguments.empty() ? "--set " : ", --set ") + set->value.source->text;
  complaint.text += (likely.size() == 1 ? " (it follows from " : " (with ") + arguments + ")";
}

void JobTree::resolve(Json& path) {
  const auto* text = std::get_if<std::string>(&path.value);
  if (text == nullptr || text->empty()) return;
  path.value = plain_path(fs::path(folder_of(path.where)) / *text).string();
}

void JobTree::resolve_paths() {
  if (Json* profile = member(root_, "profile"); profile != nullptr && std::holds_alternative<std::string>(profile->value)) {
    Json path = *profile;  // only the path
    *profile = Json(Json::Object{{"path", path, path.where}});
    profile->where = path.where;
  }
  if (Json* profile = member(root_, "profile"); profile != nullptr)
    if (Json* path = member(*profile, "path"); path != nullptr) resolve(*path);
  if (Json* train = member(root_, "train"); train != nullptr)
    if (Json* initial = member(*train, "initial"); initial != nullptr)
      if (Json* path = member(*initial, "weights"); path != nullptr) resolve(*path);
  if (Json* data = member(root_, "data"); data != nullptr)
    for (const std::string& key : data_paths())
      if (Json* path = member(*data, key); path != nullptr) {
        if (auto* several = std::get_if<Json::Object>(&path->value))
          for (Json::Member& one : *several) resolve(one.value);
        else
          resolve(*path);
      }
}

}  // namespace motley
