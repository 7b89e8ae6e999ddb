// SPDX-License-Identifier: Apache-2.0
// Text of a model -> ModelSpec.
#include <motley/error.h>
#include <motley/step.h>

#include <algorithm>
#include <unordered_set>

#include "config/layer_json.h"
#include "config/model.h"
#include "config/zoo.h"
#include "config/zoo_transformers.h"
#include "graph/ops/mean_loss.h"

namespace motley {

namespace {

// Dims and their sizes, and optionally "dtype".
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

// The inputs that samples fill, and perhaps the labels; which is which follows from the loss, which is read later.
void read_inputs(Reader& r, const Json& j, ModelSpec& model) {
  const auto* members = std::get_if<Json::Object>(&j.value);
  if (members == nullptr || members->empty())
    return r.complain(j, "expected one input, e.g. { \"image\": { \"batch\": 100, \"channels\": 1, \"rows\": 28, \"cols\": 28 } }");
  for (const Json::Member& m : *members) r.in(m.key, [&] { read_input(r, m, model); });
}

const std::vector<std::string> kLosses{"binary_cross_entropy", "huber", "mean_absolute_error", "mean_squared_error",
                                       "softmax_cross_entropy"};

Table<LossSpec> loss_table(const std::string& op) {
  const bool classes = op == "softmax_cross_entropy";
  Table<LossSpec> table{
      {"op",
       classes                       ? "labels are classes"
       : op == "mean_squared_error"  ? "the square of value - label"
       : op == "mean_absolute_error" ? "|value - label|"
       : op == "huber"               ? "d^2 / 2 for d = |value - label| up to delta, delta (d - delta / 2) beyond"
                                     : "of logits; labels are probabilities, from 0 to 1",
       "text", true, [](Reader& r, const Json& j, LossSpec& l) { r.text(j, l.op, kLosses); }, schema_of_words({op})},
      {"labels",
       classes ? "the input that holds the labels (integers); its dims: the samples, then the logits' other dims except `over`"
               : "the input that holds the labels; its dims: the samples, then the last layer's other dims",
       "name",
       false,
       [](Reader& r, const Json& j, LossSpec& l) { r.name(j, l.labels); },
       {},
       Json(LossSpec{}.labels)}};
  if (op == "huber")
    table.push_back({"delta",
                     "from this distance on the loss grows linearly",
                     "number",
                     false,
                     [](Reader& r, const Json& j, LossSpec& l) { r.number(j, l.delta, kHuberDelta); },
                     {},
                     Json(LossSpec{}.delta)});
  if (!classes) return table;
  table.push_back(
      {"over", "the dim of the classes", "name", true, [](Reader& r, const Json& j, LossSpec& l) { r.name(j, l.over); }});
  table.push_back({"label_smoothing",
                   "fraction of each target that is spread evenly over all classes, from 0 to 1",
                   "number",
                   false,
                   [](Reader& r, const Json& j, LossSpec& l) { r.number(j, l.label_smoothing, 0, 1); },
                   {},
                   Json(LossSpec{}.label_smoothing)});
  table.push_back(
      {"ignore_index",
       "elements with this label count neither in the loss, nor in its mean, nor in the accuracy; it need not be a class",
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

Table<ModelSpec> model_table(VersionKey version) {
  return {
      version_field<ModelSpec>(version),
      {"name", "name of the model, informative", "text", false, [](Reader& r, const Json& j, ModelSpec& m) { r.text(j, m.name); }},
      {"inputs", "name -> its dims and their sizes", "object", true, read_inputs, schema_of_map(input_schema())},
      {"layers", "in the order of execution", "list", true,
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
           r.in("op", [&] { r.text(*op, m.loss.op, kLosses); });  // the keys of another op do not apply
         else
           r.object(j, loss_table(text == nullptr ? "softmax_cross_entropy" : *text), m.loss);
         m.loss.good = r.complaints.list.size() == before;
       },
       loss_schema()}};
}

// Whether the loss is the one that is written: of a misspelt one nothing is known.
bool is_loss_known(const Json& model, const ModelSpec& spec) {
  const Json* loss = model.find("loss");
  const Json* op = loss == nullptr ? nullptr : loss->find("op");
  const auto* text = op == nullptr ? nullptr : std::get_if<std::string>(&op->value);
  return text == nullptr || *text == spec.loss.op;
}

// Checks the names that layers have and the names that they read.
void check_names(Reader& r, const Json& j, ModelSpec& model) {
  constexpr std::size_t kMostCompared = 1000;  // names with which a wrong one is compared
  std::vector<std::string> earlier, endings;   // endings: of names that follow from an unknown op
  std::unordered_set<std::string> known, later;
  for (const InputSpec& i : model.inputs) earlier.push_back(i.name);
  for (const std::string& name : model.bad_inputs) earlier.push_back(name);
  known.insert(earlier.begin(), earlier.end());
  for (std::size_t i = 0; i < model.layers.size(); i++) {
    LayerSpec& l = model.layers[i];
    const std::string ending = "_" + std::to_string(i + 1);
    if (l.name.empty() && l.op.empty()) endings.push_back(ending);
    if (l.name.empty()) l.name = (l.op.empty() ? "layer" : l.op) + ending;
    later.insert(l.name);
  }
  const std::string &labels = model.loss.labels, batch = model.batch_dim();
  const auto others = std::count_if(model.inputs.begin(), model.inputs.end(), [&](const InputSpec& i) { return i.name != labels; });
  for (InputSpec& i : model.inputs) {
    if (i.name == labels) {
      if (i.dtype != DType::i32 && model.inputs.size() > 1 && model.loss.has_classes() && is_loss_known(j, model)) {
        complain_below(r, j, "/inputs/" + i.name,
                       "\"" + labels + "\" holds the labels, which are integers; add \"dtype\": \"i32\"");
        i.dtype = DType::i32;  // the intended type
      }
      if (i.dtype == DType::i32 && !model.loss.has_classes())
        complain_below(r, j, "/inputs/" + i.name,
                       "labels of " + model.loss.op + " are floats; leave \"dtype\" out of \"" + labels + "\"");
    } else if (others > 1 && (i.dims.empty() || i.dims.front().name != batch)) {
      complain_below(r, j, "/inputs/" + i.name,
                     "every input holds one part per sample: expected \"" + batch + "\" as its first dim");
    }
  }
  if (!model.inputs.empty() && others == 0 && model.bad_inputs.empty())
    complain_below(r, j, "/inputs/" + labels,
                   labels == "label" ? "\"label\" is reserved for the labels; rename this input"
                                     : "\"" + labels +
                                           "\" holds the labels, which only the loss may read; declare an input for the network, "
                                           "or name another one in /loss/labels");
  if (others == 0) model.inputs.clear();  // layers that read them cannot be checked
  for (std::size_t i = 0; i < model.layers.size(); i++) {
    LayerSpec& l = model.layers[i];
    const std::string at = "/layers/" + std::to_string(i);
    if (l.name == labels || known.contains(l.name)) {
      complain_below(r, j, at + "/name",
                     l.name == labels ? "\"" + labels + "\" is reserved for the labels; rename this layer"
                                      : "two layers or inputs are called \"" + l.name + "\"; give this one another name");
      l.good = false;
    }
    for (std::size_t k = 0; k < l.from.size(); k++) {
      if (l.from[k] == labels && known.contains(labels)) {
        complain_below(
            r, j, at + "/from/" + std::to_string(k),
            "\"" + labels + "\" holds the labels, which only the loss may read: they are not known when the network predicts");
        l.good = false;
      }
      if (known.contains(l.from[k])) continue;
      const bool own = l.from[k] == l.name, after = later.contains(l.from[k]);
      // If the inputs were refused, their names are not known.
      if (model.inputs.empty() && !own && !after) continue;
      if (std::any_of(endings.begin(), endings.end(), [&](const std::string& e) { return l.from[k].ends_with(e); })) continue;
      const std::vector<std::string> near(earlier.end() - static_cast<std::ptrdiff_t>(std::min(earlier.size(), kMostCompared)),
                                          earlier.end());
      const std::string meant = probably_meant(l.from[k], near);
      complain_below(r, j, at + "/from/" + std::to_string(k),
                     own     ? "a layer cannot read itself"
                     : after ? "\"" + l.from[k] + "\" is listed below; a layer reads what is listed above it"
                             : "there is no layer or input \"" + l.from[k] + "\" above" + did_you_mean(l.from[k], near));
      // The name that was probably meant is used instead, so that the layers after it are built and checked too.
      if (!meant.empty() && !own && !after)
        l.from[k] = meant;
      else
        l.good = false;
    }
    earlier.push_back(l.name);
    known.insert(l.name);
  }
}

// A network of the zoo, from which a model's keys follow.
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
       "number of classes, the size of its output dim \"classes\"; gpt and bert: size of the vocabulary (default: as published)",
       "integer",
       false,
       [](Reader& r, const Json& j, ZooSpec& z) { r.integer(j, z.choice.classes, 1, kMostSize); },
       {},
       Json(ZooChoice{}.classes)},
      {"layers", "gpt, bert and vit: number of blocks; default: 12, as published", "integer", false,
       [](Reader& r, const Json& j, ZooSpec& z) { r.integer(j, z.choice.layers, 1, 10000); }},
      {"heads", "gpt, bert and vit: number of attention heads; default: 12, as published", "integer", false,
       [](Reader& r, const Json& j, ZooSpec& z) { r.integer(j, z.choice.heads, 1, kMostSize); }},
      {"context",
       "gpt and bert: rows of the table of positions, of which the input's are used; default: 1024 and 512, as published, or more "
       "if the input has more",
       "integer", false, [](Reader& r, const Json& j, ZooSpec& z) { r.integer(j, z.choice.context, 1, kMostSize); }},
      {"stem", "of resnet18, resnet34 and resnet50: \"cifar\" is a 3x3 convolution without a pool, for small images", "text", false,
       [](Reader& r, const Json& j, ZooSpec& z) { r.text(j, z.stem, kStems); }, schema_of_words(kStems), kStems.front()},
      {"width",
       "factor by which every layer's channels are multiplied",
       "number",
       false,
       [](Reader& r, const Json& j, ZooSpec& z) { r.number(j, z.choice.width, 1e-3, 1e3); },
       {},
       Json(ZooChoice{}.width)}};
}

// Names in a zoo model's file that its network has itself.
void complain_of_names(Reader& r, const Json& j, const ZooSpec& zoo, const ModelSpec& model) {
  const InputSpec& input = zoo.model.inputs.front();
  const std::string at = "/inputs/" + pointer_token(input.name);
  if (input.name == model.loss.labels)
    return complain_below(r, j, at, "\"" + input.name + "\" is the name of the network's labels; rename this input");
  std::vector<std::string> dims;
  for (const LayerSpec& l : model.layers) {
    if (l.name == input.name) return complain_below(r, j, at, "the network has a layer \"" + l.name + "\"; rename this input");
    for (const Dim& d : l.out) dims.push_back(d.size > 0 ? d.name : "");
    for (const auto& [key, made] : l.arguments.dims)
      for (const Dim& d : made) dims.push_back(d.size > 0 ? d.name : "");
  }
  for (const Dim& d : input.dims)
    if (Reader::is_one_of(d.name, dims))
      complain_below(r, j, at + "/" + pointer_token(d.name), "the network has a dim \"" + d.name + "\" itself; rename this one");
}

ModelSpec read_zoo(Reader& r, const Json& j, VersionKey version) {
  ZooSpec zoo;
  const std::size_t before = r.complaints.list.size();
  r.object(j, zoo_table(version), zoo);
  if (zoo.stem == "cifar" && !zoo.choice.network.empty() && !has_small_stem(zoo.choice.network))
    r.in("stem", [&] {
      r.complain(*j.find("stem"), "only resnet18, resnet34 and resnet50 have a choice of stems; leave \"stem\" out: " +
                                      zoo.choice.network + " has one stem");
    });
  zoo.choice.small_stem = zoo.stem == "cifar";
  const bool known = !zoo.choice.network.empty(), tokens = known && reads_tokens(zoo.choice.network);
  if (known && !zoo.model.inputs.empty()) {
    const InputSpec& input = zoo.model.inputs.front();
    const auto wrong = [&](const std::string& text) { r.in("inputs", [&] { r.complain(*j.find("inputs"), text); }); };
    if (zoo.model.inputs.size() > 1)
      wrong("expected one input, found " + std::to_string(zoo.model.inputs.size()));
    else if (tokens && (input.dims.size() != 2 || input.dtype != DType::i32))
      wrong("expected integers with two dims, as { \"tokens\": { \"dtype\": \"i32\", \"batch\": 8, \"positions\": 128 } }");
    else if (!tokens && (input.dims.size() != 4 || input.dtype != DType::f32))
      wrong("expected images: four dims, as { \"image\": { \"batch\": 32, \"channels\": 3, \"rows\": 224, \"cols\": 224 } }");
    for (const char* key : {"layers", "heads"})
      if (const Json* given = j.find(key); given != nullptr && !is_transformer(zoo.choice.network))
        r.in(key, [&] {
          r.complain(*given, "only gpt, bert and vit have this key; leave it out: " + zoo.choice.network + " does not have it");
        });
    if (const Json* given = j.find("context"); given != nullptr && zoo.choice.context > 0) {
      const auto refuse = [&](const std::string& text) { r.in("context", [&] { r.complain(*given, text); }); };
      if (!tokens)
        refuse("only gpt and bert have this key; leave it out: " + zoo.choice.network + " does not have it");
      else if (input.dims.size() == 2 && zoo.choice.context < input.dims[1].size)
        refuse("the input has " + std::to_string(input.dims[1].size) +
               " positions, more than the table; expected at least as many rows");
    }
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
  const bool whole = inner.object(text, model_table(VersionKey::required), model);
  if (!none.empty()) {  // as of a dim that is listed twice, which has been complained about
    if (r.complaints.empty()) r.complain(j, none.list.front().text);
    return std::move(zoo.model);
  }
  check(whole, "the zoo's networks can be read");
  complain_of_names(r, j, zoo, model);
  if (r.complaints.list.size() != before) return std::move(zoo.model);
  check_names(inner, text, model);
  check(none.empty(), "names of the zoo's networks are unlike each other");
  if (!zoo.model.name.empty()) model.name = zoo.model.name;
  return model;
}

}  // namespace

Json model_schema(VersionKey version) {
  return std::move(
      Json{Json::Object{}}.set("oneOf", Json::Array{object_schema(model_table(version)), object_schema(zoo_table(version))}));
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
    const Model built =
        build_model(*model, 0, [&](const std::string& pointer, const std::string& text) { complain_below(r, j, pointer, text); });
    if (built.whole) try {  // what only a step's passes show, such as shared weights that do not fit
        static_cast<void>(training(built.loss, Sgd{}));
      } catch (const UserError& e) {
        complain_below(r, j, place_of(e, *model), e.what());
      }
    return model;
  });
}

}  // namespace motley
