// SPDX-License-Identifier: Apache-2.0
#include "config/unbuilt.h"

#include <algorithm>

namespace motley {

namespace {

// The dims that an `out` or an input declares, in any form.
void add_names(const Json* json, std::set<std::string>& out) {
  if (json == nullptr) return;
  if (const auto* text = std::get_if<std::string>(&json->value)) out.insert(*text);
  if (const auto* list = std::get_if<Json::Array>(&json->value))
    for (const Json& one : *list) add_names(&one, out);
  if (const auto* members = std::get_if<Json::Object>(&json->value))
    for (const Json::Member& m : *members) out.insert(m.key);
}

}  // namespace

bool Unbuilt::may_be(const std::string& name) const {
  return anything || names.contains(name) ||
         std::any_of(endings.begin(), endings.end(), [&](const std::string& e) { return name.ends_with(e); });
}

Unbuilt unbuilt_of(const Json& json, const ModelSpec& spec, const Model& built) {
  Unbuilt out;
  if (built.whole) return out;
  const Json *inputs = json.find("inputs"), *layers = json.find("layers");
  const auto* members = inputs == nullptr ? nullptr : std::get_if<Json::Object>(&inputs->value);
  const auto* list = layers == nullptr ? nullptr : std::get_if<Json::Array>(&layers->value);
  if (members == nullptr || list == nullptr || list->size() != spec.layers.size()) return {.anything = true};
  out.names.insert(spec.loss.labels);           // created with the loss
  for (const Json::Member& input : *members) {  // known, even if no layer reads it
    out.names.insert(input.key);
    add_names(&input.value, out.names);
  }
  for (std::size_t i = 0; i < list->size(); i++) {
    const std::string& name = spec.layers[i].name;
    if (std::any_of(built.layers.begin(), built.layers.end(), [&](const Tensor& t) { return t.name() == name; })) continue;
    const Json& layer = (*list)[i];
    out.names.insert(name);
    if (layer.find("name") == nullptr) out.endings.insert("_" + std::to_string(i + 1));
    std::set<std::string> declared;
    add_names(layer.find("out"), declared);
    if (const LayerKind* kind = LayerKind::find(spec.layers[i].op))
      for (const LayerKey& key : kind->keys)
        if (key.kind == LayerKey::Kind::dim || key.kind == LayerKey::Kind::dims) add_names(layer.find(key.name), declared);
    if (declared.empty() && may_declare_dims(spec.layers[i].op)) return {.anything = true};
    out.names.merge(declared);
  }
  return out;
}

}  // namespace motley
