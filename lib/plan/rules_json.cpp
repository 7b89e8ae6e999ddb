// SPDX-License-Identifier: Apache-2.0
#include "plan/rules_json.h"

#include <algorithm>
#include <limits>

#include "base/at.h"

namespace motley {

namespace {

constexpr Index kMostPartSize = Index{1} << 53;
const std::vector<std::string> kCuts{"profile", "even", "proportional"};
const char* const kAuto = "auto";  // the planner chooses
const char* const kPartsForm = "expected \"profile\", \"even\", \"proportional\", { \"shares\": [...] } or a list of sizes";

// The content of one rule's object, before it becomes a Rule.
struct RuleFile {
  std::vector<std::string> axes{};
  Parts parts = CutBy::profile;
  std::string per{};
  bool lists = false;  // parts is a list of lists
};

void read_axes(Reader& r, const Json& j, std::vector<std::string>& axes) {
  one_or_several(r, j, [&](const Json& one) {
    std::string name;
    if (!r.name(one, name)) return false;
    if (Reader::is_one_of(name, axes)) return r.complain(one, "axis \"" + name + "\" is listed twice"), false;
    axes.push_back(name);
    return true;
  });
  if (const auto* list = std::get_if<Json::Array>(&j.value); list != nullptr && list->empty())
    r.complain(j, "expected at least one axis; a dim without a rule is not cut");
}

std::vector<Index> read_sizes(Reader& r, const Json& j) {
  std::vector<Index> sizes;
  Index sum = 0;
  r.list(j, [&](const Json& one, std::size_t) {
    Index size = 0;
    if (!r.integer(one, size, 0, kMostPartSize)) return;
    sizes.push_back(size);
    sum = std::min(sum + size, 2 * kMostPartSize);
  });
  if (sum > kMostPartSize) r.complain(j, "the sizes sum to more than 2^53");
  return sizes;
}

void read_shares(Reader& r, const Json& j, RuleFile& rule) {
  Shares shares;
  r.list(j, [&](const Json& one, std::size_t) {
    double share = 0;
    if (r.number(one, share, 0, 1e15)) shares.of.push_back(share);
  });
  const auto* list = std::get_if<Json::Array>(&j.value);
  if (list != nullptr && shares.of.size() == list->size() &&
      std::all_of(shares.of.begin(), shares.of.end(), [](double s) { return s == 0; }))
    r.complain(j, "expected at least one share above 0");
  rule.parts = std::move(shares);
}

const Table<RuleFile>& shares_table() {
  static const Table<RuleFile> table{{"shares", "one number per device of the axis, as [70, 25, 5]", "list", true, read_shares,
                                      schema_of_list(schema_of_type("number"))}};
  return table;
}

void read_parts(Reader& r, const Json& j, RuleFile& rule) {
  if (std::holds_alternative<std::string>(j.value)) {
    std::string word;
    if (r.text(j, word, kCuts)) rule.parts = static_cast<CutBy>(std::find(kCuts.begin(), kCuts.end(), word) - kCuts.begin());
  } else if (const auto* list = std::get_if<Json::Array>(&j.value)) {
    rule.lists = !list->empty() && std::all_of(list->begin(), list->end(),
                                               [](const Json& one) { return std::holds_alternative<Json::Array>(one.value); });
    if (rule.lists) {
      Jagged jagged;
      r.list(j, [&](const Json& one, std::size_t) { jagged.of.push_back(read_sizes(r, one)); });
      rule.parts = std::move(jagged);
    } else {
      rule.parts = Sizes{read_sizes(r, j)};
    }
  } else if (std::holds_alternative<Json::Object>(j.value)) {
    r.object(j, shares_table(), rule);
  } else {
    r.complain(j, std::string(kPartsForm) + ", found " + Reader::kind(j));
  }
}

template <class T>
Json list_json(const std::vector<T>& values) {
  Json::Array out(values.begin(), values.end());
  return out;
}

Json parts_json(const Parts& parts) {
  if (const auto* by = std::get_if<CutBy>(&parts)) return at(kCuts, *by);
  if (const auto* shares = std::get_if<Shares>(&parts)) return std::move(Json().set("shares", list_json(shares->of)));
  if (const auto* sizes = std::get_if<Sizes>(&parts)) return list_json(sizes->of);
  Json::Array lists;
  for (const auto& one : std::get<Jagged>(parts).of) lists.push_back(list_json(one));
  return lists;
}

const Table<RuleFile>& rule_table() {
  static const Table<RuleFile> table{
      {"axis", "the mesh axis on which the dim is cut, or a list of axes", "name or list", true,
       [](Reader& r, const Json& j, RuleFile& rule) { read_axes(r, j, rule.axes); }},
      {"parts", "how the dim is divided: by measurement, evenly, by one speed number per device, by shares, or these sizes",
       "text, list or object", false, read_parts,
       schema_of_any({schema_of_words(kCuts), object_schema(shares_table()), schema_of_list(schema_of_type("integer or list"))}),
       parts_json(RuleFile{}.parts)},
      {"per", "the axis along which the lists of `parts` differ", "name", false,
       [](Reader& r, const Json& j, RuleFile& rule) { r.name(j, rule.per); }}};
  return table;
}

// "axis", { "axis", "parts", "per" }, or null: not cut.
void read_rule(Reader& r, const std::string& dim, const Json& j, std::vector<Rule>& out) {
  RuleFile rule;
  if (std::holds_alternative<std::nullptr_t>(j.value)) {
    out.emplace_back(dim, Axes{});
    return;
  }
  const std::size_t before = r.complaints.list.size();
  if (std::holds_alternative<Json::Object>(j.value)) {
    r.object(j, rule_table(), rule);
    const Json* parts = j.find("parts");
    const bool good = r.complaints.list.size() == before;
    if (good && rule.lists && rule.per.empty())
      r.in("parts", [&] { r.complain(*parts, "lists of sizes need \"per\": the axis along which they differ"); });
    if (good && !rule.lists && !rule.per.empty())
      r.in("per", [&] {
        r.complain(*j.find("per"), "\"per\" needs one list of sizes per coordinate of that axis, as [[40, 24], [30, 34]]");
      });
  } else if (std::holds_alternative<std::string>(j.value) || std::holds_alternative<Json::Array>(j.value)) {
    read_axes(r, j, rule.axes);
  } else {
    r.complain(j, "expected an axis or { \"axis\", \"parts\" }, found " + Reader::kind(j));
  }
  if (r.complaints.list.size() != before) return;
  if (auto* jagged = std::get_if<Jagged>(&rule.parts)) jagged->per = rule.per;
  out.emplace_back(dim, Axes(std::move(rule.axes)), std::move(rule.parts));
}

// Every member of an object with arbitrary names.
template <class F>
void each_member(Reader& r, const Json& j, F&& one) {
  const auto* members = std::get_if<Json::Object>(&j.value);
  if (members == nullptr) return r.complain(j, "expected an object, found " + Reader::kind(j));
  for (const Json::Member& m : *members) r.in(m.key, [&] { one(m); });
}

void read_dims(Reader& r, const Json& j, std::vector<Rule>& out) {
  each_member(r, j, [&](const Json::Member& m) {
    if (!is_name(m.key))
      return r.complain(m.where, "\"" + m.key + "\" is not a valid dim name: letters, digits, _ and -, a letter or _ first");
    read_rule(r, m.key, m.value, out);
  });
}

bool is_auto(const Json& j) {
  const auto* word = std::get_if<std::string>(&j.value);
  return word != nullptr && *word == kAuto;
}

void read_split(Reader& r, const Json& j, LayoutRules& rules) {
  if (is_auto(j)) {
    rules.open.everything = true;
    return;
  }
  Json said = j;
  if (auto* members = std::get_if<Json::Object>(&said.value))
    std::erase_if(*members, [&](const Json::Member& m) {
      const bool open = is_auto(m.value) && is_name(m.key);
      if (open) rules.open.dims.push_back(m.key);
      return open;
    });
  read_dims(r, said, rules.split);
  // null removes a rule (`--set layout.split.filters1=null`).
  std::erase_if(rules.split, [](const Rule& rule) { return rule.axes.names.empty(); });
}

void read_tensors(Reader& r, const Json& j, LayoutRules& rules) {
  each_member(r, j, [&](const Json::Member& m) {
    if (is_auto(m.value))
      rules.open.layers.push_back(m.key);
    else
      read_dims(r, m.value, rules.tensors[m.key]);
  });
}

void read_place(Reader& r, const Json& j, LayoutRules& rules) {
  each_member(r, j, [&](const Json::Member& m) {
    std::vector<std::string>& devices = rules.places[m.key];
    one_or_several(r, m.value, [&](const Json& one) {
      std::string device;
      if (!r.text(one, device)) return false;
      if (Reader::is_one_of(device, devices)) return r.complain(one, "device \"" + device + "\" is listed twice"), false;
      devices.push_back(device);
      return true;
    });
    if (const auto* list = std::get_if<Json::Array>(&m.value.value); list != nullptr && list->empty())
      r.complain(m.value, "expected at least one device");
  });
}

// An axis, several, or { "axis", "parts", "per" }; null: not cut.
Json rule_schema() {
  Json rule = schema_of_any({schema_of_type("name"), schema_of_list(schema_of_type("name")), object_schema(rule_table())});
  std::get<Json::Array>(std::get<Json::Object>(rule.value).front().value.value).push_back(schema_of_type("null"));
  return schema_of_map(std::move(rule));
}

const Table<NamedSize>& named_size_table() {
  static const Table<NamedSize> table{
      {"name", "of the axis", "name", true, [](Reader& r, const Json& j, NamedSize& out) { r.name(j, out.name); }},
      {"size", "ranks along it", "integer", true,
       [](Reader& r, const Json& j, NamedSize& out) { r.integer(j, out.size, 1, INT32_MAX); }}};
  return table;
}

const Table<DeviceOrder>& arrangement_table() {
  static const Table<DeviceOrder> table{list_field("axes", "as a mesh's", &DeviceOrder::axes, named_size_table()),
                                        {"devices", "their names, row-major in the axes", "list", true,
                                         [](Reader& r, const Json& j, DeviceOrder& out) {
                                           r.list(j,
                                                  [&](const Json& one, std::size_t) { r.text(one, out.devices.emplace_back()); });
                                         },
                                         schema_of_list(schema_of_type("text"))}};
  return table;
}

Table<LayoutRules> rules_table(VersionKey version) {
  return {
      version_field<LayoutRules>(version),
      {"split", "dim -> axis and how to cut it, or \"auto\"; \"auto\" alone: the planner chooses every layout", "text or object",
       false, read_split, schema_of_any({schema_of_words({kAuto}), rule_schema()})},
      {"tensors", "overrides of single tensors; layer -> \"auto\": the planner chooses its layout", "object", false, read_tensors,
       schema_of_map(schema_of_any({schema_of_words({kAuto}), rule_schema()}))},
      {"place", "layer -> the devices that compute it", "object", false, read_place,
       schema_of_map(schema_of_any({schema_of_type("text"), schema_of_list(schema_of_type("text"))}))},
      {"arrangement",
       "the axes and devices that this layout was chosen with: `plan --layout` writes them where the mesh's `axes` are `auto`",
       "object", false, [](Reader& r, const Json& j, LayoutRules& rules) { r.object(j, arrangement_table(), rules.arrangement); },
       object_schema(arrangement_table())}};
}

Json names_json(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  Json::Array out(names.begin(), names.end());
  return out;
}

Json dims_json(const std::vector<Rule>& rules) {
  Json out{Json::Object{}};
  for (const Rule& rule : rules) {
    if (rule.axes.names.empty()) {
      out.set(rule.dim, nullptr);
      continue;
    }
    Json one;
    one.set("axis", names_json(rule.axes.names)).set("parts", parts_json(rule.parts));
    if (const auto* jagged = std::get_if<Jagged>(&rule.parts)) one.set("per", jagged->per);
    out.set(rule.dim, std::move(one));
  }
  return out;
}

}  // namespace

std::optional<LayoutRules> read_rules(Reader& reader, const Json& json, VersionKey version) {
  LayoutRules rules;
  if (is_auto(json)) return LayoutRules::automatic();
  if (!reader.object(json, rules_table(version), rules)) return std::nullopt;
  return rules;
}

Json rules_schema(VersionKey version) {
  return object_schema(rules_table(version));
}

Json to_json(const LayoutRules& rules) {
  Json out, tensors{Json::Object{}}, places{Json::Object{}};
  for (const auto& [name, dims] : rules.tensors) tensors.set(name, dims_json(dims));
  for (const std::string& layer : rules.open.layers) tensors.set(layer, kAuto);
  Json split = dims_json(rules.split);
  for (const std::string& dim : rules.open.dims) split.set(dim, kAuto);
  if (rules.open.everything) split = kAuto;
  for (const auto& [layer, devices] : rules.places) places.set(layer, names_json(devices));
  out.set("version", 1).set("split", std::move(split)).set("tensors", std::move(tensors)).set("place", std::move(places));
  if (const DeviceOrder& order = rules.arrangement; !order.axes.empty()) {
    Json axes{Json::Array{}};
    for (const NamedSize& a : order.axes) axes.push(std::move(Json().set("name", a.name).set("size", a.size)));
    Json arrangement;
    arrangement.set("axes", std::move(axes)).set("devices", Json::Array(order.devices.begin(), order.devices.end()));
    out.set("arrangement", std::move(arrangement));
  }
  return out;
}

LayoutRules LayoutRules::load(const std::filesystem::path& file) {
  return load_json(file, [](Reader& r, const Json& j) { return read_rules(r, j, VersionKey::required); });
}

}  // namespace motley
