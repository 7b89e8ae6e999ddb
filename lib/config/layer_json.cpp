// SPDX-License-Identifier: Apache-2.0
// One layer of a model file: which keys each op has, and what they hold.
#include "config/layer_json.h"

#include <algorithm>
#include <map>

#include "base/foreign_words.h"
#include "graph/map_formula.h"
#include "graph/ops/windows.h"
#include "graph/pointwise.h"

namespace motley {

namespace {

const std::vector<std::string> kPaddings{"valid", "same"}, kInitialWeights{"he_uniform", "normal", "zeros", "ones"};

const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = Pointwise::names();
    all.insert(all.begin(), "none");
    return all;
  }();
  return names;
}

void read_activation(Reader& r, const Json& j, std::string& out) {
  const auto* word = std::get_if<std::string>(&j.value);
  const bool layer = word != nullptr && LayerKind::find(*word) != nullptr && !Reader::is_one_of(*word, activation_names());
  if (const auto meant = word == nullptr ? std::nullopt : foreign_word(*word, {"map"}); meant && meant->meant == "map")
    return r.complain(j, "\"" + *word +
                             "\" is not an activation; write it as a layer after this one, { \"op\": \"map\", \"formula\": "
                             "\"...\" } (docs/own_ops.md)");
  if (!layer) return static_cast<void>(r.text(j, out, activation_names()));
  r.complain(j, "\"" + *word +
                    "\" as an activation is not built yet, it has keys; write it as a layer after this one, { \"op\": \"" + *word +
                    "\" }");
}

enum class Twice : std::uint8_t { refused, good };

void read_names(Reader& r, const Json& j, std::vector<std::string>& out, Twice twice = Twice::refused) {
  one_or_several(r, j, [&](const Json& one) {
    std::string name;
    if (!r.layer_name(one, name)) return false;
    if (twice == Twice::refused && Reader::is_one_of(name, out)) return r.complain(one, "\"" + name + "\" is listed twice"), false;
    out.push_back(name);
    return true;
  });
  if (const auto* list = std::get_if<Json::Array>(&j.value); list != nullptr && list->empty())
    r.complain(j, "expected at least one name");
}

// { "filters1": 60 }, or the name of a dim that is declared earlier.
void read_dims(Reader& r, const Json& j, std::vector<Dim>& out) {
  if (std::holds_alternative<Json::Object>(j.value)) {
    read_sized_dims(r, j, out);
    if (std::get<Json::Object>(j.value).empty()) r.complain(j, "expected one dim, as { \"NAME\": 60 }");
  } else if (std::holds_alternative<std::string>(j.value) || std::holds_alternative<Json::Array>(j.value)) {
    std::vector<std::string> names;
    read_names(r, j, names);
    for (std::string& name : names) out.push_back({std::move(name), 0});
  } else {
    r.complain(j, "expected a dim and its size, as { \"NAME\": 60 }, found " + Reader::kind(j));
  }
}

void read_out(Reader& r, const Json& j, LayerSpec& layer) {
  read_dims(r, j, layer.out);
  if (layer.op != "dense" && layer.op != "reshape" && layer.out.size() > 1)
    r.complain(j, layer.op + " has one output dim, found " + std::to_string(layer.out.size()));
}

// A number, or [rows, cols].
void read_extent(Reader& r, const Json& j, Extent2& out, std::int64_t least) {
  const auto* list = std::get_if<Json::Array>(&j.value);
  if (list == nullptr) {
    std::int64_t both = 0;
    if (!std::holds_alternative<std::int64_t>(j.value) && !std::holds_alternative<double>(j.value))
      return r.complain(j, "expected a number or [rows, cols], found " + Reader::kind(j));
    if (r.integer(j, both, least, kMostWindow)) out = Extent2(both);
    return;
  }
  if (list->size() != 2) return r.complain(j, "expected [rows, cols], found a list of " + std::to_string(list->size()));
  r.list(j, [&](const Json& one, std::size_t i) { r.integer(one, i == 0 ? out.rows : out.cols, least, kMostWindow); });
}

// "valid", "same", a number, or [[top, bottom], [left, right]].
void read_padding(Reader& r, const Json& j, Padding& out) {
  if (std::holds_alternative<std::string>(j.value)) {
    std::string word;
    if (r.text(j, word, kPaddings)) out = word == "same" ? same : valid;
    return;
  }
  if (const auto* list = std::get_if<Json::Array>(&j.value)) {
    const bool pairs = list->size() == 2 && std::all_of(list->begin(), list->end(), [](const Json& one) {
                         const auto* pair = std::get_if<Json::Array>(&one.value);
                         return pair != nullptr && pair->size() == 2;
                       });
    if (!pairs) return r.complain(j, "a list of paddings is [[top, bottom], [left, right]]");
    std::array<std::array<Index, 2>, 2> sizes{};
    r.list(j, [&](const Json& pair, std::size_t i) {
      r.list(pair, [&](const Json& one, std::size_t k) { r.integer(one, sizes[i][k], 0, kMostWindow); });
    });
    out = Padding(sizes[0], sizes[1]);
    return;
  }
  if (!std::holds_alternative<std::int64_t>(j.value) && !std::holds_alternative<double>(j.value))
    return r.complain(j, "expected \"valid\", \"same\", a number or [[top, bottom], [left, right]], found " + Reader::kind(j));
  std::int64_t all = 0;
  if (r.integer(j, all, 0, kMostWindow)) out = Padding(all);
}

void read_over(Reader& r, const Json& j, LayerSpec& layer) {
  if (layer.op == "matmul") return read_names(r, j, layer.over);
  const auto* list = std::get_if<Json::Array>(&j.value);
  if (list == nullptr || list->size() != 2)
    return r.complain(j, "expected the two dims that the window slides over, e.g. [\"rows\", \"cols\"]");
  read_names(r, j, layer.over);
}

// [begin, end)
void read_range(Reader& r, const Json& j, LayerSpec& layer) {
  const auto* list = std::get_if<Json::Array>(&j.value);
  if (list == nullptr || list->size() != 2) return r.complain(j, "expected the first element and the end (exclusive), e.g. [0, 3]");
  r.list(j, [&](const Json& one, std::size_t i) { r.integer(one, i == 0 ? layer.range.begin : layer.range.end, 0, kMostSize); });
}

using LayerField = Field<LayerSpec>;

const std::map<std::string, LayerField>& layer_fields() {
  auto names = [](std::vector<std::string> LayerSpec::*member) {
    return [member](Reader& r, const Json& j, LayerSpec& l) { read_names(r, j, l.*member); };
  };
  auto extent = [](Extent2 LayerSpec::*member) {
    return [member](Reader& r, const Json& j, LayerSpec& l) { read_extent(r, j, l.*member, 1); };
  };
  auto zeros = [](const char* name, const char* doc, Index LayerSpec::*member) -> LayerField {
    return {name,
            doc,
            "integer",
            false,
            [member](Reader& r, const Json& j, LayerSpec& l) { r.integer(j, l.*member, 0, kMostSize); },
            {},
            LayerSpec{}.*member};
  };
  static const std::map<std::string, LayerField> fields = [&] {
    std::map<std::string, LayerField> out;
    for (LayerField
             f : Table<LayerSpec>{{"op", "what the layer computes", "text", true,
                                   [](Reader&, const Json&, LayerSpec&) {}},  // read first
                                  {"name", "name of the layer and its output; default: OP_POSITION, as conv2d_1", "layer name",
                                   false, [](Reader&r, const Json&j, LayerSpec&l) { r.layer_name(j, l.name); }},
                                  {"from", "the layers or inputs it reads", "layer name or list", false,
                                   [](Reader&r, const Json&j, LayerSpec&l) { read_names(r, j, l.from, Twice::good); }},
                                  {"out", "its output dim and the size", "object, name or list", false, read_out},
                                  {"in",
                                   "the dims of its input that it contracts, joins, slices, pads, renames or reshapes; a dense "
                                   "weight has them in the "
                                   "input's order",
                                   "name or list", false,
                                   [](Reader&r, const Json&j, LayerSpec&l) {
                                     read_names(r, j, l.in, l.op == "concat" ? Twice::good : Twice::refused);
                                   }},
                                  {"keep", "the dims it does not contract; default: the first", "name or list", false,
                                   names(&LayerSpec::keep)},
                                  {"over", "the two dims it slides over, rows first; default: its input's last two", "name or list",
                                   false, read_over},
                                  {"window", "extent of the window: a number or [rows, cols]", "integer or list", false,
                                   extent(&LayerSpec::window)},
                                  {"stride", "a number or [rows, cols]; default: 1, of a pool its window", "integer or list", false,
                                   extent(&LayerSpec::stride)},
                                  {"dilation",
                                   "a number or [rows, cols]",
                                   "integer or list",
                                   false,
                                   extent(&LayerSpec::dilation),
                                   {},
                                   LayerSpec{}.dilation.rows},
                                  {"padding",
                                   "\"valid\", \"same\", a number or [[top, bottom], [left, right]]",
                                   "text, integer or list",
                                   false,
                                   [](Reader&r, const Json&j, LayerSpec&l) { read_padding(r, j, l.padding); },
                                   {},
                                   kPaddings[static_cast<std::size_t>(LayerSpec{}.padding.kind)]},
                                  {"groups",
                                   "number of groups of channels, each with its own filters; one group per channel: depthwise",
                                   "integer",
                                   false,
                                   [](Reader&r, const Json&j, LayerSpec&l) { r.integer(j, l.groups, 1, kMostSize); },
                                   {},
                                   LayerSpec{}.groups},
                                  {"order", "all dims, in their new order", "list", false, names(&LayerSpec::order)},
                                  {"range", "[begin, end): the elements that stay", "list", false, read_range},
                                  zeros("before", "zeros put before the first element", &LayerSpec::before),
                                  zeros("after", "zeros put after the last element", &LayerSpec::after),
                                  boolean_field("bias", "whether it adds a bias", &LayerSpec::bias),
                                  {"weight", "the layer whose weight it shares; default: its own weight", "layer name", false,
                                   [](Reader&r, const Json&j, LayerSpec&l) { r.layer_name(j, l.arguments.weight.layer); }},
                                  {"initial", "initial values of its weight", "text", false,
                                   [](Reader&r, const Json&j, LayerSpec&l) {
                                     std::string word;
                                     if (!r.text(j, word, kInitialWeights)) return;
                                     const auto which =
                                         std::find(kInitialWeights.begin(), kInitialWeights.end(), word) - kInitialWeights.begin();
                                     l.arguments.weight.initial = static_cast<InitialWeights>(which);
                                   },
                                   schema_of_words(kInitialWeights)},
                                  {"deviation", "standard deviation of normal initial values", "number", false,
                                   [](Reader&r, const Json&j, LayerSpec&l) {
                                     r.number(j, l.arguments.weight.deviation, 1e-300, 1e300);
                                   }},
                                  LayerField{"activation", "elementwise function applied to its result", "text", false,
                                             [](Reader&r, const Json&j, LayerSpec&l) { read_activation(r, j, l.activation); },
                                             schema_of_words(activation_names()), LayerSpec{}.activation}})
      out.emplace(f.name, std::move(f));
    return out;
  }();
  return fields;
}

// The keys of each op; those before the empty name are required.
const std::map<std::string, std::vector<std::string>> kOpKeys{
    {"conv2d",
     {"out", "window", "", "in", "over", "stride", "dilation", "padding", "groups", "bias", "weight", "initial", "deviation",
      "activation"}},
    {"max_pool2d", {"window", "", "over", "stride", "padding", "activation"}},
    {"avg_pool2d", {"window", "", "over", "stride", "padding", "activation"}},
    {"global_avg_pool2d", {"", "over", "activation"}},
    {"dense", {"out", "", "in", "keep", "bias", "weight", "initial", "deviation", "activation"}},
    {"matmul", {"from", "over", "", "activation"}},
    {"add", {"from", "", "activation"}},
    {"flatten", {"out", ""}},
    {"reshape", {"in", "out", ""}},
    {"rename", {"in", "out", ""}},
    {"transpose", {"order", ""}},
    {"slice", {"in", "range", "out", ""}},
    {"pad", {"in", "out", "", "before", "after"}},
    {"concat", {"from", "in", "out", ""}},
    {"stack", {"from", "out", ""}}};

const std::map<std::string, std::vector<std::string>>& op_keys() {
  static const std::map<std::string, std::vector<std::string>> keys = [] {
    std::map<std::string, std::vector<std::string>> all = kOpKeys;
    for (const std::string& name : Pointwise::names()) all.emplace(name, std::vector<std::string>{});
    for (const LayerKind* kind : LayerKind::all()) all.emplace(kind->name, std::vector<std::string>{"", "activation"});
    return all;
  }();
  return keys;
}

bool reads_several(const std::string& op) {
  const LayerKind* kind = LayerKind::find(op);
  return op == "add" || op == "concat" || op == "stack" || op == "matmul" || (kind != nullptr && kind->reads > 1);
}

LayerField field_of(const LayerKey& key) {
  using Kind = LayerKey::Kind;
  LayerField f{key.name,
               key.doc,
               key.kind == Kind::names ? "name or list" : key.kind == Kind::whole ? "integer" : "number",
               key.required,
               {},
               {},
               {}};
  if (key.kind == Kind::names) {
    f.read = [key](Reader& r, const Json& j, LayerSpec& l) { read_names(r, j, l.arguments.names[key.name]); };
    return f;
  }
  if (key.kind == Kind::flag) {
    f.type = "boolean";
    f.usual = key.standard != 0;
    f.read = [key](Reader& r, const Json& j, LayerSpec& l) {
      bool on = false;
      if (r.boolean(j, on)) l.arguments.numbers[key.name] = on ? 1 : 0;
    };
    return f;
  }
  if (key.kind == Kind::word) {
    f.type = "text";
    f.schema = schema_of_words(key.words);
    if (!key.required) f.usual = key.words.front();
    f.read = [key](Reader& r, const Json& j, LayerSpec& l) { r.text(j, l.arguments.words[key.name], key.words); };
    return f;
  }
  if (key.kind == Kind::formula) {
    f.type = "text";
    f.read = [key](Reader& r, const Json& j, LayerSpec& l) { r.text(j, l.arguments.words[key.name]); };
    return f;
  }
  if (key.kind == Kind::extent) {
    f.type = "integer or list";
    if (!key.required) f.usual = static_cast<std::int64_t>(key.standard);
    f.read = [key](Reader& r, const Json& j, LayerSpec& l) {
      read_extent(r, j, l.arguments.extents[key.name], static_cast<std::int64_t>(key.least));
    };
    return f;
  }
  if (key.kind == Kind::padding) {
    f.type = "text, integer or list";
    f.usual = kPaddings.front();
    f.read = [key](Reader& r, const Json& j, LayerSpec& l) { read_padding(r, j, l.arguments.paddings[key.name]); };
    return f;
  }
  if (key.kind == Kind::dim || key.kind == Kind::dims) {
    f.type = "object, name or list";
    f.required = true;
    f.read = [key](Reader& r, const Json& j, LayerSpec& l) {
      std::vector<Dim> dims;
      read_dims(r, j, dims);
      if (dims.size() == 1 || (key.kind == Kind::dims && !dims.empty()))
        l.arguments.dims[key.name] = dims;
      else if (dims.size() > 1)
        r.complain(j, "`" + key.name + "` takes one dim, found " + std::to_string(dims.size()));
    };
    return f;
  }
  f.read = [key](Reader& r, const Json& j, LayerSpec& l) {
    double& to = l.arguments.numbers[key.name];
    if (key.kind == Kind::whole) {
      std::int64_t whole = 0;
      if (r.integer(j, whole, static_cast<std::int64_t>(key.least), static_cast<std::int64_t>(key.most)))
        to = static_cast<double>(whole);
    } else {
      r.number(j, to, {.least = key.least, .most = key.most, .below = key.below});
    }
  };
  if (!key.required && key.kind == Kind::whole) f.usual = static_cast<std::int64_t>(key.standard);
  if (!key.required && key.kind == Kind::number) f.usual = key.standard;
  return f;
}

Table<LayerSpec> layer_table(const std::string& op) {
  Table<LayerSpec> table{layer_fields().at("op"), layer_fields().at("name")};
  bool required = true;
  for (const std::string& key : op_keys().at(op)) {
    if (key.empty()) {
      required = false;
      continue;
    }
    table.push_back(layer_fields().at(key));
    table.back().required = required;
    if (op == "matmul" && key == "over")
      table.back().doc = "the dims of both that it contracts; the second one's other dims take their place";
  }
  if (const LayerKind* kind = LayerKind::find(op)) {
    if (kind->reads > 1) {
      table.push_back(layer_fields().at("from"));
      table.back().required = true;
    }
    for (const LayerKey& key : kind->keys) table.push_back(field_of(key));
  }
  if (const LayerKind* kind = LayerKind::find(op); kind != nullptr && kind->form.weight)
    for (const char* key : {"weight", "initial", "deviation"}) table.push_back(layer_fields().at(key));
  if (const LayerKind* kind = LayerKind::find(op); !reads_several(op) && (kind == nullptr || kind->reads > 0)) {
    table.push_back(layer_fields().at("from"));
    table.back().doc += "; default: the layer before it";
    if (kind != nullptr && !kind->form.optional.empty()) table.back().doc += "; a second one: " + kind->form.optional;
  }
  return table;
}

void give_standards(const std::vector<LayerKey>& keys, LayerArguments& to) {
  using Kind = LayerKey::Kind;
  for (const LayerKey& key : keys) switch (key.kind) {
      case Kind::names: to.names[key.name]; break;
      case Kind::dim:
      case Kind::dims: to.dims[key.name]; break;
      case Kind::formula: to.words[key.name]; break;
      case Kind::word: to.words[key.name] = key.words.front(); break;
      case Kind::extent: to.extents[key.name] = Extent2(static_cast<Index>(key.standard)); break;
      case Kind::padding: to.paddings[key.name]; break;
      case Kind::number:
      case Kind::whole:
      case Kind::flag: to.numbers[key.name] = key.standard; break;
    }
}

// Whether `from`, if it is there, could be read: then it is known how many tensors a formula has.
bool knows_operands(const Json& j, const LayerSpec& layer) {
  const Json* from = j.find("from");
  if (from == nullptr) return true;
  const auto* list = std::get_if<Json::Array>(&from->value);
  return !layer.from.empty() && layer.from.size() == (list == nullptr ? 1 : list->size());
}
void check_formulas(Reader& r, const Json& j, const LayerSpec& layer) {
  const LayerKind* kind = LayerKind::find(layer.op);
  if (kind == nullptr || !knows_operands(j, layer)) return;
  for (const LayerKey& key : kind->keys) {
    const Json* given = key.kind == LayerKey::Kind::formula ? j.find(key.name) : nullptr;
    if (given == nullptr || !std::holds_alternative<std::string>(given->value)) continue;
    r.in(key.name, [&] {
      try {
        static_cast<void>(parse_map(std::get<std::string>(given->value), std::max<std::size_t>(1, layer.from.size())));
      } catch (const UserError& e) {
        r.complain(*given, e.what());
      }
    });
  }
}

}  // namespace

// {dim: size, ...}
void read_sized_dims(Reader& r, const Json& j, std::vector<Dim>& out, DType* dtype) {
  for (const Json::Member& m : std::get<Json::Object>(j.value))
    r.in(m.key, [&] {
      if (m.key == "dtype" && dtype != nullptr && std::holds_alternative<std::string>(m.value.value)) {
        std::string word;
        if (r.text(m.value, word, kInputTypes)) *dtype = word == "i32" ? DType::i32 : DType::f32;
        return;
      }
      if (!is_name(m.key))
        return r.complain(m.where, "\"" + m.key + "\" is not a valid dim name: letters, digits, _ and -, a letter or _ first");
      Dim d{m.key, 0};
      if (!r.integer(m.value, d.size, 1, kMostSize)) d.size = 0;  // the name is known even so
      out.push_back(std::move(d));
    });
}

LayerSpec read_layer(Reader& r, const Json& j) {
  LayerSpec layer;
  layer.good = false;
  const std::size_t before = r.complaints.list.size();
  if (!std::holds_alternative<Json::Object>(j.value)) return r.complain(j, "a layer is an object, found " + Reader::kind(j)), layer;
  // Other fields may name a layer whose op is not known, or whose "name" is misspelt.
  std::vector<std::string> keys;
  for (const auto& [key, field] : layer_fields()) keys.push_back(key);
  for (const Json::Member& m : std::get<Json::Object>(j.value))
    if (m.key == "name" || (layer.name.empty() && probably_meant(m.key, keys) == "name"))
      if (const auto* text = std::get_if<std::string>(&m.value.value); text != nullptr && is_layer_name(*text)) layer.name = *text;
  const Json* op = j.find("op");
  if (op == nullptr) return r.complain(j, "\"op\" is missing (what the layer computes, as \"conv2d\")"), layer;
  std::vector<std::string> known;
  for (const auto& [name, its] : op_keys()) known.push_back(name);
  bool good = false;
  r.in("op", [&] { good = r.text(*op, layer.op, known); });
  if (!good) return layer;
  if (const LayerKind* kind = LayerKind::find(layer.op)) {
    give_standards(kind->keys, layer.arguments);
    layer.arguments.weight = kind->form.weight.value_or(WeightOptions{});
  }
  r.object(j, layer_table(layer.op), layer);
  if (const Json* deviation = j.find("deviation");
      deviation != nullptr && layer.arguments.weight.layer.empty() && layer.arguments.weight.initial != InitialWeights::normal)
    r.in("deviation", [&] {
      r.complain(*deviation, "this is the standard deviation of normal initial values; expected \"initial\": \"normal\" beside it");
    });
  for (const char* key : {"initial", "deviation"})
    if (const Json* given = j.find(key); given != nullptr && !layer.arguments.weight.layer.empty())
      r.in(key, [&] { r.complain(*given, "the weight is that of \"" + layer.arguments.weight.layer + "\"; leave this out"); });
  if (const Json* from = j.find("from"); from != nullptr && !layer.from.empty()) {
    const auto* list = std::get_if<Json::Array>(&from->value);
    if (reads_several(layer.op) && (list == nullptr || list->size() < 2))
      r.in("from", [&] { r.complain(*from, layer.op + " needs at least two tensors, as [\"a\", \"b\"]"); });
    if ((layer.op == "matmul" || LayerKind::find(layer.op) != nullptr) && reads_several(layer.op) && layer.from.size() > 2)
      r.in("from", [&] { r.complain(*from, layer.op + " reads two tensors, found " + std::to_string(layer.from.size())); });
    const LayerKind* kind = LayerKind::find(layer.op);
    const bool two = kind != nullptr && !kind->form.optional.empty();
    const std::size_t most = kind != nullptr && kind->form.most > 0 ? static_cast<std::size_t>(kind->form.most) : two ? 2 : 1;
    const std::string reads =
        most > 2 ? "at most " + std::to_string(most) + " tensors" : "one tensor" + (two ? " and " + kind->form.optional : "");
    if (!reads_several(layer.op) && layer.from.size() > most)
      r.in("from", [&] { r.complain(*from, layer.op + " reads " + reads + ", found " + std::to_string(layer.from.size())); });
  }
  check_formulas(r, j, layer);
  layer.good = r.complaints.list.size() == before;
  layer.only_out =
      !layer.good && std::all_of(r.complaints.list.begin() + static_cast<std::ptrdiff_t>(before), r.complaints.list.end(),
                                 [](const Complaints::One& one) { return one.path.find("/out") != std::string::npos; });
  return layer;
}

Json layers_schema() {
  Json::Array forms;
  for (const auto& [op, keys] : op_keys()) {
    Table<LayerSpec> table = layer_table(op);
    table.front().schema = schema_of_words({op});
    forms.push_back(object_schema(table));
  }
  return schema_of_list(std::move(Json{Json::Object{}}.set("oneOf", std::move(forms))));
}

bool may_declare_dims(const std::string& op) {
  const auto keys = op_keys().find(op);
  return keys == op_keys().end() || Reader::is_one_of("out", keys->second);
}

}  // namespace motley
