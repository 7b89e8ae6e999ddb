// SPDX-License-Identifier: Apache-2.0
// Models, jobs, --set and `check`: what is right is read, what is wrong is said at its place, all at once.
#include <catch2/catch.hpp>

#include "base/npy.h"
#include "config/check.h"
#include "config/job.h"
#include "graph/passes.h"
#include "graph/pointwise.h"
#include "tests/support/config_files.h"

using namespace motley;

namespace {

const std::string kMesh = R"({ "version": 1, "axes": [ { "name": "all", "size": 2 } ],
  "devices": [ { "name": "fast cpu", "kind": "cpu" }, { "name": "slow cpu", "kind": "cpu", "isa": "avx2" } ] }
)";
const std::string kModel = R"({ "version": 1, "name": "small",
  "inputs": { "image": { "batch": 10, "channels": 1, "rows": 28, "cols": 28 } },
  "layers": [
    { "op": "conv2d", "out": { "filters1": 6 }, "window": 5, "padding": "same", "activation": "relu" },
    { "op": "max_pool2d", "window": 2 },
    { "op": "conv2d", "name": "middle", "out": { "filters2": 8 }, "window": [3, 2], "bias": false },
    { "op": "relu" },
    { "op": "dense", "out": { "classes": 10 } } ],
  "loss": { "op": "softmax_cross_entropy", "over": "classes" } }
)";
const std::string kLayout = R"({ "version": 1,
  "split": { "filters1": { "axis": "all", "parts": [4, 2] } } }
)";
const std::string kJob = R"({ "version": 1,
  "mesh": "parts/mesh.json", "model": "parts/model.json", "layout": "parts/layout.json",
  "profile": { "path": "here.json", "measure": "never" },
  "data": { "kind": "fashion_mnist" },
  "train": { "dtype": "f64", "batch": 32, "epochs": 2, "seed": 7,
             "optimizer": { "kind": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 1e-4 } } }
)";

struct Files {
  Folder folder{
      "motley-config gr\xc3\xb6\xc3\x9f"
      "e"};
  Files() {
    folder.write("parts/mesh.json", kMesh);
    folder.write("parts/model.json", kModel);
    folder.write("parts/layout.json", kLayout);
    folder.write("job.json", kJob);
  }
  Lines said_with(const std::vector<std::string>& sets, Data data = Data::unread) const {
    return said(folder, [&] { load_job(folder.at("job.json"), sets, data); });
  }
  Lines said_of_job(const std::string& what, const std::string& with) const {
    folder.write("job.json", replaced(kJob, what, with));
    return said(folder, [&] { load_job(folder.at("job.json")); });
  }
};

Lines said_of_model(const std::string& text) {
  const Folder folder("motley-model");
  const std::string file = folder.write("m.json", text);
  return said(folder, [&] { ModelSpec::load(file); });
}

}  // namespace

TEST_CASE("a job is joined, read and checked against itself") {
  const Files files;
  const Job job = load_job(files.folder.at("job.json"));
  CHECK(job.name == "job");
  CHECK(job.mesh.ranks() == 2);
  CHECK(job.model.layers.size() == 5);
  CHECK(job.rules.split.size() == 1);
  CHECK(job.profile.path == files.folder.at("here.json"));
  CHECK(job.profile.measure == MeasureWhen::never);
  CHECK(job.profile.given);
  CHECK(job.data.kind == DataKind::fashion_mnist);
  CHECK(job.data.path.empty());
  CHECK(job.train.dtype() == DType::f64);
  CHECK(job.train.batch == 32);
  CHECK(job.train.epochs == 2);
  CHECK_FALSE(job.train.max_steps);
  CHECK(job.train.seed == 7);
  CHECK((job.train.optimizer == Optimizer(Sgd{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-4})));
  // The joined tree stands alone and says the same.
  const Job again = parse_job("elsewhere/job.resolved.json", to_text(job.joined));
  CHECK(again.name == "job");
  CHECK(again.profile.path == job.profile.path);
  CHECK(to_text(again.joined) == to_text(job.joined));
}

TEST_CASE("every configuration in the repository is right") {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("configs"))
    if (entry.path().extension() == ".json") all.push_back(entry.path().string());
  CHECK(all.size() >= 15);
  for (const std::string& file : all) {
    const CheckResult one = check_files({file});
    INFO(one.complaints);
    const bool without_data = file.ends_with("jobs/paper_cifar.json") && one.code == Exit::missing;  // no package brings CIFAR-10
    CHECK((one.code == Exit::ok || without_data));
  }
}

TEST_CASE("a model becomes a graph") {
  const Files files;
  const ModelSpec spec = ModelSpec::load(files.folder.at("parts/model.json"));
  const Model model = build_model(spec, 32);
  CHECK(model.inputs.front().shape() == Shape{{"batch", 32}, {"channels", 1}, {"rows", 28}, {"cols", 28}});
  CHECK(model.label.shape() == Shape{{"batch", 32}});
  CHECK(model.label.dtype() == DType::i32);
  CHECK(model.logits.name() == "dense_5");
  CHECK(model.logits.shape() == Shape{{"batch", 32}, {"classes", 10}});
  CHECK(model.loss.shape() == Shape{});
  const Step step = training(model.loss, Sgd{});
  CHECK(training(model.loss, Sgd{.momentum = 0.1}).hash() != training(model.loss, Sgd{.momentum = 0.2}).hash());
  const TrainingOptions cosine{.schedule = {.kind = RateSchedule::Kind::cosine, .steps = 10}, .clip_norm = 1};
  const Step plain = training(model.loss, Sgd{.learning_rate = 1e-7});  // what is read when a step runs is not planned
  CHECK(plain.hash() == training(model.loss, Sgd{.learning_rate = 2e-7}, {.schedule = cosine.schedule}).hash());
  CHECK(plain.hash() != training(model.loss, Sgd{}, cosine).hash());  // but the norms that are clipped by are
  CHECK(step.parameters() ==
        std::vector<std::string>{"conv2d_1.weight", "conv2d_1.bias", "middle.weight", "dense_5.weight", "dense_5.bias"});
  const Passes& passes = step.passes();
  auto shape = [&](const std::string& name) { return passes.tensors.at(static_cast<std::size_t>(passes.find(name))).shape; };
  CHECK(shape("conv2d_1") == Shape{{"batch", 32}, {"filters1", 6}, {"rows", 28}, {"cols", 28}});
  CHECK(shape("conv2d_1.linear") == shape("conv2d_1"));
  CHECK(shape("max_pool2d_2") == Shape{{"batch", 32}, {"filters1", 6}, {"rows", 14}, {"cols", 14}});
  CHECK(shape("middle") == Shape{{"batch", 32}, {"filters2", 8}, {"rows", 12}, {"cols", 13}});
  CHECK(shape("relu_4") == shape("middle"));
}

TEST_CASE("every op and key of a model") {
  const Folder folder("motley-model");
  const ModelSpec spec = ModelSpec::load(folder.write("m.json", R"({ "version": 1,
  "inputs": { "picture": { "n": 4, "red": 3, "y": 16, "x": 12 } },
  "layers": [
    { "op": "conv2d", "name": "stem", "in": "red", "out": { "f": 8 }, "over": ["y", "x"], "window": 3, "stride": [2, 1], "dilation": 1,
      "padding": [[1, 1], [0, 2]], "activation": "elu" },
    { "op": "conv2d", "out": { "g": 5 }, "window": 3, "padding": 1, "activation": "sigmoid" },
    { "op": "conv2d", "out": "f", "window": 1, "activation": "none" },
    { "op": "add", "from": ["stem", "conv2d_3"], "activation": "relu" },
    { "op": "avg_pool2d", "window": 3, "stride": 1, "padding": "same", "activation": "tanh" },
    { "op": "tanh", "from": "add_4" },
    { "op": "add", "from": ["avg_pool2d_5", "tanh_6"] },
    { "op": "sigmoid" },
    { "op": "flatten", "out": { "flat": 768 } },
    { "op": "dense", "keep": ["n"], "out": { "a": 2, "b": 3 } },
    { "op": "transpose", "order": ["n", "b", "a"] },
    { "op": "reshape", "in": ["b", "a"], "out": { "u": 2, "v": 3 } },
    { "op": "rename", "in": "v", "out": "w" },
    { "op": "slice", "in": "w", "range": [1, 3], "out": { "cut": 2 } },
    { "op": "pad", "in": "cut", "before": 0, "after": 1, "out": "w" },
    { "op": "concat", "from": ["rename_13", "pad_15"], "in": "w", "out": "long" },
    { "op": "stack", "from": ["rename_13", "pad_15"], "out": { "pair": 2 } },
    { "op": "elu" },
    { "op": "conv2d", "from": "add_7", "out": { "depth": 16 }, "window": 3, "padding": "same", "groups": 8 },
    { "op": "dense", "in": "x", "out": { "keys": 3 } },
    { "op": "matmul", "from": ["conv2d_19", "dense_20"], "over": "depth", "activation": "tanh" },
    { "op": "matmul", "from": ["matmul_21", "dense_20"], "over": ["keys", "y"] },
    { "op": "global_avg_pool2d", "from": "add_7" },
    { "op": "dense", "in": "f", "out": { "k": 6 }, "bias": false } ],
  "loss": { "op": "softmax_cross_entropy", "over": "k" } })"));
  CHECK(spec.batch_dim() == "n");
  const Model model = build_model(spec, 0);
  CHECK(model.logits.shape() == Shape{{"n", 4}, {"k", 6}});
  const auto layer = [&](const std::string& name) {
    return std::find_if(model.layers.begin(), model.layers.end(), [&](const Tensor& t) { return t.name() == name; })->shape();
  };
  CHECK(layer("conv2d_19") == Shape{{"n", 4}, {"depth", 16}, {"y", 8}, {"x", 12}});
  CHECK(layer("matmul_22") == Shape{{"n", 4}, {"depth", 16}, {"x", 12}});
  CHECK(model.label.shape() == Shape{{"n", 4}});
  CHECK_NOTHROW(training(model.loss, Sgd{}));
}

TEST_CASE("layers that make rows and columns more, norms by groups, and a GELU by tanh") {
  const Folder folder("motley-model");
  const ModelSpec spec = ModelSpec::load(folder.write("m.json", R"({ "version": 1,
  "inputs": { "image": { "n": 4, "c": 4, "y": 5, "x": 3 } },
  "layers": [
    { "op": "conv_transpose2d", "in": "c", "out": { "f": 6 }, "over": ["y", "x"], "window": [3, 2], "stride": [2, 1], "dilation": 1,
      "padding": [[1, 0], [0, 0]], "output_padding": [1, 0], "groups": 2, "bias": false, "initial": "normal", "deviation": 0.5,
      "activation": "relu" },
    { "op": "group_norm", "groups": 3, "epsilon": 1e-3 },
    { "op": "group_norm", "groups": 11, "of": "y" },
    { "op": "upsample2d", "scale": 2 },
    { "op": "upsample2d", "scale": 3, "mode": "bilinear", "over": ["x", "y"] },
    { "op": "gelu", "approximate": "tanh" },
    { "op": "gelu" },
    { "op": "conv_transpose2d", "out": { "g": 2 }, "window": 4, "stride": 3, "padding": "same" },
    { "op": "dense", "out": { "classes": 2 } } ],
  "loss": { "op": "softmax_cross_entropy", "over": "classes" } })"));
  const Model model = build_model(spec, 0);
  const Step step = training(model.loss, Sgd{});
  const Passes& passes = step.passes();
  auto shape = [&](const std::string& name) { return passes.tensors.at(static_cast<std::size_t>(passes.find(name))).shape; };
  CHECK(shape("conv_transpose2d_1") == Shape{{"n", 4}, {"f", 6}, {"y", 11}, {"x", 4}});
  CHECK(shape("conv_transpose2d_1.weight") == Shape{{"c", 4}, {"window-f", 3}, {"window-y", 3}, {"window-x", 2}});
  CHECK(passes.find("conv_transpose2d_1.bias") == -1);
  CHECK(shape("group_norm_2.weight") == Shape{{"f", 6}});
  CHECK(shape("group_norm_3.bias") == Shape{{"y", 11}});
  CHECK(shape("upsample2d_5") == Shape{{"n", 4}, {"f", 6}, {"y", 66}, {"x", 24}});
  CHECK(shape("conv_transpose2d_8") == Shape{{"n", 4}, {"g", 2}, {"y", 198}, {"x", 72}});
  const auto formula = [&](const std::string& pass) {
    return std::find_if(passes.passes.begin(), passes.passes.end(), [&](const Pass& p) { return p.name == pass; })->formula;
  };
  CHECK(formula("gelu_6 forward") == Pointwise::find("gelu_tanh")->forward());
  CHECK(formula("gelu_7 forward") == Pointwise::find("gelu")->forward());
}

TEST_CASE("what is wrong in a model file") {
  const std::vector<std::tuple<std::string, std::string, Lines>> cases{
      {"\"window\": 5", "\"windw\": 5", {"m.json:4:49: error: /layers/0/windw: unknown key; did you mean \"window\"?"}},
      {"\"window\": 5",
       "\"window\": 5.5",
       {"m.json:4:59: error: /layers/0/window: expected an integer from 1 to 1048576, found 5.5"}},
      {"\"window\": 5",
       "\"window\": true",
       {"m.json:4:59: error: /layers/0/window: expected a number or [rows, cols], found true"}},
      {"\"window\": 5", "\"window\": [5]", {"m.json:4:59: error: /layers/0/window: expected [rows, cols], found a list of 1"}},
      {"\"window\": 5",
       "\"window\": [5, 0]",
       {"m.json:4:63: error: /layers/0/window/1: expected an integer from 1 to 1048576, found 0"}},
      {"\"padding\": \"same\"",
       "\"padding\": \"sames\"",
       {"m.json:4:73: error: /layers/0/padding: \"sames\" is not known here; did you mean \"same\"?"}},
      {"\"padding\": \"same\"",
       "\"padding\": [1, 1]",
       {"m.json:4:73: error: /layers/0/padding: a list of paddings is [[top, bottom], [left, right]]"}},
      {"\"padding\": \"same\"",
       "\"padding\": null",
       {"m.json:4:73: error: /layers/0/padding: expected \"valid\", \"same\", a number or [[top, bottom], [left, right]], found "
        "null"}},
      {"\"relu\" },\n    { \"op\": \"max",
       "\"rely\" },\n    { \"op\": \"max",
       {"m.json:4:95: error: /layers/0/activation: \"rely\" is not known here; did you mean \"relu\"?"}},
      {"\"relu\" },\n    { \"op\": \"max",
       "\"mish\" },\n    { \"op\": \"max",
       {"m.json:4:95: error: /layers/0/activation: \"mish\" is not an activation; write it as a layer after this one, { \"op\": "
        "\"map\", \"formula\": \"...\" } (docs/own_ops.md)"}},
      {"max_pool2d",
       "max_pool",
       {"m.json:5:13: error: /layers/1/op: \"max_pool\" is not known here; did you mean \"max_pool2d\"?"}},
      {"\"window\": 2 }",
       "\"window\": 2, \"dilation\": 2 }",
       {"m.json:5:40: error: /layers/1/dilation: unknown key (known: op, name, window, over, stride, padding, activation, from)"}},
      {"\"window\": 2 }",
       "\"window\": 99 }",
       {"m.json:5:5: error: /layers/1: a window that covers 99 does not fit \"rows\" of size 28; make it smaller or pad "
        "more"}},
      {"{ \"op\": \"max_pool2d\", \"window\": 2 }",
       "{ \"window\": 2 }",
       {"m.json:5:5: error: /layers/1: \"op\" is missing (what the layer computes, as \"conv2d\")"}},
      {"{ \"op\": \"max_pool2d\", \"window\": 2 }",
       "\"max_pool2d\"",
       {"m.json:5:5: error: /layers/1: a layer is an object, found \"max_pool2d\""}},
      {"\"name\": \"middle\"",
       "\"name\": \"conv2d_1\"",
       {"m.json:6:31: error: /layers/2/name: two layers or inputs are called \"conv2d_1\"; give this one another name"}},
      {"\"name\": \"middle\"",
       "\"name\": \"image\"",
       {"m.json:6:31: error: /layers/2/name: two layers or inputs are called \"image\"; give this one another name"}},
      {"\"name\": \"middle\"",
       "\"name\": \"label\"",
       {"m.json:6:31: error: /layers/2/name: \"label\" is reserved for the labels; rename this layer"}},
      {"\"name\": \"middle\"",
       "\"name\": \"a.b\"",
       {"m.json:6:31: error: /layers/2/name: \"a.b\" is not a valid name: letters, digits, _ and -, a letter or _ first; call it "
        "\"a_b\": weights of a.b load by that name"}},
      {"\"name\": \"middle\"",
       "\"from\": \"imag\"",
       {"m.json:6:31: error: /layers/2/from: there is no layer or input \"imag\" above; did you mean \"image\"?"}},
      {"\"name\": \"middle\"",
       "\"from\": \"relu_4\"",
       {"m.json:6:31: error: /layers/2/from: \"relu_4\" is listed below; a layer reads what is listed above it"}},
      {"\"name\": \"middle\"",
       "\"from\": [\"image\", \"conv2d_1\"]",
       {"m.json:6:31: error: /layers/2/from: conv2d reads one tensor, found 2"}},
      {"\"filters2\": 8",
       "\"filters1\": 8",
       {"m.json:6:5: error: /layers/2: `out` may not be a dim that the input has: \"filters1\""}},
      {"\"filters2\": 8", "\"filters2\": 8, \"x\": 2", {"m.json:6:48: error: /layers/2/out: conv2d has one output dim, found 2"}},
      {"{ \"filters2\": 8 }",
       "\"filters2\"",
       {"m.json:6:48: error: /layers/2/out: dim \"filters2\" is not declared above; write { \"filters2\": SIZE }"}},
      {"{ \"filters2\": 8 }",
       "8",
       {"m.json:6:48: error: /layers/2/out: expected a dim and its size, as { \"NAME\": 60 }, found 8"}},
      // The one complaint: a layer that reads one whose name is misspelt, or follows from a misspelt op, reads that one.
      {"\"name\": \"middle\", \"out\": { \"filters2\": 8 }, \"window\": [3, 2], \"bias\": false },\n    { \"op\": \"relu\" }",
       "\"nmae\": \"middle\", \"out\": { \"filters2\": 8 }, \"window\": [3, 2], \"bias\": false },\n    { \"op\": \"relu\", "
       "\"from\": \"middle\" }",
       {"m.json:6:23: error: /layers/2/nmae: unknown key; did you mean \"name\"?"}},
      {"conv2d\", \"name\": \"middle\", \"out\": { \"filters2\": 8 }, \"window\": [3, 2], \"bias\": false },\n    { \"op\": "
       "\"relu\" }",
       "conv2\", \"out\": { \"filters2\": 8 }, \"window\": [3, 2], \"bias\": false },\n    { \"op\": \"relu\", \"from\": "
       "\"conv2d_3\" }",
       {"m.json:6:13: error: /layers/2/op: \"conv2\" is not known here; did you mean \"conv2d\"?"}},
      {"\"bias\": false", "\"bias\": 0", {"m.json:6:93: error: /layers/2/bias: expected true or false, found 0"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"upsample2d\" }",
       {"m.json:7:5: error: /layers/3: \"scale\" is missing (number of result rows and columns per row and column)"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"upsample2d\", \"scale\": 0, \"mode\": \"bicubic\" }",
       {"m.json:7:36: error: /layers/3/scale: expected an integer from 1 to 1048576, found 0",
        "m.json:7:47: error: /layers/3/mode: \"bicubic\" is not known here (known: nearest, bilinear)"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"conv_transpose2d\", \"out\": \"f\", \"stride\": [2] }",
       {"m.json:7:5: error: /layers/3: \"window\" is missing (extent of the window: a number or [rows, cols])",
        "m.json:7:55: error: /layers/3/stride: expected [rows, cols], found a list of 1"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"conv_transpose2d\", \"out\": { \"f\": 4 }, \"window\": 2, \"stride\": 2, \"output_padding\": 2 }",
       {"m.json:7:5: error: /layers/3: `output_padding` is 2; expected at least 0, and less than the stride of 2 or the dilation "
        "of 1"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"conv_transpose2d\", \"out\": { \"f\": 4 }, \"window\": 2, \"padding\": 99 }",
       {"m.json:7:5: error: /layers/3: padding 99 and 99 removes all of the 13 that the windows produce from \"rows\" of size 12; "
        "use less padding"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"conv_transpose2d\", \"out\": { \"f\": 4 }, \"kernel_size\": 2, \"padding\": [1] }",
       {"m.json:7:52: error: /layers/3/kernel_size: unknown key; did you mean \"window\"?",
        "m.json:7:81: error: /layers/3/padding: a list of paddings is [[top, bottom], [left, right]]"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"group_norm\", \"groups\": 3 }",
       {"m.json:7:5: error: /layers/3: `groups` is 3; expected a number that divides the 8 of \"filters2\""}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"group_norm\", \"num_groups\": 4, \"of\": \"batch\" }",
       {"m.json:7:27: error: /layers/3/num_groups: unknown key; did you mean \"groups\"?"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"group_norm\", \"groups\": 4, \"of\": \"batch\" }",
       {"m.json:7:5: error: /layers/3: group_norm normalises each sample separately: `of` cannot be \"batch\", which counts them"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"upsample2d\", \"scale\": 2, \"over\": \"rows\" }",
       {"m.json:7:5: error: /layers/3: upsample2d slides over two dims, rows first; `over` names 1"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"add\", \"from\": [\"middle\"] }",
       {"m.json:7:28: error: /layers/3/from: add needs at least two tensors, as [\"a\", \"b\"]"}},
      // What was meant is read instead, so that what is after it is looked at too.
      {"\"window\": 2 },\n    { \"op\": \"conv2d\",",
       "\"window\": 2, \"from\": \"conv2_1\" },\n    { \"op\": \"conv2d\", \"stride\": 0,",
       {"m.json:5:48: error: /layers/1/from: there is no layer or input \"conv2_1\" above; did you mean \"conv2d_1\"?",
        "m.json:6:33: error: /layers/2/stride: expected an integer from 1 to 1048576, found 0"}},
      {"\"window\": 2 },\n    { \"op\": \"conv2d\", \"name\": \"middle\", \"out\": { \"filters2\": 8 }, \"window\": [3, 2]",
       "\"window\": 2, \"from\": \"conv2_1\" },\n    { \"op\": \"conv2d\", \"name\": \"middle\", \"out\": { \"filters2\": 8 }, "
       "\"window\": 99",
       {"m.json:5:48: error: /layers/1/from: there is no layer or input \"conv2_1\" above; did you mean \"conv2d_1\"?",
        "m.json:6:5: error: /layers/2: a window that covers 99 does not fit \"rows\" of size 14; make it smaller or pad more"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"add\" }",
       {"m.json:7:5: error: /layers/3: \"from\" is missing (the layers or inputs it reads)"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"add\", \"from\": [\"middle\", \"conv2d_1\"] }",
       {"m.json:7:5: error: /layers/3: \"conv2d_1\" and \"middle\" cannot be added: their dims differ (\"filters2\")"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"flatten\", \"out\": { \"flat\": 1000 } }",
       {"m.json:7:5: error: /layers/3: \"flat\" has the size 1000 here, but the product of all dims of \"middle\" except the first "
        "is 8 x 12 x 13 "
        "= 1248"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"reshap\", \"in\": \"filters2\", \"out\": \"a\" }",
       {"m.json:7:13: error: /layers/3/op: \"reshap\" is not known here; did you mean \"reshape\"?"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"reshape\", \"in\": \"filters\", \"out\": { \"a\": 2, \"b\": 4 } }",
       {"m.json:7:5: error: /layers/3: reshape: `in` names \"filters\", which \"middle\" does not have; did you mean "
        "\"filters2\"?"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"reshape\", \"in\": \"filters2\", \"out\": { \"a\": 2, \"b\": 5 } }",
       {"m.json:7:5: error: /layers/3: reshape: `out` makes 2 x 5 = 10 elements, \"middle\" has 8 in `in`"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"reshape\", \"in\": \"filters2\", \"out\": { \"a\": 4294967296, \"b\": 4294967296 } }",
       {"m.json:7:5: error: /layers/3: a tensor of more than 2^53 elements"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"slice\", \"in\": \"filters2\", \"out\": \"a\" }",
       {"m.json:7:5: error: /layers/3: \"range\" is missing ([begin, end): the elements that stay)"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"slice\", \"in\": \"filters2\", \"range\": [3], \"out\": \"a\" }",
       {"m.json:7:49: error: /layers/3/range: expected the first element and the end (exclusive), e.g. [0, 3]"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"slice\", \"in\": \"filters2\", \"range\": [3, 9], \"out\": \"a\" }",
       {"m.json:7:5: error: /layers/3: slice: the range [3, 9) of \"filters2\" does not fit its size 8 in \"middle\"; expected 0 "
        "<= begin < end <= 8"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"concat\", \"from\": [\"middle\", \"conv2d_1\"], \"in\": [\"filters2\", \"filters1\"], \"out\": { \"a\": 9 } }",
       {"m.json:7:5: error: /layers/3: concat: \"conv2d_1\" and \"middle\" do not fit: \"rows\" has the size 28 in one and 12 in "
        "the other"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"stack\", \"from\": \"middle\", \"out\": \"a\" }",
       {"m.json:7:30: error: /layers/3/from: stack needs at least two tensors, as [\"a\", \"b\"]"}},
      {"\"window\": [3, 2]",
       "\"window\": [3, 2], \"groups\": 4",
       {"m.json:6:5: error: /layers/2: `groups` is 4, which does not divide the 6 of \"filters1\"; every group has as many "
        "channels, "
        "and as many filters"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"matmul\", \"from\": [\"middle\", \"conv2d_1\", \"max_pool2d_2\"], \"over\": \"rows\" }",
       {"m.json:7:31: error: /layers/3/from: matmul reads two tensors, found 3"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"matmul\", \"from\": [\"middle\", \"conv2d_1\"], \"over\": \"rows\" }",
       {"m.json:7:5: error: /layers/3: matmul: \"rows\" has the size 12 in \"middle\" and 28 in \"conv2d_1\"; rename() it in one "
        "of "
        "them"}},
      {"{ \"classes\": 10 }",
       "{ \"rows\": 10 }",
       {"m.json:8:5: error: /layers/4: `out` may not be a dim that the input has: \"rows\""}},
      {"\"over\": \"classes\"",
       "\"over\": \"clases\"",
       {"m.json:9:52: error: /loss/over: no dim \"clases\" here; did you mean \"classes\"?"}},
      {"\"over\": \"classes\"",
       "\"over\": \"batch\"",
       {"m.json:9:52: error: /loss/over: \"batch\" counts the samples; expected the dim of the classes"}},
      {"softmax_cross_entropy",
       "mse",
       {"m.json:9:19: error: /loss/op: \"mse\" is not known here; did you mean \"mean_squared_error\"?"}},
      {"softmax_cross_entropy",
       "ctc",
       {"m.json:9:19: error: /loss/op: \"ctc\" is not built yet (known: binary_cross_entropy, "
        "huber, mean_absolute_error, mean_squared_error, softmax_cross_entropy)"}},
      {"\"softmax_cross_entropy\", \"over\": \"classes\"",
       "\"huber\", \"delta\": 0",
       {"m.json:9:37: error: /loss/delta: expected a number of at least 1e-30, found 0"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"map\" }",
       {"m.json:7:5: error: /layers/3: \"formula\" is missing (of its tensors t0, t1, ..., as \"t0 * tanh(softplus(t0))\": "
        "docs/own_ops.md)"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"map\", \"formula\": \"t0 * tahn(t0)\" }",
       {"m.json:7:31: error: /layers/3/formula: the formula, character 6, at \"tahn(t0)\": unknown word \"tahn\"; did you mean "
        "\"tanh\"?"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"map\", \"formula\": \"t0 + t2\", \"from\": [\"middle\", \"conv2d_1\"] }",
       {"m.json:7:31: error: /layers/3/formula: the formula, character 6, at \"t2\": t2 is not there: 2 tensors are read, t0 to "
        "t1"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"map\", \"formula\": 3 }",
       {"m.json:7:31: error: /layers/3/formula: expected a string, found 3"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"sub\", \"from\": [\"middle\"] }",
       {"m.json:7:28: error: /layers/3/from: sub needs at least two tensors, as [\"a\", \"b\"]"}},
      {"{ \"op\": \"relu\" }",
       "{ \"op\": \"map\", \"formula\": \"t0 * t1\", \"from\": [\"middle\", \"conv2d_1\"] }",
       {"m.json:7:5: error: /layers/3: \"conv2d_1\" and \"middle\" cannot be combined: their dims differ (\"filters2\")"}},
      {"softmax_cross_entropy", "mean_squared_error", {"m.json:9:41: error: /loss/over: unknown key (known: op, labels)"}},
      {"\"over\": \"classes\"",
       "\"over\": \"classes\", \"label_smoothing\": 1.5, \"ignore_index\": 0.5",
       {"m.json:9:82: error: /loss/label_smoothing: expected a number from 0 to 1, found 1.5",
        "m.json:9:103: error: /loss/ignore_index: expected an integer from -16777216 to 16777216, found 0.5"}},
      {"\"batch\": 10", "\"batch\": 0", {"m.json:2:35: error: /inputs/image/batch: expected an integer of at least 1, found 0"}},
      {"\"inputs\": { \"image\"",
       "\"inputs\": { \"label\"",
       {"m.json:2:24: error: /inputs/label: \"label\" is reserved for the labels; rename this input"}},
      {"{ \"image\": {",
       "{ \"other\": { \"n\": 1 }, \"image\": {",
       {"m.json:2:24: error: /inputs/other: every input holds one part per sample: expected \"batch\" as its first dim",
        "m.json:4:5: error: /layers/0: \"other\" has 1 dims; a window op needs one or two dims before the two it slides over"}},
      {"\"cols\": 28 } }",
       "\"cols\": 28 }, \"depth\": { \"batch\": 10, \"rows\": 28 } }",
       {"m.json:2:89: error: /inputs/depth: the last layer, \"dense_5\", does not depend on this input; name it in the \"from\" of "
        "a layer that the last one depends on, or in /loss/labels if it holds the labels, or leave the input out"}},
      {"\"batch\": 10,",
       "\"dtype\": \"i32\", \"batch\": 10,",
       {"m.json:4:5: error: /layers/0: \"image\" holds integers (i32), which conv2d does not read; read them with an embedding"}},
      {"\"rows\": 28",
       "\"1rows\": 28",
       {"m.json:2:54: error: /inputs/image/1rows: \"1rows\" is not a valid dim name: letters, digits, _ and -, a letter or _ "
        "first"}},
      {"\"rows\": 28, \"cols\": 28 } }",
       "\"rows\": 28, \"cols\": 28 }, \"depth\": { \"rows\": 28 } }",
       {"m.json:2:89: error: /inputs/depth: every input holds one part per sample: expected \"batch\" as its first dim",
        "m.json:2:89: error: /inputs/depth: the last layer, \"dense_5\", does not depend on this input; name it in the \"from\" of "
        "a layer that the last one depends on, or in /loss/labels if it holds the labels, or leave the input out"}},
      {"\"activation\": \"relu\"",
       "\"activation\": \"softmax\"",
       {"m.json:4:95: error: /layers/0/activation: \"softmax\" as an activation is not built yet, it has keys; write it as a layer "
        "after "
        "this one, { \"op\": \"softmax\" }"}},
      {"\"op\": \"relu\" }",
       "\"op\": \"embedding\", \"rows\": { \"words\": 9 }, \"out\": { \"e\": 3 } }",
       {"m.json:7:5: error: /layers/3: embedding reads integers from an input (\"dtype\": \"i32\"); \"middle\" is "
        "computed"}},
      {"\"op\": \"relu\" }",
       "\"op\": \"reshape\", \"in\": \"filters2\", \"out\": { \"u\": 7 } }",
       {"m.json:7:5: error: /layers/3: reshape: `out` makes 7 elements, \"middle\" has 8 in `in`"}},
      {"\"layers\"", "\"layer\"", {"m.json:3:3: error: /layer: unknown key; did you mean \"layers\"?"}}};
  for (const auto& [what, with, expected] : cases) {
    INFO(with);
    CHECK(said_of_model(replaced(kModel, what, with)) == expected);
  }
}

TEST_CASE("all errors of a model at once: layers that do not need each other are all built") {
  CHECK(said_of_model(R"({ "version": 1,
  "inputs": { "image": { "batch": 10, "channels": 1, "rows": 28, "cols": 28 } },
  "layers": [
    { "op": "conv2d", "out": { "f": 6 }, "window": 50 },
    { "op": "relu" },
    { "op": "conv2d", "from": "image", "out": { "f": 7 }, "window": 3 },
    { "op": "conv2d", "from": "image", "out": { "g": 7 }, "window": 3, "strid": 2 },
    { "op": "flatten", "from": "image", "out": "flat" },
    { "op": "dense", "out": { "batch": 10 } } ],
  "loss": { "op": "softmax_cross_entropy", "over": 3 } })") ==
        Lines{"m.json:4:5: error: /layers/0: a window that covers 50 does not fit \"rows\" of size 28; make it smaller or "
              "pad more",
              "m.json:6:5: error: /layers/2: dim \"f\" has the size 7 here but 6 where it first appears; a dimension has one size, "
              "give this one another name",
              "m.json:7:72: error: /layers/3/strid: unknown key; did you mean \"stride\"?",
              "m.json:9:5: error: /layers/5: `out` may not be a dim that the input has: \"batch\"",
              "m.json:10:52: error: /loss/over: expected a name, found 3"});
  CHECK(said_of_model(R"({ "version": 1,
  "inputs": { "image": { "batch": 10, "channels": 1, "rows": 28, "cols": 28 } },
  "layers": [
    { "op": "conv2d", "out": { "f": 6 }, "window": 5 },
    { "op": "conv2d", "from": "image", "out": { "f": 7 }, "window": 5 } ],
  "loss": { "op": "softmax_cross_entropy", "over": "f" } })") ==
        Lines{"m.json:5:5: error: /layers/1: dim \"f\" has the size 7 here but 6 where it first appears; a dimension has one size, "
              "give this one another name"});
}

TEST_CASE(
    "all errors of a model at once: a layer that reads one that cannot be built has the errors that are there whatever that one "
    "gives") {
  // Nothing about what depends on it: the window of 27 on what layer "b" gives may fit when b's own does.
  CHECK(said_of_model(R"({ "version": 1,
  "inputs": { "image": { "batch": 10, "channels": 1, "rows": 28, "cols": 28 } },
  "layers": [
    { "op": "conv2d", "out": { "f": -6 }, "window": 3, "name": "a" },
    { "op": "conv2d", "out": { "g": 8 }, "window": 40, "name": "b" },
    { "op": "conv2d", "out": { "h": 8 }, "window": 27, "name": "c" },
    { "op": "relu", "name": "d" },
    { "op": "add", "from": ["d", "image"], "name": "e" },
    { "op": "conv2d", "out": "f", "window": 1 },
    { "op": "dense", "in": "colours", "out": { "classes": 10 } } ],
  "loss": { "op": "softmax_cross_entropy", "over": "classes" } })") ==
        Lines{"m.json:4:37: error: /layers/0/out/f: expected an integer of at least 1, found -6",
              "m.json:5:5: error: /layers/1: a window that covers 40 does not fit \"rows\" of size 26; make it smaller or pad more",
              "m.json:8:5: error: /layers/4: \"image\" and \"d\" cannot be added: their dims differ (\"h\")",
              "m.json:10:5: error: /layers/6: dense: `in` names \"colours\", which \"conv2d_6\" does not have (known: batch, f, "
              "rows, cols)"});
}

TEST_CASE("what is wrong in a job file") {
  const std::vector<std::tuple<std::string, std::string, Lines>> cases{
      {"learning_rate",
       "learnin_rate",
       {"job.json:6:44: error: /train/optimizer/learnin_rate: unknown key; did you mean \"learning_rate\"?"}},
      {"\"learning_rate\": 0.05, ",
       "",
       {"job.json:6:27: error: /train/optimizer: \"learning_rate\" is missing (step size of the update)"}},
      {"\"seed\": 7",
       "\"seed\": 7, \"schedule\": { \"kind\": \"cosine\", \"factor\": 0.5 }",
       {"job.json:5:109: error: /train/schedule/factor: a cosine schedule has no \"factor\"; it is a key of step and plateau"}},
      {"\"seed\": 7",
       "\"seed\": 7, \"schedule\": { \"kind\": \"one_cycle\", \"warmup_steps\": 5 }",
       {"job.json:5:118: error: /train/schedule/warmup_steps: a one_cycle schedule has no \"warmup_steps\"; it is a key of "
        "constant, "
        "linear, cosine, step, polynomial and plateau"}},
      {"\"seed\": 7",
       "\"seed\": 7, \"schedule\": { \"kind\": \"one_cycle\", \"rise\": 0 }",
       {"job.json:5:110: error: /train/schedule/rise: expected a number above 0 and at most 1, found 0"}},
      {"\"seed\": 7", "\"seed\": 7, \"schedule\": { \"kind\": \"polynomial\", \"power\": 2, \"final\": 1e-4 }", {"fine"}},
      {"\"seed\": 7",
       "\"seed\": 7, \"evaluate_every_epochs\": 1, \"schedule\": { \"kind\": \"plateau\", \"factor\": 1, \"watch\": \"loss\" }",
       {"job.json:5:138: error: /train/schedule/factor: expected a number from 0 to below 1, found 1",
        "job.json:5:150: error: /train/schedule/watch: \"loss\" is not known here (known: test_loss, test_accuracy)"}},
      {"\"seed\": 7",
       "\"seed\": 7, \"schedule\": { \"kind\": \"step\", \"milestones\": [5, 5] }",
       {"job.json:5:111: error: /train/schedule/milestones: expected ascending steps, found 5 after 5"}},
      {"\"seed\": 7",
       "\"seed\": 7, \"schedule\": { \"kind\": \"step\", \"milestones\": [] }",
       {"job.json:5:111: error: /train/schedule/milestones: expected the steps at which the learning rate falls, found none"}},
      {"\"seed\": 7",
       "\"seed\": 7, \"schedule\": { \"kind\": \"step\", \"milestones\": [5, 0] }",
       {"job.json:5:115: error: /train/schedule/milestones/1: expected an integer of at least 1, found 0"}},
      {"\"epochs\": 2, \"seed\": 7", "\"epochs\": 2, \"schedule\": { \"kind\": \"linear\" }", {"fine"}},
      {"\"seed\": 7",
       "\"seed\": 7, \"schedule\": { \"kind\": \"step\" }",
       {"job.json:5:79: error: /train/schedule: \"milestones\" is missing (the steps at which the learning rate falls)"}},
      {"\"seed\": 7",
       "\"seed\": 7, \"accumulate\": 3",
       {"job.json:5:81: error: /train/accumulate: a batch of 32 cannot be divided into 3 equal micro-batches; make it a multiple "
        "of 3"}},
      {"\"seed\": 7",
       "\"seed\": 7, \"clip_norm\": 0",
       {"job.json:5:80: error: /train/clip_norm: expected a number above 0, found 0; without it gradients are not clipped"}},
      {"\"sgd\"",
       "\"lion\"",
       {"job.json:6:37: error: /train/optimizer/kind: \"lion\" is not built yet (known: adam, adamw, lamb, sgd)"}},
      {"\"momentum\": 0.9",
       "\"decay\": \"biases\"",
       {"job.json:6:76: error: /train/optimizer/decay: \"biases\" is not known here (known: all, weights)"}},
      {"\"seed\": 7",
       "\"seed\": 7, \"average\": 1",
       {"job.json:5:78: error: /train/average: expected a number above 0 and below 1, found 1; without it weights are not "
        "averaged"}},
      {"\"sgd\"", "\"adam\"", {"job.json:6:80: error: /train/optimizer/momentum: adam has no \"momentum\""}},
      {"\"momentum\": 0.9", "\"beta1\": 0.9", {"job.json:6:76: error: /train/optimizer/beta1: sgd has no \"beta1\""}},
      {"\"sgd\", \"learning_rate\": 0.05, \"momentum\": 0.9",
       "\"adamw\", \"learning_rate\": 0.05, \"beta2\": 1",
       {"job.json:6:78: error: /train/optimizer/beta2: expected a number from 0 to below 1, found 1"}},
      {"0.9", "1.5", {"job.json:6:79: error: /train/optimizer/momentum: expected a number from 0 to 1, found 1.5"}},
      {"0.9", "1e999", {"job.json:6:79: error: /train/optimizer/momentum: 1e999 is too large for a number (at most 1.7e308)"}},
      {"\"batch\": 32", "\"batch\": 32.5", {"job.json:5:39: error: /train/batch: expected an integer of at least 1, found 32.5"}},
      {"\"batch\": 32",
       "\"batch\": \"32\"",
       {"job.json:5:39: error: /train/batch: expected an integer of at least 1, found \"32\""}},
      {"\"batch\": 32",
       "\"batch\": 60001",
       {"job.json:5:39: error: /train/batch: a batch of 60001 is more than the 60000 samples of the data; make it smaller"}},
      {"\"epochs\": 2, ", "", {"job.json:5:12: error: /train: \"epochs\" or \"max_steps\" is missing (how long to train)"}},
      {"32, \"epochs\": 2, \"seed\": 7,\n             \"optimizer\": { \"kind\": \"sgd\", \"learning_rate\": 0.05, \"momentum\": "
       "0.9, \"weight_decay\": 1e-4 } } }",
       "60001, \"seed\": -7 } }",
       {"job.json:5:12: error: /train: \"optimizer\" is missing (as { \"kind\": \"sgd\", \"learning_rate\": 0.05 })",
        "job.json:5:12: error: /train: \"epochs\" or \"max_steps\" is missing (how long to train)",
        "job.json:5:39: error: /train/batch: a batch of 60001 is more than the 60000 samples of the data; make it smaller",
        "job.json:5:54: error: /train/seed: expected an integer of at least 0, found -7"}},
      {"\"epochs\": 2",
       "\"epochs\": 1152921504606846977",
       {"job.json:5:53: error: /train/epochs: expected an integer from 1 to 1000000000, found 1152921504606846977"}},
      {"\"seed\": 7",
       "\"seed\": 7, \"evaluate_every_epochs\": 2305843009213693952",
       {"job.json:5:92: error: /train/evaluate_every_epochs: expected an integer from 1 to 1000000000, found 2305843009213693952"}},
      {"\"epochs\": 2", "\"epoch\": 2", {"job.json:5:43: error: /train/epoch: unknown key; did you mean \"epochs\"?"}},
      {"\"f64\"", "\"f16\"", {"job.json:5:23: error: /train/dtype: \"f16\" is not built yet (known: f32, f64, bf16)"}},
      {"\"seed\": 7", "\"seed\": -7", {"job.json:5:64: error: /train/seed: expected an integer of at least 0, found -7"}},
      {"\"never\"", "\"newer\"", {"job.json:3:48: error: /profile/measure: \"newer\" is not known here; did you mean \"never\"?"}},
      {"\"fashion_mnist\"",
       "\"fashion\"",
       {"job.json:4:21: error: /data/kind: \"fashion\" is not known here; did you mean \"fashion_mnist\"?"}},
      {"\"fashion_mnist\"", "\"mnist\"", {"job.json:4:11: error: /data: \"path\" is missing (the folder of its files)"}},
      {"\"fashion_mnist\"",
       "\"fashion_mnist\", \"samples\": 9",
       {"job.json:4:49: error: /data/samples: fashion_mnist has its own number of samples; \"samples\" is a key of synthetic "
        "data"}},
      {"{ \"kind\": \"fashion_mnist\" }",
       "\"fashion_mnist\"",
       {"job.json:4:11: error: /data: expected an object, e.g. { \"kind\": \"fashion_mnist\" }, or the path of a file that holds "
        "one"}},
      {"{ \"kind\": \"fashion_mnist\" }",
       "{ \"kind\": \"cifar10\", \"path\": \"x\" }",
       {"parts/model.json:2:24: error: /inputs/image: a sample of cifar10 is 3 x 32 x 32 (channels, rows, columns), this input's "
        "is 1 x 28 x 28"}},
      {"\"parts/mesh.json\"", "\"parts/mush.json\"", {"job.json:2:11: error: /mesh: no file parts/mush.json"}},
      {"\"parts/mesh.json\"", "\"parts\"", {"job.json:2:11: error: /mesh: parts is a folder; expected a file"}},
      {"\"parts/mesh.json\"", "3", {"job.json:2:11: error: /mesh: expected an object, found 3"}},
      {"\"mesh\": \"parts/mesh.json\", ", "", {"job.json:1:1: error: \"mesh\" is missing (the devices: a path or the object)"}},
      {"\"mesh\"", "\"mash\"", {"job.json:2:3: error: /mash: unknown key; did you mean \"mesh\"?"}},
      {"\"parts/layout.json\"", "\"auto\"", {"fine"}},
      {"\"parts/layout.json\"",
       "{ \"split\": { \"filters1\": { \"axis\": \"al\" } } }",
       {"job.json:2:104: error: /layout/split/filters1/axis: the mesh has no axis \"al\"; did you mean \"all\"?"}},
      {"\"parts/layout.json\"",
       "{ \"split\": { \"filters1\": { \"axis\": \"all\", \"parts\": [3, 4] } } }",
       {"job.json:2:120: error: /layout/split/filters1/parts: the parts sum to 7, but \"filters1\" has the size 6; [3, 3] would be "
        "right"}},
      // Sizes of the batch sum to the job's or to the model's.
      {"\"parts/layout.json\"",
       "{ \"split\": { \"batch\": { \"axis\": \"all\", \"parts\": [3, 4] } } }",
       {"job.json:2:117: error: /layout/split/batch/parts: the parts sum to 7, but \"batch\" has the size 32 in the job and 10 in "
        "the "
        "model; [14, 18] would be right"}},
      {"\"parts/layout.json\"", "{ \"split\": { \"batch\": { \"axis\": \"all\", \"parts\": [20, 12] } } }", {"fine"}},
      {"\"parts/layout.json\"", "{ \"split\": { \"batch\": { \"axis\": \"all\", \"parts\": [3, 7] } } }", {"fine"}},
      {"\"version\": 1,",
       "\"version\": 1, \"name\": \"a/b\",",
       {"job.json:1:25: error: /name: a job's name becomes part of a directory name: expected no slash and no leading dot"}},
      {"\"version\": 1,",
       "\"version\": 1, \"name\": \"" + std::string(234, 'n') + "\",",
       {"job.json:1:25: error: /name: a job's name becomes part of a directory name: expected at most 233 bytes, found 234"}},
      {"\"version\": 1,", "\"version\": 1, \"name\": \"" + std::string(233, 'n') + "\",", {"fine"}},
      {"\"train\": {", "\"train\": [", {"job.json:5:21: error: /train: a comma is missing in front of this :"}}};
  const Files files;
  for (const auto& [what, with, expected] : cases) {
    INFO(with);
    CHECK(files.said_of_job(what, with) == expected);
  }
}

TEST_CASE("an error in an included file has that file's name, position and pointer") {
  const Files files;
  files.folder.write("parts/mesh.json", replaced(kMesh, "\"size\"", "\"sise\""));
  files.folder.write("parts/model.json", replaced(kModel, "\"version\": 1, ", ""));
  files.folder.write("parts/layout.json", replaced(kLayout, "[4, 2]", "[4, 2"));
  CHECK(files.said_of_job("\"batch\": 32", "\"batch\": true") ==
        Lines{"parts/layout.json:2:58: error: /split/filters1/parts: expected ] or a comma, found }",
              "parts/mesh.json:1:44: error: /axes/0/sise: unknown key; did you mean \"size\"?",
              "parts/model.json:1:1: error: \"version\" is missing (version of the file format)",
              "job.json:5:39: error: /train/batch: expected an integer of at least 1, found true"});
}

TEST_CASE("--set changes the joined tree") {
  const Files files;
  const std::string path = files.folder.at("job.json");
  const Job job = load_job(path, {"train.batch=64", "mesh.devices.1.threads=2", "mesh.devices.0.name=a b", "train.max_steps=5",
                                  "profile=x.json", "layout={\"split\": {\"filters2\": \"all\"}}",
                                  "layout.split.filters2={\"axis\": \"all\", \"parts\": \"even\"}", "name=other"});
  CHECK(job.train.batch == 64);
  CHECK(job.mesh.device(1).threads == 2);
  CHECK(job.mesh.device(0).name == "a b");
  CHECK(job.train.max_steps == 5);
  CHECK(job.profile.path == (std::filesystem::current_path() / "x.json").string());
  CHECK((job.rules.split == std::vector<Rule>{{"filters2", "all", CutBy::even}}));
  CHECK(job.name == "other");
  const Job again = parse_job("job.resolved.json", to_text(job.joined));
  CHECK(again.mesh.device(1).threads == 2);
  files.folder.write(
      "three.json",
      R"({ "version": 1, "axes": [ { "name": "all", "size": 2 } ], "devices": [ { "kind": "cpu" }, { "kind": "cpu" } ] })");
  CHECK(load_job(path, {"mesh=" + files.folder.at("three.json"), "mesh.devices.0.threads=3"}).mesh.device(0).threads == 3);
  CHECK(load_job(path, {"layout.split.filters1=null"}).rules.split.empty());
  const std::string overrides = "layout.tensors={\"dense_5.weight\": {\"filters2\": \"all\"}}";
  CHECK((load_job(path, {overrides, "layout.tensors.dense_5.weight.filters2=null"}).rules.tensors.at("dense_5.weight") ==
         std::vector<Rule>{{"filters2", Axes{}}}));
}

TEST_CASE("what is wrong in --set") {
  const Files files;
  const std::vector<std::pair<std::string, Lines>> cases{
      {"train.batch", {"--set:1:1: error: expected KEY.KEY=VALUE, e.g. train.batch=64"}},
      {"=64", {"--set:1:1: error: expected KEY.KEY=VALUE, e.g. train.batch=64"}},
      {"train.batch=", {"--set:1:12: error: a value is missing after this ="}},
      {"train.batch=true", {"--set:1:13: error: /train/batch: expected an integer of at least 1, found true"}},
      {"train.btch=1", {"--set:1:7: error: /train/btch: unknown key; did you mean \"batch\"?"}},
      {"trein.batch=1", {"--set:1:1: error: /trein: unknown key; did you mean \"train\"?"}},
      {"train.batch.x=1", {"--set:1:13: error: /train/batch/x: 32 has no keys that could be set"}},
      {"mesh.devices.2.threads=1", {"--set:1:14: error: /mesh/devices/2: expected an index from 0 to 1"}},
      {"mesh.devices.x.threads=1", {"--set:1:14: error: /mesh/devices/x: expected an index from 0 to 1"}},
      {"mesh.devices.1.isa=avx3", {"--set:1:20: error: /mesh/devices/1/isa: \"avx3\" is not known here; did you mean \"avx\"?"}},
      // What follows from a value is not blamed on the file.
      {"mesh.axes.0.size=3",
       {"--set:1:18: error: /mesh/devices: the axes make 3 ranks, but 2 devices are listed; list one device per rank"}},
      {"train.optimizer.kind=adam", {"--set:1:22: error: /train/optimizer/momentum: adam has no \"momentum\""}},
      {"mesh.axes.0.name=one",
       {"parts/layout.json:2:36: error: /split/filters1/axis: the mesh has no axis \"all\" (known: one) (it follows from --set "
        "mesh.axes.0.name=one)"}},
      {"mesh=none.json", {"--set:1:6: error: /mesh: no file none.json"}},
      {"layout={\"split\": {", {"--set:1:18: error: /layout/split: the text ends before the closing }"}},
      {"train.optimizer={\"learning_rate\":}", {"--set:1:34: error: /train/optimizer/learning_rate: expected a value, found }"}},
      {"train.optimizer={\"kind\":\"sgd\",\"kind\":\"adam\",\"learning_rate\":1}",
       {"--set:1:31: error: /train/optimizer/kind: this key is written twice; the first is at line 1, column 18"}},
      {"train.clip_norm= 1e400 ", {"--set:1:18: error: /train/clip_norm: 1e400 is too large for a number (at most 1.7e308)"}},
      {"name=-inf", {"fine"}},
      {"name=0x1p9999", {"fine"}},
      {"train.clip_norm=-1e400", {"--set:1:17: error: /train/clip_norm: -1e400 is too large for a number (at most 1.7e308)"}},
      {"model.layers.0.window=77", {"fine"}},
      {"model.layers.1.window=77",
       {"--set:1:23: error: /model/layers/1: a window that covers 77 does not fit \"rows\" of size 28; make it smaller or pad "
        "more"}},
      {"layout.split.filters1.parts=[9,9]",
       {"--set:1:29: error: /layout/split/filters1/parts: the parts sum to 18, but \"filters1\" has the size 6; [3, 3] would be "
        "right"}},
      {"layout.split={\"rows\":\"all\"}", {"fine"}},
      {"layout.split.f\xc3\xbcr=all",
       {"--set:1:14: error: /layout/split/f\xc3\xbcr: \"f\xc3\xbcr\" is not a valid dim name: letters, digits, _ and -, a letter "
        "or _ "
        "first"}},
      {"name=\xff", {"--set:1:6: error: expected a string without control characters, in UTF-8"}}};
  for (const auto& [argument, expected] : cases) {
    INFO(argument);
    CHECK(files.said_with({argument}) == expected);
  }
  CHECK(files.said_with({"train.batch=0", "train.seed=x"}) ==
        Lines{"--set:1:13: error: /train/batch: expected an integer of at least 1, found 0",
              "--set:1:12: error: /train/seed: expected an integer of at least 0, found \"x\""});
}

TEST_CASE("what is wrong is said once: an input that does not begin with the batch, a file that is no profile") {
  const Files files;
  files.folder.write("parts/layout.json", replaced(kLayout, "[4, 2]", "\"profile\""));  // which is then needed
  const Lines lines = files.said_with(
      {"model.inputs.image={\"channels\":1,\"rows\":28,\"cols\":28}", "model.inputs.depth={\"batch\":10,\"e\":4}"}, Data::needed);
  REQUIRE(lines.size() == 3);  // and a convolution of three dims, a profile that is missing
  CHECK(lines[0].ends_with("expected \"batch\" as its first dim"));
  files.folder.write("here.json", kMesh);
  CHECK(files.said_with({}, Data::needed) ==
        Lines{"job.json:3:24: error: /profile/path: here.json:1:1: error: \"kernels\" is missing (measured points)"});
}

TEST_CASE("what is wrong without --set too is blamed on the file, what follows from one of several values on that one") {
  const Files files;
  files.folder.write("parts/model.json", replaced(kModel, "[3, 2]", "[3, 99]"));
  const std::string window = "a window that covers 99 does not fit \"cols\" of size 14; make it smaller or pad more";
  CHECK(files.said_with({"model.layers.2.bias=true"}) == Lines{"parts/model.json:6:5: error: /layers/2: " + window});
  files.folder.write("parts/model.json", kModel);
  CHECK(files.said_with({"model.layers.2.window=[3,99]", "model.layers.2.bias=true", "train.seed=3"}) ==
        Lines{"--set:1:23: error: /model/layers/2: " + window});
  const std::string axis = "parts/layout.json:2:36: error: /split/filters1/axis: the mesh has no axis \"all\" (known: one)";
  CHECK(files.said_with({"train.seed=3", "mesh.axes.0.name=one", "mesh.devices.0.threads=2"}) ==
        Lines{axis + " (it follows from --set mesh.axes.0.name=one)"});
  // Two that are wrong together: the one that changes what the error is about. Two of one value: the last.
  CHECK(files.said_with({"model.layers.2.window=[3,10]", "train.seed=3", "model.layers.1.window=4"}) ==
        Lines{"--set:1:23: error: /model/layers/2: a window that covers 10 does not fit \"cols\" of size 7; make it smaller or pad "
              "more"});
  CHECK(files.said_with({"mesh.axes.0.name=two", "train.seed=3", "mesh.axes.0.name=one"}) ==
        Lines{axis + " (it follows from --set mesh.axes.0.name=one)"});
}

TEST_CASE("where a job is expected, another file is named by its kind") {
  const Files files;
  const auto lines_of = [&](const std::string& file) {
    return said(files.folder, [&] { load_job(files.folder.at(file), {"train.batch=2"}); });
  };
  CHECK(lines_of("parts/mesh.json") == Lines{"parts/mesh.json:1:1: error: this is a mesh; expected a job, whose \"mesh\" may name "
                                             "this file (`motley check FILE`, without --set, takes any kind)"});
  files.folder.write("run.json", R"({ "status": "done", "steps": 3, "train_loss": 1.5 })");
  CHECK(lines_of("run.json") ==
        Lines{"run.json:1:1: error: this is a run; expected a job (`motley check FILE`, without --set, takes any kind)"});
}

TEST_CASE("at most ten complaints are printed") {
  const Files files;
  std::vector<std::string> sets;
  for (int i = 0; i < 14; i++) sets.push_back("train.wrong" + std::to_string(i) + "=1");
  const Lines lines = files.said_with(sets);
  REQUIRE(lines.size() == 11);
  CHECK(lines[9].starts_with("--set:1:7: error: /train/wrong9: unknown key"));
  CHECK(lines[10] == "and 4 more");
}

TEST_CASE("check reports kinds, complaints and codes") {
  const Files files;
  auto at = [&](const std::string& name) { return files.folder.at(name); };
  const CheckResult good = check_files({at("job.json"), at("parts/mesh.json"), at("parts/model.json"), at("parts/layout.json")});
  CHECK(complaints_in(files.folder, good.report) ==
        Lines{"job.json: job, nothing wrong", "data: trains on 60000 samples; evaluates the 10000 of the test part",
              "parts/mesh.json: mesh, nothing wrong", "parts/model.json: model, nothing wrong",
              "parts/layout.json: layout, nothing wrong"});
  CHECK(good.report.find("\n  class             train        test\n  T-shirt/top        6000        1000\n") != std::string::npos);
  CHECK(good.code == Exit::ok);
  files.folder.write("branch.json", R"({ "version": 1, "inputs": { "image": { "batch": 2, "f": 4 } }, "layers": [
      { "op": "dense", "name": "stem", "out": { "g": 4 } },
      { "op": "dense", "name": "unread", "out": { "h": 4 } },
      { "op": "parameter", "name": "shared", "shape": { "classes": 3, "g": 4 } },
      { "op": "dense", "name": "last", "from": "stem", "out": { "classes": 3 }, "weight": "shared" } ],
      "loss": { "op": "softmax_cross_entropy", "over": "classes" } })");
  const CheckResult noted = check_files({at("branch.json")});
  CHECK(complaints_in(files.folder, noted.report) ==
        Lines{"branch.json: model, nothing wrong",
              R"(note: the layer "unread" is not used: the last layer, "last", does not depend on it)"});
  CHECK(noted.code == Exit::ok);
  files.folder.write("pinned.json", R"({ "version": 1, "axes": [ { "name": "all", "size": 5 } ], "devices": [
      { "name": "a", "kind": "cpu", "cores": [0, 2] }, { "name": "b", "kind": "cpu", "cores": [1] },
      { "name": "c", "kind": "emulated", "of": { "kind": "cpu", "cores": [2, 0, 3] }, "slowdown": 2 },
      { "name": "d", "kind": "cpu", "cores": [1], "host": "other" }, { "name": "e", "kind": "cpu" } ] })");
  const CheckResult pinned = check_files({at("pinned.json")});
  CHECK(complaints_in(files.folder, pinned.report) ==
        Lines{"pinned.json: mesh, nothing wrong",
              R"(note: devices "a" and "c" are bound to the same cores, 0, 2, and take turns there; give each its own "cores")"});
  CHECK(pinned.code == Exit::ok);
  const CheckResult missing = check_files({at("job.json"), at("none.json")});
  CHECK(missing.code == Exit::missing);
  CHECK(complaints_in(files.folder, missing.complaints) == Lines{"no file none.json"});
  files.folder.write("odd.json", "{ \"version\": 1, \"zzz\": 2 }");
  files.folder.write("mesh2.json", replaced(kMesh, "\"axes\"", "\"axs\""));
  files.folder.write("broken.json", "{");
  const CheckResult wrong = check_files({at("none.json"), at("odd.json"), at("mesh2.json"), at("broken.json")});
  CHECK(wrong.code == Exit::config);
  CHECK(complaints_in(files.folder, wrong.complaints) ==
        Lines{"no file none.json",
              "odd.json:1:1: error: the kind of this file is not known; expected a mesh (axes, devices), a model (inputs, "
              "layers, loss, zoo), a layout (split, tensors, place), "
              "a job (mesh, model, layout, profile, data, train), a profile (devices, kernels, links), a plan (decisions, "
              "predicted, cuts, baselines), "
              "a run (status, steps, train_loss, measured_step_seconds), a trace (first_step, last_step, difference_seconds, "
              "measured_step_seconds)",
              "mesh2.json:1:17: error: /axs: unknown key; did you mean \"axes\"?",
              "broken.json:1:1: error: the text ends before the closing }"});
}

// "FILE: POINTER: TEXT": without line and column.
static Lines without_places(Lines lines) {
  for (std::string& line : lines)
    if (const std::size_t file = line.find(".json:"), text = line.find(": error: "); text != std::string::npos)
      line = line.substr(0, file + 5) + ":" + line.substr(text + 8);
  return lines;
}

TEST_CASE("an error in a model is no further error of the data") {
  const Files files;
  files.folder.write("parts/model.json", R"({ "version": 1,
  "inputs": { "image": { "batch": 2, "channels": 3, "rows": 4, "cols": 4 }, "extra": { "batch": 2, "e": 4 } },
  "layers": [
    { "op": "dense", "name": "wide", "from": "extra", "keep": "batch", "out": { "f": 6 } },
    { "op": "conv2d", "name": "convolved", "from": "image", "out": { "f": 6 }, "window": 3, "padding": "same" },
    { "op": "mul", "from": ["convolved", "wide"] },
    { "op": "conv2d", "out": { "classes": 5 }, "window": 1 } ],
  "loss": { "op": "softmax_cross_entropy", "over": "classes", "ignore_index": -1 } })");
  files.folder.write("job.json", replaced(replaced(replaced(kJob, "never", "always"), "\"fashion_mnist\"",
                                                   R"("npy", "images": "images.npy", "labels": "labels.npy",
            "inputs": { "extra": "extra.npy" }, "augment": { "crop_padding": 1 })"),
                                          "\"batch\": 32", "\"batch\": 2"));
  files.folder.write("parts/layout.json", R"({ "version": 1, "split": { "f": "all" } })");
  write_npy(files.folder.at("images.npy"), {2, 3, 4, 4}, std::vector<float>(96));
  write_npy(files.folder.at("extra.npy"), {2, 4}, std::vector<float>(8));
  std::vector<std::int32_t> labels(32, 4);
  labels.front() = -1;
  write_npy(files.folder.at("labels.npy"), {2, 4, 4}, labels);
  REQUIRE(files.said_with({}, Data::needed) == Lines{"fine"});
  for (const std::string wrong : {"model.layers.1.op=conv3d", "model.layers.1.activation=rellu", "model.layers.0.out.f=7",
                                  "model.layers.3.out={\"clases\":5}", "model.loss.over=clases", "model.loss.op=softmax",
                                  "model.loss.lables=y", "model.inputs.image.rows=0", "model.inputs.extra.e=0",
                                  "model.inputs.label={\"batch\":2,\"rows\":4,\"cols\":4}", "layout.split.f=al"}) {
    INFO(wrong);
    CHECK(files.said_with({wrong}, Data::needed).size() == 1);
  }
  // What is wrong whatever the model's layers are is said in any case.
  write_npy(files.folder.at("labels.npy"), {3}, std::vector<std::int32_t>{0, 1, 2});
  write_npy(files.folder.at("extra.npy"), {2, 5}, std::vector<float>(10));
  const Lines lines = without_places(files.said_with({"model.layers.1.op=conv3d"}, Data::needed));
  REQUIRE(lines.size() == 3);
  CHECK(lines[1] == "job.json: /data/labels: labels.npy: 3 labels for the 2 samples of images.npy");
  CHECK(lines[2] == "job.json: /data/inputs/extra: extra.npy: an array [2, 5]; expected [samples, 4]");
  // Where the inputs or the loss cannot be read: what the files say by themselves, whatever numbers they hold.
  write_npy(files.folder.at("extra.npy"), {3, 4}, std::vector<float>(12));
  for (const std::string wrong : {"model.loss.op=softmax", "model.inputs.image.rows=0", "model.inputs.extra.e=0"}) {
    INFO(wrong);
    write_npy(files.folder.at("images.npy"), {2, 3, 4, 4}, std::vector<float>(96));
    const Lines all = without_places(files.said_with({wrong}, Data::needed));
    REQUIRE(all.size() == 3);
    CHECK(all[1] == "job.json: /data/labels: labels.npy: 3 labels for the 2 samples of images.npy");
    CHECK(all[2] == "job.json: /data/inputs/extra: extra.npy: 3 samples for the 2 of images.npy");
    write_npy(files.folder.at("images.npy"), {2, 3, 4, 4}, std::vector<std::int32_t>(96));
    CHECK(files.said_with({wrong}, Data::needed).size() == 3);
  }
}

TEST_CASE("a weight that cannot be shared is complained about once") {
  const auto said_with = [](const std::string& last) {
    const Files files;
    files.folder.write("parts/layout.json", R"({ "version": 1, "split": {} })");
    files.folder.write("parts/model.json",
                       R"({ "version": 1, "inputs": { "image": { "batch": 10, "channels": 1, "rows": 28, "cols": 28 } },
  "layers": [ { "op": "dense", "name": "first", "keep": ["batch", "rows"], "out": { "hidden": 16 } }, { "op": "relu", "name": "above" },
    { "op": "attention", "name": "looks", "heads": { "heads": 4 }, "over": "hidden" }, { "op": "dense", "out": { "classes": 10 }, "weight": ")" +
                           last + R"(" } ],
  "loss": { "op": "softmax_cross_entropy", "over": "classes" } })");
    return without_places(said(files.folder, [&] { load_job(files.folder.at("job.json")); }));
  };
  CHECK(said_with("first") == Lines{"parts/model.json: /layers/3: \"dense_4\" shares the weight of \"first\", whose dims are "
                                    "[hidden 16, channels 1, cols 28]; expected [classes 10, hidden 16, rows 28]"});
  for (const std::string last : {"above", "nowhere", "looks"})  // attention has four weights, none of which is `.weight`
    CHECK(said_with(last) ==
          Lines{"parts/model.json: /layers/3: there is no layer \"" + last + "\" with a weight above (known: first)"});
}

TEST_CASE("a shared weight has no initial values of its own, and a layer's standard values are those of its op") {
  const auto said_with = [](const std::string& first, const std::string& second) {
    return without_places(said_of_model(R"({ "version": 1, "inputs": { "x": { "dtype": "i32", "batch": 4, "n": 3 } },
  "layers": [ { "op": "embedding", "name": "e", "rows": { "v": 9 }, "out": { "f": 6 })" +
                                        first + R"( },
    { "op": "dense", "in": "f", "out": { "v_out": 9 })" +
                                        second + R"( } ],
  "loss": { "op": "softmax_cross_entropy", "over": "v_out" } })"));
  };
  CHECK(said_with(R"(, "deviation": 0.02)", "") == Lines{"fine"});
  CHECK(said_with("", R"(, "deviation": 0.02)") ==
        Lines{"m.json: /layers/1/deviation: this is the standard deviation of normal initial values; expected \"initial\": "
              "\"normal\" beside it"});
  CHECK(said_with("", R"(, "weight": "e", "initial": "zeros")").at(0) ==
        "m.json: /layers/1/initial: the weight is that of \"e\"; leave this out");
}

TEST_CASE("only the loss reads the labels") {
  CHECK(without_places(said_of_model(R"({ "version": 1,
  "inputs": { "x": { "batch": 4, "classes": 3 }, "label": { "dtype": "i32", "batch": 4 } },
  "layers": [ { "op": "embedding", "rows": { "v": 3 }, "out": { "classes_of": 3 }, "from": "label" },
              { "op": "rename", "in": "classes_of", "out": "classes" }, { "op": "add", "from": ["rename_2", "x"] } ],
  "loss": { "op": "softmax_cross_entropy", "over": "classes" } })")) ==
        Lines{"m.json: /layers/0/from: \"label\" holds the labels, which only the loss may read: they are not known when the "
              "network predicts"});
}

TEST_CASE("names that a network of the zoo has itself are refused where they are given") {
  const auto said_with = [](const std::string& zoo, const std::string& inputs) {
    return without_places(said_of_model(R"({ "version": 1, "zoo": ")" + zoo + R"(", "inputs": { )" + inputs + " } }"));
  };
  const std::string image = R"({ "batch": 2, "channels": 1, "rows": 32, "cols": 32 })";
  CHECK(said_with("lenet5", "\"image\": " + image) == Lines{"fine"});
  CHECK(said_with("lenet5", "\"label\": " + image) ==
        Lines{"m.json: /inputs/label: \"label\" is the name of the network's labels; rename this input"});
  CHECK(said_with("lenet5", "\"conv1\": " + image) ==
        Lines{"m.json: /inputs/conv1: the network has a layer \"conv1\"; rename this input"});
  CHECK(said_with("gpt", R"("tokens": { "dtype": "i32", "batch": 2, "context": 16 })") ==
        Lines{"m.json: /inputs/tokens/context: the network has a dim \"context\" itself; rename this one"});
}

TEST_CASE("local statistics of one value on a device are refused where the parts are given") {
  const auto said_with = [](const std::string& parts, const std::string& train, const std::string& keep = "") {
    const Files files;
    files.folder.write("parts/layout.json", R"({ "version": 1, "split": { "batch": { "axis": "all", "parts": )" + parts + " } } }");
    files.folder.write(
        "parts/model.json",
        R"({ "version": 1, "inputs": { "image": { "batch": 10, "channels": 1, "rows": 28, "cols": 28 } },
  "layers": [ { "op": "dense", )" +
            keep + R"("out": { "hidden": 16 } }, { "op": "batch_norm", "name": "norm", "statistics": "local", "of": "hidden" },
    { "op": "dense", "out": { "classes": 10 } } ], "loss": { "op": "softmax_cross_entropy", "over": "classes" } })");
    files.folder.write("job.json", replaced(kJob, "\"batch\": 32", train));
    return without_places(said(files.folder, [&] { load_job(files.folder.at("job.json")); }));
  };
  const auto refused = [](const std::string& rank, const std::string& in) {
    return Lines{"parts/layout.json: /split/batch: \"norm\" has local statistics, and rank " + rank +
                 " has only one value per statistic in " + in +
                 ": its variance is not defined; give it at least two of \"batch\", or none, or take statistics over all samples "
                 "(\"statistics\": \"global\")"};
  };
  CHECK(said_with("[31, 1]", R"("batch": 32)") == refused("1 (slow cpu)", "a step"));
  CHECK(said_with(R"({ "shares": [1, 30] })", R"("batch": 31)") == refused("0 (fast cpu)", "a step"));
  CHECK(said_with("[6, 2]", R"("batch": 8, "accumulate": 2)") == refused("1 (slow cpu)", "a micro-batch"));
  CHECK(said_with("\"even\"", R"("batch": 2)") == refused("0 (fast cpu)", "a step"));
  CHECK(said_with("[32, 0]", R"("batch": 32)") == Lines{"fine"});
  CHECK(said_with("[30, 2]", R"("batch": 32)") == Lines{"fine"});
  CHECK(said_with("[31, 1]", R"("batch": 32)", R"("keep": ["batch", "rows"], )") == Lines{"fine"});  // 28 values of one sample
  CHECK(said_with("\"profile\"", R"("batch": 2)") == Lines{"fine"});                                 // the planner gives all to one
}

TEST_CASE("errors of independent parts are said at once") {
  const auto lines_of = [](const std::string& mesh, const std::string& model, const std::string& layout) {
    const Files files;
    files.folder.write("parts/mesh.json", mesh);
    files.folder.write("parts/model.json", model);
    files.folder.write("parts/layout.json", layout);
    return without_places(said(files.folder, [&] { load_job(files.folder.at("job.json")); }));
  };
  const std::string layout = R"({ "version": 1, "split": { "nodim": "all", "filters1": "noaxis", "filters2": "all" },
  "tensors": { "nolayer": { "batch": null }, "relu_4": { "batch": "al" } },
  "place": { "max_pool2d": "big gpu" } }
)";
  const Lines of_layout{
      "parts/layout.json: /split/nodim: the model has no dim \"nodim\" (known: batch, channels, classes, cols, filters1, "
      "filters2, rows)",
      "parts/layout.json: /split/filters1: the mesh has no axis \"noaxis\" (known: all)",
      "parts/layout.json: /tensors/nolayer: the model has no input, layer or parameter \"nolayer\" (known: conv2d_1, "
      "conv2d_1.bias, conv2d_1.weight, dense_5, dense_5.bias, dense_5.weight, image, label, max_pool2d_2, middle, middle.weight, "
      "relu_4)",
      "parts/layout.json: /tensors/relu_4/batch: the mesh has no axis \"al\"; did you mean \"all\"?"};
  Lines all = of_layout;
  all.push_back("parts/layout.json: /place/max_pool2d: the model has no layer \"max_pool2d\"; did you mean \"max_pool2d_2\"?");
  all.push_back("parts/layout.json: /place/max_pool2d: the mesh has no device \"big gpu\" (known: fast cpu, slow cpu)");
  CHECK(lines_of(kMesh, kModel, layout) == all);
  // A mesh whose size does not fit its devices still has axes and devices.
  Lines with_mesh = all;
  with_mesh.insert(with_mesh.begin(),
                   "parts/mesh.json: /devices: the axes make 3 ranks, but 2 devices are listed; list one device per rank");
  CHECK(lines_of(replaced(kMesh, "\"size\": 2", "\"size\": 3"), kModel, layout) == with_mesh);
  // Nothing is said about what a layer that was not understood may have: the dim "filters2", the layer "max_pool2d".
  const Lines with_op = lines_of(
      kMesh,
      replaced(replaced(kModel, "\"name\": \"middle\", ", ""), "conv2d\", \"out\": { \"filters2", "conv2\", \"out\": { \"filters2"),
      layout);
  REQUIRE(with_op.size() == 7);
  CHECK(with_op[0].starts_with("parts/model.json: /layers/2/op: \"conv2\" is not known here"));
  CHECK(with_op[1] ==
        "parts/layout.json: /split/nodim: the model has no dim \"nodim\" (known: batch, channels, cols, filters1, rows)");
  CHECK(with_op[2] == of_layout[1]);
  CHECK(lines_of(kMesh, "nothing", layout).size() == 4);  // the model; axes and devices
  // One mistake is one complaint: layers and dims that an unread layer names or may declare are no further ones.
  const std::string rules =
      R"({ "version": 1, "split": { "filters2": "all" }, "tensors": { "middle.weight": { "filters2": null } }, "place": { "middle": "fast cpu" } }
)";
  for (const auto& [what, with] : {std::pair{R"("conv2d", "name")", R"("conv2", "name")"},
                                   {R"("out": { "filters2")", R"("out_channels": { "filters2")"},
                                   {R"("name": "middle")", R"("nmae": "middle")"},
                                   {R"("out": { "filters2": 8 })", R"("out": 8)"}}) {
    INFO(with);
    CHECK(lines_of(kMesh, replaced(kModel, what, with), rules).size() == 1);
  }
  CHECK(lines_of(kMesh, replaced(kModel, "\"op\": \"softmax_cross_entropy\", \"over\": \"classes\"", "\"op\": \"mse\""), rules)
            .size() == 1);
  CHECK(lines_of(kMesh, replaced(kModel, "\"softmax_cross_entropy\"", "\"mse\""),
                 R"({ "version": 1, "split": {}, "tensors": { "label": { "batch": null } } })")
            .size() == 1);
  // An input has its dims though no layer that was built reads it.
  CHECK(lines_of(kMesh, R"({ "version": 1, "inputs": { "image": { "batch": 4, "channels": 1, "rows": 28, "cols": 28 } },
  "layers": [ { "op": "group_norm", "groups": 4 }, { "op": "dense", "out": { "classes": 10 } } ],
  "loss": { "op": "softmax_cross_entropy", "over": "classes" } })",
                 R"({ "version": 1, "split": { "batch": "all" } })")
            .size() == 1);
  // What could not be read of a layout hides nothing of the rest, and is complained about once.
  CHECK(
      lines_of(kMesh, kModel,
               R"({ "version": 1, "split": { "filters1": 3, "nodim": "all" }, "place": { "middle": [], "relu_4": ["fast cpu", 1] } }
)") == Lines{"parts/layout.json: /split/filters1: expected an axis or { \"axis\", \"parts\" }, found 3",
             "parts/layout.json: /split/nodim: the model has no dim \"nodim\" (known: batch, channels, classes, cols, filters1, "
             "filters2, rows)",
             "parts/layout.json: /place/middle: expected at least one device",
             "parts/layout.json: /place/relu_4/1: expected a string, found 1"});
}

TEST_CASE("what planning cannot do is reported where the rule is written") {
  const Files files;
  files.folder.write("parts/layout.json", R"({ "version": 1,
  "tensors": { "conv2d_1.bias": { "filters1": null },
               "max_pool2d_2": { "filters1": { "axis": "all", "parts": "even" },
                                 "batch": "all" } } }
)");
  const Lines lines = without_places(files.said_with({}));
  REQUIRE(lines.size() == 1);
  CHECK(
      lines[0].starts_with("parts/layout.json: /tensors/max_pool2d_2/filters1: the dims \"batch\", \"filters1\" of "
                           "\"max_pool2d_2\" cannot both be cut"));
}

TEST_CASE("frozen parameters beside a group that names none") {  // found by tests/fuzz
  const Files files;
  const Lines lines = without_places(files.said_with({"train.freeze=[\"*.bias\"]", "train.groups=[{\"weight_decay\": 0}]"}));
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains("/train/groups/0: \"match\" is missing"));
}

TEST_CASE("schedules: what a run does not come to", "[config]") {
  const RateSchedule schedule{.kind = RateSchedule::Kind::step, .warmup_steps = 20, .steps = 10, .milestones = {5, 10, 11}};
  CHECK(schedule_notes(schedule) == std::vector<std::string>{"the warm-up of 20 steps does not end: the run has 10 steps",
                                                             "milestone 11 is not reached: the run has 10 steps"});
  CHECK(schedule_notes({.warmup_steps = 10, .steps = 10}).empty());
}
