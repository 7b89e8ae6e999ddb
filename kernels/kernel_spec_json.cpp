// SPDX-License-Identifier: Apache-2.0
// Reading and writing follow the fields of kernels/kernel_spec_fields.h; this file only defines the JSON form of each type of
// field.
#include "kernels/kernel_spec_json.h"

#include <algorithm>
#include <limits>

#include "kernels/kernel_names.h"
#include "kernels/kernel_spec_fields.h"

namespace motley {
namespace {

constexpr Index kMostExact = Index{1} << 53;  // largest integer that JSON readers keep exactly

// ---- writing

template <class E>
requires std::is_enum_v<E> Json json_of(E value) {
  return Json(name_of(value));
}
Json json_of(bool value) {
  return Json(value);
}
Json json_of(Index value) {
  return Json(value);
}
Json json_of(double value) {
  return Json(value);
}
Json json_of(const Formula& formula) {
  return Json(to_text(formula));
}
template <HasFields T>
Json json_of(const T& value);
template <class List>
requires requires(const List& list) {
  list.begin();
}
Json json_of(const List& list) {
  Json::Array array;
  for (const auto& one : list) array.push_back(json_of(one));
  return Json(std::move(array));
}

// An operand's strides are always written: their number is checked against the map's extents.
template <class T>
constexpr bool kRequired = false;
template <>
constexpr bool kRequired<std::vector<Index> MapOperand::*> = true;

// An object with the fields that differ from the defaults.
template <HasFields T>
Json json_of(const T& value) {
  const T defaults;
  Json object{Json::Object{}};
  for_each_field<T>([&](const auto& f) {
    if (kRequired<decltype(f.member)> || value.*f.member != defaults.*f.member) object.set(f.name, json_of(value.*f.member));
  });
  return object;
}

// ---- reading

template <HasFields T>
const Table<T>& table_of();

template <class E>
requires std::is_enum_v<E>
void read(Reader& reader, const Json& json, E& out, std::int64_t) {
  std::string word;
  const std::vector<std::string>& words = names_of(out);
  if (!reader.text(json, word, words)) return;
  for (std::size_t i = 0; i < words.size(); i++)
    if (words[i] == word) out = static_cast<E>(i);
}
void read(Reader& reader, const Json& json, bool& out, std::int64_t) {
  reader.boolean(json, out);
}
void read(Reader& reader, const Json& json, Index& out, std::int64_t least) {
  reader.integer(json, out, std::max(least, -kMostExact), kMostExact);
}
void read(Reader& reader, const Json& json, double& out, std::int64_t) {
  const double most = std::numeric_limits<double>::max();
  reader.number(json, out, -most, most);
}
void read(Reader& reader, const Json& json, Formula& out, std::int64_t) {
  std::string text;
  if (reader.text(json, text)) try {
      out = formula_from(text);
    } catch (const UserError& e) {
      reader.complain(json, e.what());
    }
}
template <HasFields T>
void read(Reader& reader, const Json& json, T& out, std::int64_t) {
  reader.object(json, table_of<T>(), out);
}
template <class T>
void read(Reader& reader, const Json& json, std::vector<T>& out, std::int64_t least) {
  out.clear();
  reader.list(json, [&](const Json& one, std::size_t) { read(reader, one, out.emplace_back(), least); });
}
template <std::size_t N>
void read(Reader& reader, const Json& json, std::array<Index, N>& out, std::int64_t least) {
  std::vector<Index> list;
  read(reader, json, list, least);
  if (list.size() != N) return reader.complain(json, "expected " + std::to_string(N) + " integers");
  std::copy(list.begin(), list.end(), out.begin());
}

template <class V>
std::string type_name() {
  if constexpr (std::is_enum_v<V>) return "word";
  if constexpr (std::is_same_v<V, bool>) return "true or false";
  if constexpr (std::is_integral_v<V>) return "integer";
  if constexpr (std::is_floating_point_v<V>) return "number";
  if constexpr (std::is_same_v<V, Formula>) return "text";
  return HasFields<V> ? "object" : "list";
}

template <HasFields T>
const Table<T>& table_of() {
  static const Table<T> table = [] {
    Table<T> fields;
    for_each_field<T>([&](const auto& f) {
      fields.push_back({f.name, f.doc, type_name<FieldType<T, decltype(f.member)>>(), kRequired<decltype(f.member)>,
                        [f](Reader& reader, const Json& json, T& out) { read(reader, json, out.*f.member, f.least); }});
    });
    return fields;
  }();
  return table;
}

// Each operand of a map has one stride per extent.
void check_strides(Reader& reader, const Json& json, const KernelSpec& spec) {
  const Json* operands = json.find("operands");
  if (operands == nullptr || !std::holds_alternative<Json::Array>(operands->value)) return;
  reader.in("operands", [&] {
    reader.list(*operands, [&](const Json& one, std::size_t i) {
      if (i < spec.operands.size() && one.find("strides") != nullptr && spec.operands[i].strides.size() != spec.extents.size())
        reader.complain(one, "expected " + std::to_string(spec.extents.size()) + " strides, one per extent");
    });
  });
}

}  // namespace

Json to_json_value(const KernelSpec& spec) {
  return json_of(spec);
}

std::string to_json(const KernelSpec& spec) {
  return to_text(to_json_value(spec));
}

void read_kernel_spec(Reader& reader, const Json& json, KernelSpec& out) {
  if (reader.object(json, table_of<KernelSpec>(), out)) check_strides(reader, json, out);
}

}  // namespace motley
