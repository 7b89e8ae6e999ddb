// SPDX-License-Identifier: Apache-2.0
// JSON Schema (draft 2020-12) of what a field table reads, for editors. It states what single fields allow; conditions across
// fields and files are checked only by `motley check`.
#pragma once
#include <initializer_list>

#include "base/json.h"

namespace motley {

// The schema of a field's `type`: "text", "name", "integer", "number", "boolean", "list", "object", or several of them ("name or
// list", "number or null").
Json schema_of_type(const std::string& type);
Json schema_of_words(const std::vector<std::string>& words);  // one of them
Json schema_of_list(Json element);
Json schema_of_map(Json value);  // an object with arbitrary names
Json schema_of_any(std::initializer_list<Json> forms);

template <class T>
Json object_schema(const Table<T>& table) {
  Json properties{Json::Object{}};
  Json::Array required;
  for (const Field<T>& field : table) {
    Json one = std::holds_alternative<std::nullptr_t>(field.schema.value) ? schema_of_type(field.type) : field.schema;
    one.set("description", field.doc);
    if (!field.required && !std::holds_alternative<std::nullptr_t>(field.usual.value)) one.set("default", field.usual);
    properties.set(field.name, std::move(one));
    if (field.required) required.emplace_back(field.name);
  }
  Json out{Json::Object{}};
  out.set("type", "object").set("properties", std::move(properties));
  if (!required.empty()) out.set("required", std::move(required));
  return std::move(out.set("additionalProperties", false));
}

}  // namespace motley
