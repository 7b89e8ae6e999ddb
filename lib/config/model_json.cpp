// SPDX-License-Identifier: Apache-2.0
// Text of a model -> ModelSpec.
#include <algorithm>
#include <map>

#include "config/model.h"
#include "config/zoo.h"
#include "config/zoo_transformers.h"
#include "graph/pointwise.h"

namespace motley {

namespace {

constexpr std::int64_t kMostSize = std::int64_t{1} << 40, kMostWindow = 1 << 20;
const std::vector<std::string> kPaddings{"valid", "same"}, kInputTypes{"f32", "i32"},
    kInitialWeights{"he_uniform", "normal", "zeros", "ones"};

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
  if (!layer) return static_cast<void>(r.text(j, out, activation_names()));
  r.complain(j, "\"" + *word +
                    "\" as an activation is not built yet, it has keys; write it as a layer after this one, { \"op\": \"" + *word +
                    "\" }");
}

// {dim: size, ...}
void read_sized_dims(Reader& r, const Json& j, std::vector<Dim>& out, DType* dtype = nullptr) {
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
      if (!r.integer(m.value, d.size, 1, kMostSize)) d.size = 0;  // the name is known all the same
      out.push_back(std::move(d));
    });
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

// { "filters1": 60 }, or the name of a dim that is declared further up.
void read_dims(Reader& r, const Json& j, std::vector<Dim>& out) {
  if (std::holds_alternative<Json::Object>(j.value)) {
    read_sized_dims(r, j, out);
    if (std::get<Json::Object>(j.value).empty()) r.complain(j, "expected one dim, e.g. { \"filters1\": 60 }");
  } else if (std::holds_alternative<std::string>(j.value) || std::holds_alternative<Json::Array>(j.value)) {
    std::vector<std::string> names;
    read_names(r, j, names);
    for (std::string& name : names) out.push_back({std::move(name), 0});
  } else {
    r.complain(j, "expected a dim and its size, e.g. { \"filters1\": 60 }, found " + Reader::kind(j));
  }
}

void read_out(Reader& r, const Json& j, LayerSpec& layer) {
  read_dims(r, j, layer.out);
  if (layer.op != "dense" && layer.op != "reshape" && layer.out.size() > 1)
    r.complain(j, layer.op + " makes one dim, these are " + std::to_string(layer.out.size()));
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

WeightOptions& weight_of(LayerSpec& l) {
  if (!l.arguments.weight) l.arguments.weight = WeightOptions{};
  return *l.arguments.weight;
}

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
                                  {"name", "name of the layer and its output; default: OP_POSITION, as conv2d_1", "name", false,
                                   [](Reader&r, const Json&j, LayerSpec&l) { r.layer_name(j, l.name); }},
                                  {"from", "the layers or inputs it reads", "name or list", false,
                                   [](Reader&r, const Json&j, LayerSpec&l) { read_names(r, j, l.from, Twice::good); }},
                                  {"out", "the dim it makes and its size", "object, name or list", false, read_out},
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
                                  {"over",
                                   "the two dims it slides over, rows first; default: its input's last two; of matmul: the dims of "
                                   "both that it "
                                   "contracts, in whose place the second one's own dims come",
                                   "name or list", false, read_over},
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
                                   "so many groups of channels, each with filters of its own; as many as channels: depthwise",
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
                                  {"weight", "the layer whose weight it shares; default: one of its own", "name", false,
                                   [](Reader&r, const Json&j, LayerSpec&l) { r.layer_name(j, weight_of(l).layer); }},
                                  {"initial", "what its weight starts from", "text", false,
                                   [](Reader&r, const Json&j, LayerSpec&l) {
                                     std::string word;
                                     if (!r.text(j, word, kInitialWeights)) return;
                                     const auto which =
                                         std::find(kInitialWeights.begin(), kInitialWeights.end(), word) - kInitialWeights.begin();
                                     weight_of(l).initial = static_cast<InitialWeights>(which);
                                   },
                                   schema_of_words(kInitialWeights)},
                                  {"deviation", "of normal initial values", "number", false,
                                   [](Reader&r, const Json&j, LayerSpec&l) { r.number(j, weight_of(l).deviation, 1e-300, 1e300); }},
                                  LayerField{"activation", "pointwise function of its result", "text", false,
                                             [](Reader&r, const Json&j, LayerSpec&l) { read_activation(r, j, l.activation); },
                                             schema_of_words(activation_names()), LayerSpec{}.activation}})
      out.emplace(f.name, std::move(f));
    return out;
  }();
  return fields;
}

// The keys of each op; the first ones up to the empty name are required.
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
        r.complain(j, "`" + key.name + "` is one dim, these are " + std::to_string(dims.size()));
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
      r.number(j, to, key.least, key.most);
    }
  };
  if (!key.required) f.usual = key.standard;
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
      case Kind::word: to.words[key.name] = key.words.front(); break;
      case Kind::extent: to.extents[key.name] = Extent2(static_cast<Index>(key.standard)); break;
      case Kind::padding: to.paddings[key.name]; break;
      case Kind::number:
      case Kind::whole:
      case Kind::flag: to.numbers[key.name] = key.standard; break;
    }
}

LayerSpec read_layer(Reader& r, const Json& j) {
  LayerSpec layer;
  layer.good = false;
  const std::size_t before = r.complaints.list.size();
  if (!std::holds_alternative<Json::Object>(j.value)) return r.complain(j, "a layer is an object, found " + Reader::kind(j)), layer;
  // Others may name a layer whose op is not known, or whose "name" is misspelt.
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
  if (const LayerKind* kind = LayerKind::find(layer.op)) give_standards(kind->keys, layer.arguments);
  r.object(j, layer_table(layer.op), layer);
  if (const Json* deviation = j.find("deviation");
      deviation != nullptr && layer.arguments.weight && layer.arguments.weight->initial != InitialWeights::normal)
    r.in("deviation",
         [&] { r.complain(*deviation, "it is that of normal initial values; expected \"initial\": \"normal\" beside it"); });
  if (const Json* from = j.find("from"); from != nullptr && !layer.from.empty()) {
    const auto* list = std::get_if<Json::Array>(&from->value);
    if (reads_several(layer.op) && (list == nullptr || list->size() < 2))
      r.in("from", [&] { r.complain(*from, layer.op + " needs at least two, as [\"a\", \"b\"]"); });
    if ((layer.op == "matmul" || LayerKind::find(layer.op) != nullptr) && reads_several(layer.op) && layer.from.size() > 2)
      r.in("from", [&] { r.complain(*from, layer.op + " reads two tensors, these are " + std::to_string(layer.from.size())); });
    const LayerKind* kind = LayerKind::find(layer.op);
    const bool two = kind != nullptr && !kind->form.optional.empty();
    if (!reads_several(layer.op) && layer.from.size() > (two ? 2 : 1))
      r.in("from", [&] {
        r.complain(*from, layer.op + " reads one tensor" + (two ? " and " + kind->form.optional : "") + ", these are " +
                              std::to_string(layer.from.size()));
      });
  }
  layer.good = r.complaints.list.size() == before;
  layer.only_out =
      !layer.good && std::all_of(r.complaints.list.begin() + static_cast<std::ptrdiff_t>(before), r.complaints.list.end(),
                                 [](const Complaints::One& one) { return one.path.find("/out") != std::string::npos; });
  return layer;
}

// Dims and their sizes, and perhaps "dtype".
Json input_schema() {
  return schema_of_map(std::move(Json().set("oneOf", Json::Array{schema_of_type("integer"), schema_of_words(kInputTypes)})));
}

void read_input(Reader& r, const Json::Member& m, ModelSpec& model) {
  InputSpec input{m.key, {}};
  const std::size_t before = r.complaints.list.size();
  if (!is_name(m.key)) r.complain(m.where, "\"" + m.key + "\" is not a valid name: letters, digits, _ and -, a letter or _ first");
  if (!std::holds_alternative<Json::Object>(m.value.value)) {
    r.complain(m.value, "expected the input's dims and their sizes, found " + Reader::kind(m.value));
  } else {
    read_sized_dims(r, m.value, input.dims, &input.dtype);
    if (input.dims.empty() && r.complaints.list.size() == before) r.complain(m.value, "expected the input's dims and their sizes");
  }
  if (r.complaints.list.size() == before)
    model.inputs.push_back(std::move(input));
  else
    model.bad_inputs.push_back(m.key);
}

// Those that samples fill, and perhaps the labels; which is which follows from the loss, read later.
void read_inputs(Reader& r, const Json& j, ModelSpec& model) {
  const auto* members = std::get_if<Json::Object>(&j.value);
  if (members == nullptr || members->empty())
    return r.complain(j, "expected one input, e.g. { \"image\": { \"batch\": 100, \"channels\": 1, \"rows\": 28, \"cols\": 28 } }");
  for (const Json::Member& m : *members) r.in(m.key, [&] { read_input(r, m, model); });
}

const std::vector<std::string> kLosses{"binary_cross_entropy", "mean_squared_error", "softmax_cross_entropy"};

Table<LossSpec> loss_table(const std::string& op) {
  const bool classes = op == "softmax_cross_entropy";
  Table<LossSpec> table{
      {"op",
       classes                      ? "labels are classes"
       : op == "mean_squared_error" ? "the square of value - label"
                                    : "of logits; labels are probabilities, from 0 to 1",
       "text", true, [](Reader& r, const Json& j, LossSpec& l) { r.text(j, l.op, kLosses); }, schema_of_words({op})},
      {"labels",
       classes ? "the input that holds the labels, whole numbers: the samples, then the logits' other dims but `over`"
               : "the input that holds the labels: the samples, then the last layer's other dims",
       "name",
       false,
       [](Reader& r, const Json& j, LossSpec& l) { r.name(j, l.labels); },
       {},
       Json(LossSpec{}.labels)}};
  if (!classes) return table;
  table.push_back(
      {"over", "the dim of the classes", "name", true, [](Reader& r, const Json& j, LossSpec& l) { r.name(j, l.over); }});
  table.push_back({"label_smoothing",
                   "part of each target that is spread evenly over all classes, from 0 to 1",
                   "number",
                   false,
                   [](Reader& r, const Json& j, LossSpec& l) { r.number(j, l.label_smoothing, 0, 1); },
                   {},
                   Json(LossSpec{}.label_smoothing)});
  table.push_back({"ignore_index",
                   "a label, a class or not, whose elements count neither in the loss nor in its mean nor in the accuracy",
                   "integer", false, [](Reader& r, const Json& j, LossSpec& l) {
                     Index ignored = 0;
                     if (r.integer(j, ignored, -kMostWhole, kMostWhole)) l.ignore_index = ignored;
                   }});
  return table;
}

// One form per op.
Json loss_schema() {
  Json::Array forms;
  for (const std::string& op : kLosses) forms.push_back(object_schema(loss_table(op)));
  return std::move(Json{Json::Object{}}.set("oneOf", std::move(forms)));
}

// One form per op, named by its "op".
Json layers_schema() {
  Json::Array forms;
  for (const auto& [op, keys] : op_keys()) {
    Table<LayerSpec> table = layer_table(op);
    table.front().schema = schema_of_words({op});
    forms.push_back(object_schema(table));
  }
  return schema_of_list(std::move(Json{Json::Object{}}.set("oneOf", std::move(forms))));
}

Table<ModelSpec> model_table(VersionKey version) {
  return {
      version_field<ModelSpec>(version),
      {"name", "name of the model, informative", "text", false, [](Reader& r, const Json& j, ModelSpec& m) { r.text(j, m.name); }},
      {"inputs", "name -> its dims and their sizes", "object", true, read_inputs, schema_of_map(input_schema())},
      {"layers", "in the order in which they compute", "list", true,
       [](Reader& r, const Json& j, ModelSpec& m) {
         r.list(j, [&](const Json& one, std::size_t) { m.layers.push_back(read_layer(r, one)); });
         if (const auto* a = std::get_if<Json::Array>(&j.value); a != nullptr && a->empty())
           r.complain(j, "expected at least one layer");
       },
       layers_schema()},
      {"loss", "what training minimizes", "object", true,
       [](Reader& r, const Json& j, ModelSpec& m) {
         const Json* op = j.find("op");
         const auto* text = op == nullptr ? nullptr : std::get_if<std::string>(&op->value);
         const std::size_t before = r.complaints.list.size();
         if (text != nullptr && !Reader::is_one_of(*text, kLosses))
           r.in("op", [&] { r.text(*op, m.loss.op, kLosses); });  // its other keys are not these
         else
           r.object(j, loss_table(text == nullptr ? "softmax_cross_entropy" : *text), m.loss);
         m.loss.good = r.complaints.list.size() == before;
       },
       loss_schema()}};
}

// Names that layers get and names that they read.
void check_names(Reader& r, const Json& j, ModelSpec& model) {
  std::vector<std::string> earlier, later, endings;  // endings: of a name that follows from an op that is not known
  for (const InputSpec& i : model.inputs) earlier.push_back(i.name);
  for (const std::string& name : model.bad_inputs) earlier.push_back(name);
  for (std::size_t i = 0; i < model.layers.size(); i++) {
    LayerSpec& l = model.layers[i];
    const std::string ending = "_" + std::to_string(i + 1);
    if (l.name.empty() && l.op.empty()) endings.push_back(ending);
    if (l.name.empty()) l.name = (l.op.empty() ? "layer" : l.op) + ending;
    later.push_back(l.name);
  }
  const std::string& labels = model.loss.labels;
  const auto others = std::count_if(model.inputs.begin(), model.inputs.end(), [&](const InputSpec& i) { return i.name != labels; });
  for (InputSpec& i : model.inputs) {
    if (i.name == labels) {
      if (i.dtype != DType::i32 && model.inputs.size() > 1 && model.loss.has_classes()) {
        complain_below(r, j, "/inputs/" + i.name, "\"" + labels + "\" holds the labels, whole numbers; add \"dtype\": \"i32\"");
        i.dtype = DType::i32;  // as it was meant
      }
      if (i.dtype == DType::i32 && !model.loss.has_classes())
        complain_below(r, j, "/inputs/" + i.name,
                       "labels of " + model.loss.op + " are real numbers; leave \"dtype\" out of \"" + labels + "\"");
    } else if (others > 1 && (i.dims.empty() || i.dims.front().name != model.batch_dim())) {
      complain_below(r, j, "/inputs/" + i.name,
                     "each sample fills a part of every input: expected \"" + model.batch_dim() + "\" as its first dim");
    }
  }
  if (!model.inputs.empty() && others == 0 && model.bad_inputs.empty())
    complain_below(r, j, "/inputs/" + labels,
                   "\"" + labels + "\" is reserved for the labels; rename this input" +
                       (labels == "label" ? "" : ", or name another one in /loss/labels"));
  if (others == 0) model.inputs.clear();  // what reads them cannot be checked
  for (std::size_t i = 0; i < model.layers.size(); i++) {
    LayerSpec& l = model.layers[i];
    const std::string at = "/layers/" + std::to_string(i);
    if (l.name == labels || Reader::is_one_of(l.name, earlier)) {
      complain_below(r, j, at + "/name",
                     l.name == labels ? "\"" + labels + "\" is reserved for the labels; rename this layer"
                                      : "two layers or inputs are called \"" + l.name + "\"; give this one another name");
      l.good = false;
    }
    for (std::size_t k = 0; k < l.from.size(); k++) {
      if (Reader::is_one_of(l.from[k], earlier)) continue;
      const bool own = l.from[k] == l.name, after = Reader::is_one_of(l.from[k], later);
      // Where the inputs were refused, their names are not known.
      if (model.inputs.empty() && !own && !after) continue;
      if (std::any_of(endings.begin(), endings.end(), [&](const std::string& e) { return l.from[k].ends_with(e); })) continue;
      const std::string meant = probably_meant(l.from[k], earlier);
      complain_below(r, j, at + "/from/" + std::to_string(k),
                     own     ? "a layer cannot read itself"
                     : after ? "\"" + l.from[k] + "\" is listed below; a layer reads what is listed above it"
                             : "there is no layer or input \"" + l.from[k] + "\" above" + did_you_mean(l.from[k], earlier));
      // What was probably meant is read instead: so the layers after it are built and checked too.
      if (!meant.empty() && !own && !after)
        l.from[k] = meant;
      else
        l.good = false;
    }
    earlier.push_back(l.name);
  }
}

// A network of the zoo, of which the keys of a model follow.
struct ZooSpec {
  ModelSpec model{};
  ZooChoice choice{};
  std::string stem{};
};
const std::vector<std::string> kStems{"imagenet", "cifar"};

Table<ZooSpec> zoo_table(VersionKey version) {
  return {
      version_field<ZooSpec>(version),
      {"zoo", "a published network", "text", true,
       [](Reader& r, const Json& j, ZooSpec& z) { r.text(j, z.choice.network, zoo_networks()); }, schema_of_words(zoo_networks())},
      {"name", "name of the model, informative", "text", false,
       [](Reader& r, const Json& j, ZooSpec& z) { r.text(j, z.model.name); }},
      {"inputs",
       "name -> its dims and their sizes: samples, channels, rows, columns; of gpt and bert (\"dtype\": \"i32\"): samples, "
       "positions",
       "object", true, [](Reader& r, const Json& j, ZooSpec& z) { read_inputs(r, j, z.model); }, schema_of_map(input_schema())},
      {"classes",
       "size of the dim \"classes\" that it makes; of gpt and bert that of the vocabulary (default: as published)",
       "integer",
       false,
       [](Reader& r, const Json& j, ZooSpec& z) { r.integer(j, z.choice.classes, 1, kMostSize); },
       {},
       Json(ZooChoice{}.classes)},
      {"layers", "of gpt, bert and vit: so many blocks; default: as published, 12", "integer", false,
       [](Reader& r, const Json& j, ZooSpec& z) { r.integer(j, z.choice.layers, 1, 10000); }},
      {"heads", "of their attention; default: as published, 12", "integer", false,
       [](Reader& r, const Json& j, ZooSpec& z) { r.integer(j, z.choice.heads, 1, kMostSize); }},
      {"stem", "of resnet18, resnet34 and resnet50: \"cifar\" is a 3x3 convolution without a pool, for small images", "text", false,
       [](Reader& r, const Json& j, ZooSpec& z) { r.text(j, z.stem, kStems); }, schema_of_words(kStems), kStems.front()},
      {"width",
       "factor of every layer's channels",
       "number",
       false,
       [](Reader& r, const Json& j, ZooSpec& z) { r.number(j, z.choice.width, 1e-3, 1e3); },
       {},
       Json(ZooChoice{}.width)}};
}

ModelSpec read_zoo(Reader& r, const Json& j, VersionKey version) {
  ZooSpec zoo;
  const std::size_t before = r.complaints.list.size();
  r.object(j, zoo_table(version), zoo);
  if (zoo.stem == "cifar" && !zoo.choice.network.empty() && !has_small_stem(zoo.choice.network))
    r.in("stem", [&] {
      r.complain(*j.find("stem"), "resnet18, resnet34 and resnet50 have two stems, " + zoo.choice.network + " has one");
    });
  zoo.choice.small_stem = zoo.stem == "cifar";
  const bool known = !zoo.choice.network.empty(), tokens = known && reads_tokens(zoo.choice.network);
  if (known && !zoo.model.inputs.empty()) {
    const InputSpec& input = zoo.model.inputs.front();
    const auto wrong = [&](const std::string& text) { r.in("inputs", [&] { r.complain(*j.find("inputs"), text); }); };
    if (zoo.model.inputs.size() > 1)
      wrong("expected one input, these are " + std::to_string(zoo.model.inputs.size()));
    else if (tokens && (input.dims.size() != 2 || input.dtype != DType::i32))
      wrong("expected whole numbers of two dims, as { \"tokens\": { \"dtype\": \"i32\", \"batch\": 8, \"positions\": 128 } }");
    else if (!tokens && (input.dims.size() != 4 || input.dtype != DType::f32))
      wrong("expected images: four dims, as { \"batch\": 32, \"channels\": 3, \"rows\": 224, \"cols\": 224 }");
    for (const char* key : {"layers", "heads"})
      if (const Json* given = j.find(key); given != nullptr && !is_transformer(zoo.choice.network))
        r.in(key, [&] { r.complain(*given, "gpt, bert and vit take it, " + zoo.choice.network + " does not"); });
    if (tokens && j.find("classes") == nullptr) zoo.choice.classes = usual_choice(zoo.choice.network).classes;
  }
  if (r.complaints.list.size() != before) return std::move(zoo.model);
  zoo.choice.input = zoo.model.inputs.front().name;
  zoo.choice.image = zoo.model.inputs.front().dims;
  Json text;
  try {
    text = zoo_model(zoo.choice);
  } catch (const UserError& e) {
    r.complain(j, e.what());
    return std::move(zoo.model);
  }
  Complaints none;
  Reader inner{none};
  ModelSpec model;
  if (inner.object(text, model_table(VersionKey::required), model)) check_names(inner, text, model);
  check(none.empty(), "the zoo's networks can be read");
  if (!zoo.model.name.empty()) model.name = zoo.model.name;
  return model;
}

}  // namespace

Json model_schema(VersionKey version) {
  return std::move(
      Json{Json::Object{}}.set("oneOf", Json::Array{object_schema(model_table(version)), object_schema(zoo_table(version))}));
}

bool may_declare_dims(const std::string& op) {
  const auto keys = op_keys().find(op);
  return keys == op_keys().end() || Reader::is_one_of("out", keys->second);
}

ModelSpec read_model(Reader& reader, const Json& json, VersionKey version) {
  if (json.find("zoo") != nullptr) return read_zoo(reader, json, version);
  ModelSpec model;
  if (reader.object(json, model_table(version), model)) check_names(reader, json, model);
  return model;
}

ModelSpec ModelSpec::load(const std::filesystem::path& file) {
  return load_json(file, [](Reader& r, const Json& j) {
    const std::optional<ModelSpec> model = read_model(r, j, VersionKey::required);
    build_model(*model, 0, [&](const std::string& pointer, const std::string& text) { complain_below(r, j, pointer, text); });
    return model;
  });
}

}  // namespace motley
