// SPDX-License-Identifier: Apache-2.0
// The zoo's networks at an eighth of their width against what PyTorch computed (make.py): losses, all gradients, weights and
// running statistics after two steps, and the logits of an inference, each under a cut of the batch and under one of some filters
// (gpt, bert: heads).
#include <motley/motley.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/json.h"
#include "config/model.h"
#include "config/zoo.h"
#include "config/zoo_transformers.h"
#include "graph/passes.h"
#include "tests/support/each_index.h"
#include "tests/support/random_network.h"

using namespace motley;

namespace {

constexpr Index kSamples = 4, kClasses = 5;

// As make.py's.
double number(std::uint64_t start, Index i) {
  std::uint64_t z = start + (static_cast<std::uint64_t>(i) + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z = z ^ (z >> 31);
  return static_cast<double>(z >> 11) * 0x1p-52 - 1;
}
std::uint64_t start_of(const std::string& name) {
  return crc32(0, reinterpret_cast<const Bytef*>(name.data()), static_cast<uInt>(name.size())) << 32;
}
std::vector<double> initial(const std::string& name, const Shape& shape) {
  const std::uint64_t start = start_of(name);
  std::vector<double> out;
  for (Index i = 0; i < shape.elements(); i++) {
    const double u = number(start, i);
    if (name.ends_with(".weight") && shape.rank() > 1)
      out.push_back(u * std::sqrt(6.0 * static_cast<double>(shape[0].size) / static_cast<double>(shape.elements())));
    else
      out.push_back(name.ends_with(".weight") || name.ends_with(".running_var") ? 1 + u / 4 : u / 10);
  }
  return out;
}

using Fingerprint = std::array<double, 3>;
Fingerprint fingerprint(const std::string& name, const std::vector<double>& values) {
  Fingerprint out{};
  const std::uint64_t a = start_of(name + ":a"), b = start_of(name + ":b");
  for (std::size_t i = 0; i < values.size(); i++) {
    out[0] = std::max(out[0], std::abs(values[i]));
    out[1] += values[i] * number(a, static_cast<Index>(i));
    out[2] += values[i] * number(b, static_cast<Index>(i));
  }
  return out;
}

struct Made {
  std::vector<double> losses{};
  std::map<std::string, Fingerprint> gradients{}, state{};
  Fingerprint logits{};
};

double as_number(const Json& j) {
  const auto* whole = std::get_if<std::int64_t>(&j.value);
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(j.value);
}
Fingerprint as_fingerprint(const Json& j) {
  const auto& list = std::get<Json::Array>(j.value);
  return {as_number(list.at(0)), as_number(list.at(1)), as_number(list.at(2))};
}
Json read(const std::string& file) {
  Complaints complaints;
  const auto json = read_json(file, read_file(file), complaints);
  complaints.raise();
  return *json;
}
Made golden(const Json& json) {
  Made out;
  for (const Json& loss : std::get<Json::Array>(json.find("losses")->value)) out.losses.push_back(as_number(loss));
  for (const auto& [name, print, where] : std::get<Json::Object>(json.find("gradients")->value))
    out.gradients[name] = as_fingerprint(print);
  for (const auto& [name, print, where] : std::get<Json::Object>(json.find("state")->value))
    out.state[name] = as_fingerprint(print);
  out.logits = as_fingerprint(*json.find("logits"));
  return out;
}

// Dropout draws other numbers than PyTorch's: without it.
void drop_nothing(Json& model) {
  for (auto& [key, value, where] : std::get<Json::Object>(model.value))
    if (key == "layers")
      for (Json& layer : std::get<Json::Array>(value.value))
        for (auto& [name, rate, at] : std::get<Json::Object>(layer.value))
          if (name == "rate") rate = Json(0.0);
}

Model model_of(const std::string& network, Index size) {
  const ZooChoice choice{.network = network,
                         .image = reads_tokens(network)
                                      ? std::vector<Dim>{{"batch", kSamples}, {"positions", size}}
                                      : std::vector<Dim>{{"batch", kSamples}, {"channels", 3}, {"rows", size}, {"cols", size}},
                         .classes = kClasses,
                         .width = 0.125};
  Json json = zoo_model(choice);
  drop_nothing(json);
  Complaints complaints;
  Reader reader{complaints};
  const ModelSpec spec = read_model(reader, json, VersionKey::optional);
  complaints.raise();
  return build_model(spec, 0);
}

ReadBox classes(const std::string& name, Index size) {
  return [name, size](const Box& box, std::span<std::byte> out) {
    auto* p = reinterpret_cast<std::int32_t*>(out.data());
    std::vector<Dim> dims{{"n", kSamples}};
    for (std::size_t d = 1; d < box.size(); d++) dims.emplace_back("d" + std::to_string(d), size);
    const Shape shape(dims);
    for_each_index(box, [&, start = start_of(name)](const std::vector<Index>& i) {
      *p++ = static_cast<std::int32_t>((number(start, position_of(shape, i)) + 1) / 2 * static_cast<double>(kClasses));
    });
  };
}

std::map<std::string, ReadBox> feeds(const Model& model, Index size) {
  const ReadBox label = classes("label", size);
  if (model.inputs.front().dtype() == DType::i32) return {{"image", classes("image", size)}, {"label", label}};
  const auto image = [size](const Box& box, std::span<std::byte> out) {
    auto* p = reinterpret_cast<double*>(out.data());
    const Shape shape({{"n", kSamples}, {"c", 3}, {"r", size}, {"k", size}});
    for_each_index(box,
                   [&, start = start_of("image")](const std::vector<Index>& i) { *p++ = number(start, position_of(shape, i)); });
  };
  return {{"image", image}, {"label", label}};
}

Made run(const Model& model, Index size, const LayoutRules& rules) {
  const Mesh mesh({{"all", 3}}, std::vector<Device>(3));
  const Plan plan =
      balance(training(model.loss, Sgd{.learning_rate = 0.05, .momentum = 0.9}), mesh, rules, {}, {.dtype = DType::f64});
  LayoutRules same = rules;
  same.homes = plan.homes();
  const Plan predicts = balance(inference({model.logits}), mesh, same, {}, {.dtype = DType::f64});
  Made out;
  run_ranks_in_memory(3, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    State& state = trainer.state();
    Made mine;
    for (const StateEntry& e : state.entries())
      if (e.slot.empty()) state.set(e.name, initial(e.name, e.shape));
    for (int step = 0; step < 2; step++) {
      mine.losses.push_back(trainer.step_named(feeds(model, size)).loss);
      if (step == 0)  // the velocity is the gradient yet
        for (const StateEntry& e : state.entries())
          if (e.slot == "velocity") mine.gradients[e.name] = fingerprint(e.name, state.get(rt.transport(), e.name, e.slot));
    }
    for (const std::string& name : state.names()) mine.state[name] = fingerprint(name, state.get(rt.transport(), name));
    Predictor predictor(rt, predicts, state);
    auto images = feeds(model, size);
    images.erase("label");
    predictor.run_named(images);
    mine.logits = fingerprint("logits", predictor.get(model.logits));
    if (rt.rank() == 0) out = mine;
  });
  return out;
}

double apart(const Fingerprint& a, const Fingerprint& b, double least = 1e-9) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); i++) most = std::isfinite(a[i]) ? std::max(most, std::abs(a[i] - b[i])) : INFINITY;
  return most / std::max(b[0], least);
}
// Next to a millionth of the others' a gradient is rounding alone (that of a bias before a norm).
void compare(const std::map<std::string, Fingerprint>& made, const std::map<std::string, Fingerprint>& truth) {
  CHECK(made.size() == truth.size());
  double most = 0;
  for (const auto& [name, print] : truth) most = std::max(most, print[0]);
  for (const auto& [name, print] : truth) {
    INFO(name);
    REQUIRE(made.contains(name));
    CHECK(apart(made.at(name), print, 1e-6 * most) < 1e-8);
  }
}

}  // namespace

TEST_CASE("networks of the zoo compute what PyTorch computes of them, under cuts of the batch and of filters", "[golden]") {
  const std::string network = GENERATE(as<std::string>{}, "lenet5", "vgg11", "vgg16_bn", "resnet20", "resnet56", "resnet18",
                                       "resnet34", "resnet50", "mobilenet_v2", "vit", "unet", "gpt", "bert");
  const std::set<std::string> deep{"vgg16_bn", "resnet56", "resnet34", "resnet50"};
  if (law::law_percent() < 100 && deep.contains(network)) return;  // the others with more layers
  const Json file = read("tests/golden/" + network + ".json");
  const Made truth = golden(file);
  const Index size = std::get<std::int64_t>(file.find("size")->value);
  const Model model = model_of(network, size);
  LayoutRules filters;
  const Step step = training(model.loss, Sgd{.learning_rate = 0.05});
  int k = 0;
  for (const StepTensor& t : step.passes().tensors)
    if (t.role == TensorRole::parameter && t.name.ends_with(".weight") && t.shape.rank() == 4 && k++ % 3 == 0)
      if (const Dim& f = t.shape[0];
          std::none_of(filters.split.begin(), filters.split.end(), [&](const Rule& r) { return r.dim == f.name; }))
        filters.split.push_back({f, "all", Sizes{{f.size / 2, 0, f.size - f.size / 2}}});
  if (reads_tokens(network)) filters.split.push_back({Dim{"heads", 12}, "all", Sizes{{5, 0, 7}}});
  for (const LayoutRules& rules : {LayoutRules{{Dim{"batch", kSamples}, "all", Sizes{{2, 0, 2}}}}, filters}) {
    INFO(network << " cut by " << rules.split.front().dim);
    const Made made = run(model, size, rules);
    REQUIRE(made.losses.size() == truth.losses.size());
    for (std::size_t i = 0; i < truth.losses.size(); i++) CHECK(std::abs(made.losses[i] - truth.losses[i]) < 1e-10);
    compare(made.gradients, truth.gradients);
    compare(made.state, truth.state);
    CHECK(apart(made.logits, truth.logits) < 1e-8);
  }
}
