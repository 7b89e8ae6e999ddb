// SPDX-License-Identifier: Apache-2.0
#include "base/json_schema.h"

namespace motley {

namespace {

Json of(const char* key, Json value) {
  return std::move(Json{Json::Object{}}.set(key, std::move(value)));
}

Json of_one_type(const std::string& type) {
  if (type == "name") return std::move(of("type", "string").set("pattern", "^[A-Za-z_][A-Za-z0-9_-]*$"));
  if (type == "layer name")
    return std::move(  // is_layer_name: of two parts the second one is a number
        of("type", "string").set("pattern", "^[A-Za-z_][A-Za-z0-9_-]*([.][0-9]+|([.]([A-Za-z_][A-Za-z0-9_-]*|[0-9]+)){2,})?$"));
  if (type == "text") return of("type", "string");
  if (type == "list") return of("type", "array");
  if (type == "any") return Json{Json::Object{}};
  check(type == "integer" || type == "number" || type == "boolean" || type == "object" || type == "null",
        "a field's type is one of those that a schema knows");
  return of("type", type);
}

}  // namespace

Json schema_of_type(const std::string& type) {
  const std::size_t last = type.rfind(" or ");
  if (last == std::string::npos) return of_one_type(type);
  Json::Array forms{of_one_type(type.substr(last + 4))};
  std::string rest = type.substr(0, last);
  for (std::size_t comma = rest.rfind(", "); comma != std::string::npos; comma = rest.rfind(", ")) {
    forms.insert(forms.begin(), of_one_type(rest.substr(comma + 2)));
    rest.resize(comma);
  }
  forms.insert(forms.begin(), of_one_type(rest));
  return of("anyOf", std::move(forms));
}

Json schema_of_words(const std::vector<std::string>& words) {
  return of("enum", Json::Array(words.begin(), words.end()));
}

Json schema_of_list(Json element) {
  return std::move(of("type", "array").set("items", std::move(element)));
}

Json schema_of_map(Json value) {
  return std::move(of("type", "object").set("additionalProperties", std::move(value)));
}

Json schema_of_any(std::initializer_list<Json> forms) {
  return of("anyOf", Json::Array(forms));
}

}  // namespace motley
