// SPDX-License-Identifier: Apache-2.0
// A JSON value that knows where it was written. The only JSON type of the project; nlohmann is seen by json.cpp alone.
#pragma once
#include <motley/error.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/interval.h"

namespace motley {

struct Source {  // a file, or "--set" with the argument as its text
  std::string name, text;
};
struct Where {
  std::shared_ptr<const Source> source{};
  std::size_t byte = 0;
};

struct Json {
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;  // in the order written
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object>;
  Json();  // null
  Json(std::nullptr_t);
  Json(bool v);
  Json(int v);
  Json(std::int64_t v);
  Json(double v);  // not finite: written as null
  Json(const char* v);
  Json(std::string v);
  Json(Array v);
  Json(Object v);
  Value value;
  Where where{};
  const Json* find(const std::string& key) const;    // member of an object; nullptr: there is none
  const Json* at(const std::string& pointer) const;  // "/axes/0/size"; nullptr: not there
  // Adds a member to an object (a null becomes one), or an element to a list.
  Json& set(std::string key, Json v);
  Json& push(Json v);
};
struct Json::Member {
  std::string key{};
  Json value{};
  Where where{};  // of the key
};
// Here, where a Member is complete: Clang needs it to make a Value.
inline Json::Json() : value(nullptr) {}
inline Json::Json(std::nullptr_t) : value(nullptr) {}
inline Json::Json(bool v) : value(v) {}
inline Json::Json(int v) : value(static_cast<std::int64_t>(v)) {}
inline Json::Json(std::int64_t v) : value(v) {}
inline Json::Json(double v) : value(v) {}
inline Json::Json(const char* v) : value(std::string(v)) {}
inline Json::Json(std::string v) : value(std::move(v)) {}
inline Json::Json(Array v) : value(std::move(v)) {}
inline Json::Json(Object v) : value(std::move(v)) {}

// indent 0: one line. Numbers round-trip; integers stay integers. Lists of scalars stay on one line.
std::string to_text(const Json& json, int indent = 0);

// Collects complaints; they are printed and thrown together, once: by raise(), or as soon as there are kMost of them, so that a
// wrong file costs no more than a right one.
struct Complaints {
  static constexpr std::size_t kMost = 1000;
  struct One {
    Where where{};
    std::string path{}, text{};
    Exit code = Exit::config;
  };
  std::vector<One> list{};
  std::size_t most_printed = 10;
  bool empty() const { return list.empty(); }
  void add(Where where, std::string path, std::string text, Exit code = Exit::config);  // throws with the kMost-th
  // FILE:LINE:COL: error: /path: text, then the line and a caret; in file order; at most `most_printed`, then "and N more".
  std::string print() const;
  // Throws UserError with print(), if there are any. Its code: `as`, else the largest (a wrong file counts more than a missing
  // one).
  void raise(std::optional<Exit> as = std::nullopt) const;
};

// A key inside a pointer: ~ is written ~0, / is written ~1 (RFC 6901).
std::string pointer_token(const std::string& key);

// What one text may hold. A tree takes some 60 to 130 bytes of memory for each value.
struct JsonLimits {
  std::size_t bytes, values;
};
inline constexpr JsonLimits kByPeople{std::size_t{4} << 20, 1'000'000};   // meshes, models, layouts, jobs
inline constexpr JsonLimits kByMotley{std::size_t{64} << 20, 8'000'000};  // profiles, plans, runs, headers of weights

// On a syntax error, or past a limit, complains and returns nothing; a repeated key is complained about, but the tree is returned.
// At most 64 levels deep.
std::optional<Json> read_json(const std::string& name, std::string text, Complaints& complaints, JsonLimits limits = kByPeople);
// The keys of the object that a text holds, in the order written, without the values; empty: no object. Nothing: no valid JSON.
std::optional<std::vector<std::string>> json_keys(const std::string& text);
// The text of a JSON file. UserError: 66 when it cannot be read, 78 when it is larger than 64 MiB (checked before it is read).
std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);  // written beside, synced, renamed; UserError (74)

// ---- field tables: one per object; they drive reading, unknown keys, defaults and docs
struct Reader;
template <class T>
struct Field {
  std::string name, doc, type;  // type: "text", "name or list", ... as in base/json_schema.h
  bool required;
  std::function<void(Reader&, const Json&, T&)> read;
  Json schema{};  // of the value; null: follows from `type` (base/json_schema.h)
  Json usual{};   // the default, as a file would have it; null: there is none, or `doc` states it
};
template <class T>
using Table = std::vector<Field<T>>;

// Walks a tree; every function complains at the value's position and returns false if the value does not fit.
struct Reader {
  Complaints& complaints;
  std::string path{};  // JSON pointer of what is being read, inside its own file
  void complain(const Json& at, const std::string& text) { complaints.add(at.where, path, text); }
  void complain(const Where& at, const std::string& text) { complaints.add(at, path, text); }
  template <class F>
  void in(const std::string& key, F&& f) {
    const std::size_t size = path.size();
    path += "/" + pointer_token(key);
    f();
    path.resize(size);
  }
  bool integer(const Json& j, std::int64_t& out, const Interval<std::int64_t>& expected);  // 20e9 is an integer too
  bool integer(const Json& j, std::int64_t& out, std::int64_t lo, std::int64_t hi = INT64_MAX) {
    return integer(j, out, Interval<std::int64_t>{lo, hi});
  }
  bool number(const Json& j, double& out, const Interval<double>& expected);
  bool number(const Json& j, double& out, double lo, double hi) { return number(j, out, Interval<double>{lo, hi}); }
  bool boolean(const Json& j, bool& out);
  bool text(const Json& j, std::string& out, const std::vector<std::string>& allowed = {});
  bool name(const Json& j, std::string& out);        // [A-Za-z_][A-Za-z0-9_-]*
  bool layer_name(const Json& j, std::string& out);  // several joined by dots
  template <class F>
  bool list(const Json& j, F&& one) {  // one(element, index)
    const auto* a = std::get_if<Json::Array>(&j.value);
    if (a == nullptr) return complain(j, "expected a list, found " + kind(j)), false;
    for (std::size_t i = 0; i < a->size(); i++) in(std::to_string(i), [&] { one((*a)[i], i); });
    return true;
  }
  template <class T>
  bool object(const Json& j, const Table<T>& table, T& out) {
    const auto* o = std::get_if<Json::Object>(&j.value);
    if (o == nullptr) return complain(j, "expected an object, found " + kind(j)), false;
    const std::vector<std::string> names = names_of(table);
    for (const auto& m : *o)
      in(m.key, [&] {
        for (const auto& f : table)
          if (f.name == m.key) return f.read(*this, m.value, out);
        unknown_key(m, names);
      });
    for (const auto& f : table)
      if (f.required && lacks(j, names, {f.name})) complain(j, "\"" + f.name + "\" is missing (" + f.doc + ")");
    return true;
  }
  void unknown_key(const Json::Member& m, const std::vector<std::string>& names);
  template <class T>
  static std::vector<std::string> names_of(const Table<T>& table) {
    std::vector<std::string> out;
    for (const auto& f : table) out.push_back(f.name);
    return out;
  }
  // Whether the object has none of these keys, and no unknown key that was probably meant to be one of them. names: all keys of its
  // table.
  static bool lacks(const Json& object, const std::vector<std::string>& names, const std::vector<std::string>& keys);
  static bool is_one_of(const std::string& name, const std::vector<std::string>& names);
  static std::string kind(const Json& j);  // for people: "3", "\"abc\"", "a list", "null"
};

}  // namespace motley
