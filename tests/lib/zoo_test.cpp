// SPDX-License-Identifier: Apache-2.0
// The zoo's networks have the published number of parameters, and can be trained and cut.
#include <motley/mesh.h>
#include <motley/rules.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>

#include "base/json.h"
#include "config/model.h"
#include "config/zoo.h"
#include "config/zoo_transformers.h"
#include "graph/compiled.h"
#include "graph/optimizers.h"
#include "graph/passes.h"
#include "kernels/value.h"
#include "program/compile.h"
#include "tests/support/config_files.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"

using namespace motley;

namespace {

ModelSpec spec_of(const std::string& keys, Index channels, Index size, Index batch = 2) {
  const Folder folder("motley-zoo");
  const std::string n = std::to_string(size);
  return ModelSpec::load(folder.write(
      "m.json", "{ \"version\": 1, " + keys + ", \"inputs\": { \"image\": { \"batch\": " + std::to_string(batch) +
                    ", \"channels\": " + std::to_string(channels) + ", \"rows\": " + n + ", \"cols\": " + n + " } } }"));
}

Step step_of(const Model& model) {
  return training(model.loss, Sgd{.learning_rate = 0.01, .momentum = 0.9});
}

ModelSpec token_spec(const std::string& keys, Index positions, Index batch = 2) {
  const Folder folder("motley-zoo");
  return ModelSpec::load(
      folder.write("m.json", "{ \"version\": 1, " + keys + ", \"inputs\": { \"tokens\": { \"dtype\": \"i32\", \"batch\": " +
                                 std::to_string(batch) + ", \"positions\": " + std::to_string(positions) + " } } }"));
}

Index count_parameters(const ModelSpec& spec) {
  const Model model = build_model(spec, 0);
  const Step step = step_of(model);
  Index count = 0;
  for (const int p : step.passes().parameters)
    if (step.passes().statistic(p) == nullptr) count += step.passes().tensors[static_cast<std::size_t>(p)].shape.elements();
  return count;
}
Index parameters_of(const std::string& keys, Index channels, Index size) {
  return count_parameters(spec_of(keys, channels, size));
}

}  // namespace

// torchvision's documentation of each, of unet the published code's count of its own (bilinear=False, 3 channels, 1 and 2 classes);
// of the CIFAR networks what the layers of their papers add up to (0.27, 0.85, 1.7, 10.2 million there).
TEST_CASE("the zoo's parameters are as many as published", "[zoo]") {
  CHECK(parameters_of(R"("zoo": "resnet18")", 3, 224) == 11689512);
  CHECK(parameters_of(R"("zoo": "resnet34")", 3, 224) == 21797672);
  CHECK(parameters_of(R"("zoo": "resnet50")", 3, 224) == 25557032);
  CHECK(parameters_of(R"("zoo": "vgg11")", 3, 224) == 132863336);
  CHECK(parameters_of(R"("zoo": "vgg16")", 3, 224) == 138357544);
  CHECK(parameters_of(R"("zoo": "vgg11_bn")", 3, 224) == 132868840);
  CHECK(parameters_of(R"("zoo": "vgg16_bn")", 3, 224) == 138365992);
  CHECK(parameters_of(R"("zoo": "mobilenet_v2")", 3, 224) == 3504872);
  CHECK(parameters_of(R"("zoo": "unet", "classes": 1)", 3, 64) == 31037633);
  CHECK(parameters_of(R"("zoo": "unet", "classes": 2)", 3, 64) == 31037698);
  CHECK(parameters_of(R"("zoo": "lenet5", "classes": 10)", 1, 28) == 61706);
  CHECK(parameters_of(R"("zoo": "lenet5", "classes": 10)", 1, 32) == 61706);
  CHECK(parameters_of(R"("zoo": "resnet20", "classes": 10)", 3, 32) == 269722);
  CHECK(parameters_of(R"("zoo": "resnet56", "classes": 10)", 3, 32) == 853018);
  CHECK(parameters_of(R"("zoo": "resnet110", "classes": 10)", 3, 32) == 1727962);
  CHECK(parameters_of(R"("zoo": "resnet1001", "classes": 10)", 3, 32) == 10327706);
  CHECK(parameters_of(R"("zoo": "resnet18", "stem": "cifar", "classes": 10)", 3, 32) == 11173962);
}

// Hugging Face's GPT2LMHeadModel ("gpt2") and BertForMaskedLM ("bert-base-uncased"), torchvision's vit_b_16.
TEST_CASE("the zoo's transformers have as many parameters as published", "[zoo]") {
  CHECK(parameters_of(R"("zoo": "vit")", 3, 224) == 86567656);
  CHECK(count_parameters(token_spec(R"("zoo": "gpt")", 64)) == 124439808);
  CHECK(count_parameters(token_spec(R"("zoo": "bert")", 64)) == 109514298);
}

TEST_CASE("transformers under cuts of batch, positions, heads, vocabulary and the inner layer equal the unsharded ones", "[zoo]") {
  using namespace motley::law;
  for (const std::string name : {"gpt", "bert", "vit"}) {
    const std::string keys = "\"zoo\": \"" + name + "\", \"width\": 0.03125, \"classes\": 11, \"layers\": 2, \"heads\": 3";
    const Model model = build_model(name == "vit" ? spec_of(keys, 2, 32, 3) : token_spec(keys, 7, 3), 0);
    const Step step = step_of(model);
    const Outcome truth = run_plan(balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64}));
    const Index positions = name == "vit" ? 5 : 7;
    for (const Rule& rule :
         {Rule{"batch", "a", Sizes{{2, 0, 1}}}, Rule{"positions", "a", Sizes{{positions - 2, 2, 0}}},
          Rule{"heads", "a", Sizes{{1, 2, 0}}}, Rule{"inner", "a", Sizes{{50, 0, 46}}}, Rule{"hidden", "a", Sizes{{1, 20, 3}}},
          Rule{name == "vit" ? "classes" : "vocabulary", "a", Sizes{{0, 4, 7}}}}) {
      INFO(name << ", " << rule.dim);
      LayoutRules rules;
      rules.split.push_back(rule);
      CHECK(difference(run_plan(balance(step, mesh_of({{"a", 3}}), rules, {}, {.dtype = DType::f64})), truth) < 1e-9);
    }
  }
}

TEST_CASE("every network of the zoo at an eighth of its width, cut by batch and by some of its channels, equals the unsharded one",
          "[zoo]") {
  using namespace motley::law;
  for (const std::string& name : zoo_networks()) {
    if (name == "resnet1001" || name == "resnet110") continue;       // as resnet56, for minutes
    if (name == "gpt" || name == "bert" || name == "vit") continue;  // above
    const std::set<std::string> few{"lenet5", "vgg11", "resnet18", "mobilenet_v2"};
    if (law_percent() < 100 && !few.contains(name)) continue;  // the others are these with more layers, or below
    INFO(name);
    const bool small = name.starts_with("paper") || name == "lenet5";
    const std::string stem = has_small_stem(name) ? R"(, "stem": "cifar")" : "";
    const Model model = build_model(spec_of("\"zoo\": \"" + name + "\", \"width\": 0.125, \"classes\": 5" + stem, 3,
                                            small                    ? 12
                                            : name == "mobilenet_v2" ? 64
                                                                     : 32,
                                            3),
                                    0);
    const Step step = step_of(model);
    LayoutRules rules{{Dim{"batch", 3}, "a", Sizes{{2, 0, 1}}}};
    const Plan one = balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64});
    const Outcome truth = run_plan(one);
    CHECK(difference(run_plan(balance(step, mesh_of({{"a", 3}}), rules, {}, {.dtype = DType::f64})), truth) < 1e-9);
    rules = LayoutRules{};
    int k = 0;
    for (const StepTensor& t : step.passes().tensors)
      if (t.role == TensorRole::parameter && t.name.ends_with(".weight") && t.shape.rank() == 4 && k++ % 2 == 0)
        if (const Dim& f = t.shape[0];
            std::none_of(rules.split.begin(), rules.split.end(), [&](const Rule& r) { return r.dim == f.name; }))
          rules.split.push_back({f, "a", Sizes{{f.size / 2, f.size - f.size / 2}}});
    CHECK(difference(run_plan(balance(step, mesh_of({{"a", 2}}), rules, {}, {.dtype = DType::f64})), truth) < 1e-9);
  }
}

TEST_CASE("a U-Net cut along rows, columns and channels, in two ways too, equals the unsharded one", "[zoo]") {
  using namespace motley::law;
  const Model model = build_model(spec_of(R"("zoo": "unet", "width": 0.125, "classes": 3)", 2, 32, 2), 0);
  CHECK(model.logits.shape() == Shape{{"batch", 2}, {"classes", 3}, {"rows", 32}, {"cols", 32}});
  CHECK(model.label.shape() == Shape{{"batch", 2}, {"rows", 32}, {"cols", 32}});
  const Step step = step_of(model);
  const Outcome truth = run_plan(balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64}));
  const auto on = [&](const std::vector<Axis>& axes, const LayoutRules& rules) {
    return difference(run_plan(balance(step, mesh_of(axes), rules, {}, {.dtype = DType::f64})), truth);
  };
  const Dim rows{"rows", 32}, cols{"cols", 32};
  CHECK(on({{"a", 3}}, LayoutRules{{rows, "a", Sizes{{21, 0, 11}}}}) < 1e-9);
  CHECK(on({{"a", 2}, {"b", 2}}, LayoutRules{{rows, "a", Sizes{{13, 19}}}, {cols, "b", Sizes{{9, 23}}}}) < 1e-9);
  CHECK(on({{"a", 3}}, LayoutRules{{Dim{"down4", 128}, "a", Sizes{{100, 0, 28}}},
                                   {Dim{"up1_cat", 128}, "a", Sizes{{1, 70, 57}}},
                                   {Dim{"up4_up", 8}, "a", Sizes{{1, 0, 7}}},
                                   {Dim{"classes", 3}, "a", Sizes{{2, 1, 0}}}}) < 1e-9);
  CHECK(on({{"a", 2}, {"b", 2}}, LayoutRules{{rows, "a", Sizes{{20, 12}}}, {Dim{"down3", 64}, "b", Sizes{{40, 24}}}}) < 1e-9);
}

TEST_CASE("a network of the zoo that cannot be is refused at its key", "[zoo]") {
  const auto said_of = [](const std::string& keys) {
    const Folder folder("motley-zoo");
    const std::string file = folder.write("m.json", "{ \"version\": 1,\n" + keys + " }");
    return said(folder, [&] { ModelSpec::load(file); });
  };
  const std::string image = R"("inputs": { "image": { "batch": 2, "channels": 3, "rows": 32, "cols": 32 } })";
  CHECK(said_of(R"("zoo": "resnet19", )" + image) ==
        Lines{R"(m.json:2:8: error: /zoo: "resnet19" is not known here; did you mean "resnet18"?)"});
  CHECK(said_of(R"("zoo": "unet", "inputs": { "image": { "batch": 2, "channels": 3, "rows": 32, "cols": 24 } })") ==
        Lines{"m.json:1:1: error: unet halves rows and columns four times: expected multiples of 16, \"cols\" has 24"});
  for (const auto& [network, rows, found] :
       {std::tuple{"vgg11", "31", "vgg11 halves rows and columns five times: expected at least 32, \"rows\" has 31"},
        {"vgg16_bn", "28", "vgg16_bn halves rows and columns five times: expected at least 32, \"rows\" has 28"},
        {"paper_cifar", "7", "paper_cifar halves rows and columns three times: expected at least 8, \"rows\" has 7"},
        {"paper_mnist", "1", "paper_mnist halves rows and columns: expected at least 2, \"rows\" has 1"},
        {"lenet5", "11", "lenet5 reads windows of 5, 2, 5 and 2 rows and columns: expected at least 12, \"rows\" has 11"}}) {
    const auto keys = [&](const std::string& size) {
      return R"("zoo": ")" + std::string(network) + R"(", "inputs": { "image": { "batch": 2, "channels": 3, "rows": )" + size +
             R"(, "cols": 64 } })";
    };
    CHECK(said_of(keys(rows)) == Lines{std::string("m.json:1:1: error: ") + found});
    CHECK((said_of(keys(std::to_string(std::stoi(rows) + 1))) == Lines{"fine"}) == (std::string_view(network) != "vgg16_bn"));
  }
  for (const std::string& network : zoo_networks()) {  // no other one is refused for a layer in it
    if (reads_tokens(network)) continue;
    for (const std::string& line :
         said_of(R"("zoo": ")" + network + R"(", "inputs": { "image": { "batch": 2, "channels": 3, "rows": 1, "cols": 1 } })"))
      CHECK_THAT(line, Catch::Equals("fine") || Catch::Contains(": error: " + network + " "));
  }
  CHECK(said_of(R"("zoo": "gpt", )" + image).front().find("expected integers with two dims") != std::string::npos);
  CHECK(said_of(R"("zoo": "vit", "heads": 7, )" + image).front().find("7 heads do not divide the 768 features") !=
        std::string::npos);
  CHECK(said_of(R"("zoo": "resnet18", "context": 7, )" + image).front().find("only gpt and bert have this key") !=
        std::string::npos);
  CHECK(said_of(R"("zoo": "gpt", "context": 63, "inputs": { "tokens": { "dtype": "i32", "batch": 2, "positions": 64 } })")
            .front()
            .find("/context: the input has 64 positions, more than the table") != std::string::npos);
  CHECK(said_of(R"("zoo": "resnet18", "layers": 7, )" + image).front().find("only gpt, bert and vit have this key") !=
        std::string::npos);
}

// What fuse makes of an op's formulas and of an optimizer's is declared with them, or can be assembled, so that no large tensor is
// interpreted; nor where a plan has the formulas apart.
TEST_CASE("every map over many elements of the zoo's training steps is a loop", "[zoo]") {
  std::set<std::uint64_t> compiled;
  std::set<std::pair<std::uint64_t, std::uint32_t>> summed;  // and which operands are f64
  for (const CompiledFormula& one : compiled_formulas()) {
    compiled.insert(shape_of(one.formula).hash);
    if (one.summed) summed.emplace(shape_of(one.formula).hash, one.wide);
  }
  const std::vector<ModelSpec> networks{spec_of(R"("zoo": "resnet50", "width": 0.25, "classes": 10)", 3, 64),
                                        spec_of(R"("zoo": "resnet18", "stem": "cifar", "width": 0.5, "classes": 10)", 3, 32),
                                        spec_of(R"("zoo": "mobilenet_v2", "width": 0.5, "classes": 10)", 3, 64),
                                        spec_of(R"("zoo": "unet", "width": 0.25, "classes": 2)", 3, 64),
                                        spec_of(R"("zoo": "vit", "layers": 2, "classes": 10)", 3, 32),
                                        token_spec(R"("zoo": "gpt", "layers": 2)", 64)};
  const std::vector<Optimizer> optimizers{Sgd{.learning_rate = 0.01, .momentum = 0.9}, AdamW{}, Lamb{}};
  constexpr Index kMany = 4096;
  int seen = 0;
  for (const ModelSpec& network : networks)
    for (const Optimizer& optimizer : optimizers)
      for (const auto& [ranks, fuse_maps] : {std::pair{1, true}, std::pair{2, true}, std::pair{2, false}}) {
        const Model model = build_model(network, 0);
        const Plan plan = balance(training(model.loss, optimizer, {.clip_norm = 1}),
                                  Mesh({{"all", ranks}}, std::vector<Device>(static_cast<std::size_t>(ranks))),
                                  {{"batch", "all", CutBy::even}}, {});
        const Program program = compile(plan, 0, {.fuse_maps = fuse_maps});
        for (const ProgramStep& step : program.steps) {
          const auto* run = std::get_if<RunKernel>(&step.what);
          for (std::size_t k = 0; run != nullptr && run->spec.op == KernelOp::map && k < run->operands.size(); k++) {
            INFO(network.name << ", " << run->pass << ", operand " << k);
            CHECK(run->spec.operands[k].dtype == program.buffers[static_cast<std::size_t>(run->operands[k].buffer)].dtype);
          }
          if (run == nullptr || run->spec.op != KernelOp::map || run->spec.formula.code.size() <= 1) continue;
          if (run->pass.starts_with("wte ")) continue;  // an embedding: a kernel of its own
          const auto& extents = run->spec.extents;
          if (std::accumulate(extents.begin(), extents.end(), Index{1}, std::multiplies<>()) < kMany) continue;
          INFO(network.name << ", " << optimizer.kind << ", " << ranks << " ranks, " << run->pass << ": "
                            << to_text(run->spec.formula));
          const bool alone = run->spec.combine == Combine::set;
          std::uint32_t wide = 0;
          for (const Instruction& one : run->spec.formula.code)
            if (one.op == Opcode::operand && run->spec.operands[static_cast<std::size_t>(one.a)].dtype == DType::f64)
              wide |= 1U << one.a;
          const auto is_loop = [&](const Formula& f) {
            const std::uint64_t shape = shape_of(f).hash;
            return wide == 0 || alone ? compiled.contains(shape) || (alone && is_assembled(f)) : summed.contains({shape, wide});
          };
          const Formula& f = run->spec.formula;
          CHECK((((alone || run->spec.summands == 1) && is_loop(f)) || (run->spec.summands == 2 && is_loop(with_sum(f)))));
          seen++;
        }
      }
  CHECK(seen > 1000);
}
