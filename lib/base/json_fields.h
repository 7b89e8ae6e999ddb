// SPDX-License-Identifier: Apache-2.0
// Parts shared by the tables of several file kinds.
#pragma once
#include <algorithm>
#include <filesystem>

#include "base/json_schema.h"

namespace motley {

enum class VersionKey : std::uint8_t { required, optional };  // in a file; in an object written inside another

template <class T>
Field<T> version_field(VersionKey key) {
  return {"version",
          "version of the file format",
          "integer",
          key == VersionKey::required,
          [](Reader& r, const Json& j, T&) {
            std::int64_t version = 0;
            r.integer(j, version, 1, 1);
          },
          std::move(Json{Json::Object{}}.set("const", 1))};
}

template <class T>
Field<T> text_field(const char* name, const char* doc, std::string T::*member, bool required = true) {
  return {name, doc, "text", required, [member](Reader& r, const Json& j, T& out) { r.text(j, out.*member); }};
}

template <class T>
Field<T> texts_field(const char* name, const char* doc, std::vector<std::string> T::*member, bool required = true) {
  return {name, doc, "list", required, [member](Reader& r, const Json& j, T& out) {
            r.list(j, [&](const Json& one, std::size_t) { r.text(one, (out.*member).emplace_back()); });
          }};
}

template <class T>
Field<T> boolean_field(const char* name, const char* doc, bool T::*member) {
  return {name, doc, "boolean", false, [member](Reader& r, const Json& j, T& out) { r.boolean(j, out.*member); }, {}, T{}.*member};
}

// A field that is one of these words, which are in the order of the enum's values.
template <class T, class E>
Field<T> word_field(const char* name, const char* doc, E T::*member, const std::vector<std::string>& words, bool required = false) {
  return {name,
          doc,
          "text",
          required,
          [member, words](Reader& r, const Json& j, T& out) {
            std::string word;
            if (r.text(j, word, words)) out.*member = static_cast<E>(std::find(words.begin(), words.end(), word) - words.begin());
          },
          schema_of_words(words),
          words[static_cast<std::size_t>(T{}.*member)]};
}

// The path of a file or a folder.
inline void read_path(Reader& r, const Json& j, std::string& out) {
  std::string path;
  if (!r.text(j, path)) return;
  if (path.empty() || path.find('\0') != std::string::npos)
    r.complain(j, "expected a path, found " + Reader::kind(j));
  else
    out = std::move(path);
}
template <class T>
Field<T> path_field(const char* name, const char* doc, std::string T::*member) {
  return {name, doc, "text", false, [member](Reader& r, const Json& j, T& out) { read_path(r, j, out.*member); }};
}

// A number that is null if it is not known.
template <class T>
Json json_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
template <class T>
Field<T> number_or_null(const char* name, const char* doc, std::optional<double> T::*member, double least, double most,
                        bool required = true) {
  return {name, doc, "number or null", required, [member, least, most](Reader& r, const Json& j, T& out) {
            double value = 0;
            if (!std::holds_alternative<std::nullptr_t>(j.value) && r.number(j, value, least, most)) out.*member = value;
          }};
}
template <class T>
Field<T> integer_or_null(const char* name, const char* doc, std::optional<std::int64_t> T::*member) {
  return {name, doc, "integer or null", true, [member](Reader& r, const Json& j, T& out) {
            std::int64_t value = 0;
            if (!std::holds_alternative<std::nullptr_t>(j.value) && r.integer(j, value, 0)) out.*member = value;
          }};
}

// How many there are of something: an integer from 0.
template <class T, class M>
Field<T> count_field(const char* name, const char* doc, M T::*member) {
  return {name, doc, "integer", true, [member](Reader& r, const Json& j, T& out) {
            std::int64_t value = 0;
            if (r.integer(j, value, 0)) out.*member = static_cast<M>(value);
          }};
}

// A list of objects; an object that cannot be read is left out.
template <class T, class List>
Field<T> list_field(const char* name, const char* doc, List T::*member, const Table<typename List::value_type>& table,
                    bool required = true) {
  return {name,
          doc,
          "list",
          required,
          [member, &table](Reader& r, const Json& j, T& out) {
            r.list(j, [&](const Json& one, std::size_t) {
              typename List::value_type element;
              if (r.object(one, table, element)) (out.*member).push_back(std::move(element));
            });
          },
          schema_of_list(object_schema(table))};
}

// Reads a text with read(reader, json), which gives an optional value. UserError with every complaint.
template <class F>
auto parse_json(const std::string& name, std::string text, F&& read, JsonLimits limits = kByPeople) {
  Complaints complaints;
  const auto json = read_json(name, std::move(text), complaints, limits);
  Reader reader{complaints};
  decltype(read(reader, *json)) value;
  if (json) value = read(reader, *json);
  complaints.raise();
  check(value.has_value(), "what is not read is complained about");
  return std::move(*value);
}
template <class F>
auto load_json(const std::filesystem::path& file, F&& read, JsonLimits limits = kByPeople) {
  return parse_json(file.string(), read_file(file.string()), std::forward<F>(read), limits);
}

// A text, or a list of texts; `one` reads each. False (after a complaint): neither.
template <class F>
bool one_or_several(Reader& r, const Json& j, F&& one) {
  if (!std::holds_alternative<Json::Array>(j.value)) return one(j);
  bool good = true;
  r.list(j, [&](const Json& each, std::size_t) { good = one(each) && good; });
  return good;
}

// Complains at `pointer` below `root` (which the reader's path names), or at its nearest ancestor that is in the file.
inline void complain_below(Reader& r, const Json& root, std::string pointer, const std::string& text, Exit code = Exit::config) {
  const Json* at = root.at(pointer);
  while (at == nullptr && !pointer.empty()) {
    pointer.erase(pointer.rfind('/'));
    at = root.at(pointer);
  }
  r.complaints.add((at == nullptr ? root : *at).where, r.path + pointer, text, code);
}

}  // namespace motley
