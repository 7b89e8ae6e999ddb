// SPDX-License-Identifier: Apache-2.0
// verify finds nothing where cutting changes nothing, and finds what is disturbed.
#include <motley/error.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/json.h"
#include "base/npy.h"
#include "kernels/open_cpu.h"
#include "kernels/wrapped_backend.h"
#include "tests/lib/train_nets.h"
#include "train/verify.h"

using namespace motley;

namespace {

bool disturbed = false;                // devices compute the first gradient of a dense layer's weight wrong
const char* const kZeroes = "zeroes";  // the name of a device that computes 0 for gradients of convolutions' weights

class Disturbed final : public Kernel {
 public:
  explicit Disturbed(std::unique_ptr<Kernel> inner) : inner_(std::move(inner)) {}
  std::size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  std::string implementation() const override { return inner_->implementation(); }
  void run(std::span<void* const> operands, void* workspace) override {
    inner_->run(operands, workspace);
    *static_cast<float*>(operands.back()) += 1e-2F;
  }

 private:
  std::unique_ptr<Kernel> inner_;
};

class Zero final : public Kernel {
 public:
  explicit Zero(std::size_t bytes) : bytes_(bytes) {}
  std::size_t workspace_bytes() const override { return 0; }
  std::string implementation() const override { return "zero"; }
  void run(std::span<void* const> operands, void*) override { std::memset(operands.back(), 0, bytes_); }

 private:
  std::size_t bytes_;
};

class Cpu final : public WrappedBackend {
 public:
  Cpu(std::unique_ptr<Backend> inner, bool zeroes) : WrappedBackend(std::move(inner)), zeroes_(zeroes) {}
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    auto kernel = inner().compile(spec);
    if (zeroes_ && spec.op == KernelOp::conv2d && spec.pass == PassKind::backward_filter && spec.dtype == DType::bf16)
      return std::make_unique<Zero>(static_cast<std::size_t>(spec.roles.f * spec.roles.c * spec.roles.r * spec.roles.s) *
                                    sizeof(float));
    if (disturbed && spec.op == KernelOp::dense && spec.pass == PassKind::backward_filter)
      return std::make_unique<Disturbed>(std::move(kernel));
    return kernel;
  }

 private:
  bool zeroes_;
};

// Three values of each unit; those of every other one add up to what f32 rounds away, above 0 or below.
class Cancelling final : public Dataset {
 public:
  static constexpr Index kUnits = 64;
  Index samples() const override { return 4; }
  Index classes() const override { return 0; }
  std::vector<Index> sample_extents() const override { return {kUnits, 3}; }
  std::vector<Index> label_extents() const override { return {kUnits, 1}; }
  DType label_dtype() const override { return DType::f32; }
  std::int32_t label(Index) const override { return 0; }
  void read_targets(Index, const Box&, std::span<double> out) const override { std::fill(out.begin(), out.end(), 1.0); }
  void read(Index sample, const Box& box, std::span<double> out) const override {
    std::size_t k = 0;
    for (Index unit = box[0].begin; unit < box[0].end; unit++) {
      const double at = static_cast<double>(sample * kUnits + unit);
      const float a = static_cast<float>(std::sin(at + 1)), b = static_cast<float>(std::cos(3 * at));
      const float c = unit % 2 == 0 ? 0.5F : static_cast<float>(-(static_cast<double>(a) + static_cast<double>(b)));
      for (Index i = box[1].begin; i < box[1].end; i++) out[k++] = static_cast<double>(i == 0 ? a : i == 1 ? b : c);
    }
  }
};

}  // namespace

namespace motley {
// In this program devices are these.
std::unique_ptr<Backend> open_backend(const Device& device) {
  return std::make_unique<Cpu>(open_cpu(device), device.name == kZeroes);
}
}  // namespace motley

TEST_CASE("verify: a sharded network is the unsharded one, and its dump is whole", "[verify]") {
  const Step step = small_step(4);
  const Datasets data = small_data(20);
  for (int ranks = 1; ranks <= 4; ranks++) {
    const Mesh mesh = line_of(ranks);
    const Folder dump;
    VerifyReport report;
    run_ranks_in_memory(ranks, [&](Runtime& rt) {
      const VerifyReport mine =
          verify(rt, {.step = &step, .mesh = &mesh, .rules = small_rules(ranks), .data = data.train, .dump = dump.path()});
      if (rt.rank() == ranks - 1) report = mine;
    });
    INFO(report.text());
    CHECK(report.ok());
    CHECK(report.f32.weights > 0);
    CHECK(report.nudged.weights == 0);  // not asked for
    CHECK(report.f32.weights > report.f64.weights);
    const NpyArray logits = read_npy(dump.path() / "logits.npy"), f32 = read_npy(dump.path() / "f32/logits.npy");
    CHECK(logits.extents == std::vector<Index>{4, kClasses});
    const auto& a = std::get<std::vector<double>>(logits.data);
    const auto& b = std::get<std::vector<float>>(f32.data);
    for (std::size_t i = 0; i < a.size(); i++) CHECK(static_cast<double>(b[i]) == Approx(a[i]).epsilon(1e-4));
    CHECK(read_npy(dump.path() / "inputs/image.npy").extents == std::vector<Index>{4, 2, 6, 5});
    CHECK(std::get<std::vector<std::int64_t>>(read_npy(dump.path() / "inputs/label.npy").data).size() == 4);
    CHECK(read_npy(dump.path() / "loss.npy").extents.empty());
    CHECK(read_npy(dump.path() / "gradients/conv2d_4.weight.npy").extents == std::vector<Index>{4, 5, 3, 3});
    CHECK(read_npy(dump.path() / "f32/weights_after/dense_6.weight.npy").extents == std::vector<Index>{kClasses, 4, 3, 3});
    Complaints complaints;
    const auto manifest = read_json("manifest", read_file((dump.path() / "manifest.json").string()), complaints);
    REQUIRE(manifest.has_value());
    CHECK(manifest->at("/tensors/conv2d_1.bias/dims/0") != nullptr);
    CHECK(to_text(*manifest->at("/tensors/logits")) == to_text(*manifest->at("/tensors/dense_6")));
    CHECK(manifest->at("/tensors/loss") != nullptr);
  }
}

TEST_CASE("verify: a kernel that is wrong without any cut too is found", "[verify]") {
  const Step step = small_step(4);
  const Datasets data = small_data(20);
  const Mesh mesh = line_of(1);
  for (const bool wrong : {true, false}) {
    disturbed = wrong;
    run_ranks_in_memory(1, [&](Runtime& rt) {
      const VerifyReport report = verify(rt, {.step = &step, .mesh = &mesh, .data = data.train});
      INFO(report.text());
      CHECK(report.ok() != wrong);
      CHECK((report.alone.gradients > 1e-3) == wrong);
      CHECK((report.text().find("a kernel of this device") != std::string::npos) == wrong);
      CHECK(report.plain.gradients < 1e-4);
    });
  }
}

// A relu's gradient is 0 or not by values that are rounding alone: what they are compared with decides as f32 did.
TEST_CASE("verify: values next to a gradient's jump are no difference", "[verify]") {
  Graph graph;
  const Index units = Cancelling::kUnits;
  const Tensor image = graph.input("image", {{"batch", 4}, {"units", units}, {"c", 3}}),
               label = graph.input("label", {{"batch", 4}, {"units", units}, {"o", 1}});
  const Tensor sum =
      dense(image, {.in = {Dim{"c"}}, .out = {{"o", 1}}, .bias = false, .weight = {.initial = InitialWeights::ones}});
  const Tensor moved = add(sum, graph.parameter({{"units", units}}, {.initial = InitialWeights::zeros, .name = "moved"}));
  const Step step = training(mean(mean_squared_error(relu(moved), label)), Sgd{.learning_rate = 1e-9});
  const Mesh mesh = line_of(1);
  run_ranks_in_memory(1, [&](Runtime& rt) {
    const VerifyReport report = verify(rt, {.step = &step, .mesh = &mesh, .data = std::make_shared<Cancelling>(), .steps = 1});
    INFO(report.text());
    CHECK(report.ok());
    CHECK(report.alone.gradients == 0);  // not looked for
    CHECK(report.f32.gradients < 1e-4);
  });
}

// Where bf16 rounds to the other side of a relu's kink, gradients are far off without any cut too: here by up to 0.47 of their
// largest value. Compared with an f64 run of the same decisions they are not.
TEST_CASE("verify: in bf16, a gradient that one rank does not compute is found", "[verify]") {
  Graph graph;
  Tensor x = graph.input("image", {{"batch", 8}, {"in", 2}, {"rows", 6}, {"cols", 5}});
  const Tensor label = graph.input("label", {{"batch", 8}}, DType::i32);
  for (const char* name : {"f1", "f2", "f3", "f4", "f5", "f6"})
    x = relu(batch_norm(conv2d(x, {.out = {name, 16}, .window = 3, .padding = same})));
  const Tensor logits = dense(global_avg_pool2d(x), {.out = {{"classes", kClasses}}});
  const Step step = training(mean(softmax_cross_entropy(logits, label, {"classes", kClasses})), Sgd{.learning_rate = 0.01},
                             {.storage = DType::bf16});
  const Datasets data = small_data(20);
  for (const bool zeroes : {false, true}) {
    std::vector<Device> devices(2);
    if (zeroes) devices[1].name = kZeroes;
    const Mesh mesh({{"all", 2}}, devices);
    run_ranks_in_memory(2, [&](Runtime& rt) {
      const VerifyReport report =
          verify(rt, {.step = &step, .mesh = &mesh, .rules = {{"batch", "all", Sizes{{5, 3}}}}, .data = data.train, .steps = 1});
      if (rt.rank() != 0) return;
      INFO(report.text());
      CHECK(report.ok() != zeroes);
      CHECK((report.text().find("times as far as without any cut") != std::string::npos) == zeroes);
    });
  }
}

// With its batch of 5 cut into 1, 0 and 4 samples over three ranks.
static VerifyReport verified_uneven(const Step& step, const LayoutRules& rules = {{"batch", "all", Sizes{{1, 0, 4}}}}) {
  const Datasets data = small_data(20);
  const Mesh mesh = line_of(3);
  VerifyReport report;
  run_ranks_in_memory(3, [&](Runtime& rt) {
    const VerifyReport mine = verify(rt, {.step = &step, .mesh = &mesh, .rules = rules, .data = data.train});
    if (rt.rank() == 0) report = mine;
  });
  return report;
}

TEST_CASE("verify: statistics of a rank's own samples are those of the same parts in one piece", "[verify]") {
  Graph graph;
  Tensor x = graph.input("image", {{"batch", 5}, {"in", 2}, {"rows", 6}, {"cols", 5}});
  const Tensor label = graph.input("label", {{"batch", 5}}, DType::i32);
  x = relu(batch_norm(conv2d(x, {.out = {"f", 4}, .window = 3, .name = "c"}), {.local = true, .name = "n"}));
  const Step step = training(mean(softmax_cross_entropy(dense(x, {.out = {{"classes", kClasses}}}), label, {"classes", kClasses})),
                             Sgd{.learning_rate = 0.1});
  const VerifyReport report = verified_uneven(step);
  INFO(report.text());
  CHECK(report.ok());
}

TEST_CASE("verify: own statistics under rules that keep copies, which the network in one piece does not have", "[verify]") {
  Graph graph;
  Tensor x = graph.input("image", {{"batch", 5}, {"in", 2}, {"rows", 6}, {"cols", 5}});
  const Tensor label = graph.input("label", {{"batch", 5}}, DType::i32);
  x = batch_norm(conv2d(x, {.out = {"f", 4}, .window = 3, .name = "c"}), {.local = true, .name = "n"});
  const Dim made{"made", 4};
  const Tensor a = conv2d(x, {.out = made, .window = 1, .name = "a"}),
               b = conv2d(x, {.out = made, .window = 3, .padding = same, .name = "b"});
  const Tensor logits = dense(add(a, b), {.out = {{"classes", kClasses}}});
  const Step step = training(mean(softmax_cross_entropy(logits, label, {"classes", kClasses})), Sgd{.learning_rate = 0.1});
  LayoutRules rules{{"batch", "all", Sizes{{2, 0, 3}}}};
  rules.tensor("a", {{"batch", Axes{}}, {"made", "all", Sizes{{1, 2, 1}}}});
  const VerifyReport report = verified_uneven(step, rules);
  INFO(report.text());
  CHECK(report.ok());
}

// The mean of a layer norm's result over the dims that it normalises is its bias: the convolution's gradient is rounding alone, and
// LAMB moves its weights in any direction by a part of their length.
TEST_CASE("verify: weights that LAMB moves by rounding alone excuse what follows from them", "[verify]") {
  Graph graph;
  Tensor x = graph.input("image", {{"batch", 5}, {"in", 2}, {"rows", 6}, {"cols", 5}});
  const Tensor label = graph.input("label", {{"batch", 5}}, DType::i32);
  x = layer_norm(conv2d(x, {.out = {"f", 3}, .window = 3, .padding = same, .name = "c"}),
                 {.over = {Dim{"rows", 6}, Dim{"cols", 5}}, .name = "n"});
  const Tensor logits = dense(global_avg_pool2d(x), {.out = {{"classes", kClasses}}, .name = "d"});
  const Step step =
      training(mean(softmax_cross_entropy(logits, label, {"classes", kClasses})), Lamb{.learning_rate = 0.01, .weight_decay = 0});
  const VerifyReport report = verified_uneven(step, {{"rows", "all", Sizes{{3, 1, 2}}}});
  INFO(report.text());
  CHECK(report.f64.adrift > 1e-5);
  CHECK(report.f64.weights > 1e-7);
  CHECK(report.ok());
}

TEST_CASE("verify: a bias before a batch norm, whose gradient is rounding alone, is moved anywhere and the running mean with it",
          "[verify]") {
  Graph graph;
  Tensor x = graph.input("image", {{"batch", 5}, {"in", 2}, {"rows", 6}, {"cols", 5}});
  const Tensor label = graph.input("label", {{"batch", 5}}, DType::i32);
  x = relu(batch_norm(conv2d(x, {.out = {"f", 4}, .window = 3, .name = "c"}), {.name = "n"}));
  const Tensor loss = mean(softmax_cross_entropy(dense(x, {.out = {{"classes", kClasses}}}), label, {"classes", kClasses}));
  for (const Optimizer& optimizer : {Optimizer{Lamb{.learning_rate = 1}}, Optimizer{Adam{.learning_rate = 0.01}}}) {
    const VerifyReport report = verified_uneven(training(loss, optimizer));
    INFO(report.text());
    CHECK(report.ok());
  }
}

TEST_CASE("verify: what f64 loses in the unsharded network too is no difference, up to 1e-7", "[verify]") {
  VerifyReport report;
  CHECK(report.ok());
  report.f64.weights = 1e-9;
  CHECK(!report.ok());
  report.nudged.weights = 3e-10;
  CHECK(report.ok());
  CHECK(report.text().find("changed by at most 2^-45") != std::string::npos);
  report.f64.gradients = 1e-10;
  CHECK(!report.ok());
  report.f64.gradients = 0;
  report.f64.weights = 2e-7;
  report.nudged.weights = 1;
  CHECK(!report.ok());
  CHECK(report.text().find("NOT ok: rounding errors alone change the unsharded network's values this much, and beyond 1e-07") !=
        std::string::npos);
  report.f64.weights = std::numeric_limits<double>::quiet_NaN();
  CHECK(!report.ok());
}

TEST_CASE("verify: a sharded inference is the unsharded one, running statistics included", "[verify]") {
  const auto net = [](Graph& g) {
    const Dim n{"batch", 4}, in{"in", 2}, rows{"rows", 6}, cols{"cols", 5}, f1{"f1", 5}, classes{"classes", kClasses};
    const Tensor label = g.input("label", {n}, DType::i32);
    Tensor h = conv2d(g.input("image", {n, in, rows, cols}), {.out = f1, .window = 3, .padding = same});
    h = relu(batch_norm(h));
    const Tensor logits = dense(h, {.out = {classes}});
    return SmallNet{logits, mean(softmax_cross_entropy(logits, label, classes))};
  };
  Graph a, b, c;
  const Step trained = training(net(a).loss, Sgd{.learning_rate = 0.1}), logits = inference({net(b).logits}),
             loss = inference({net(c).loss});
  const Datasets data = small_data(20);
  for (int ranks = 1; ranks <= 4; ranks++)
    for (const std::string cut : {"f1", "batch", "rows"}) {
      const Mesh mesh = line_of(ranks);
      const LayoutRules rules = ranks == 1 ? LayoutRules{}
                                           : LayoutRules{{cut, "all",
                                                          uneven(cut == "batch" ? 4
                                                                 : cut == "f1"  ? 5
                                                                                : 6,
                                                                 ranks)}};
      const Folder dump;
      VerifyReport report;
      run_ranks_in_memory(ranks, [&](Runtime& rt) {
        const VerifyInput input{.step = &trained, .mesh = &mesh, .rules = rules, .data = data.train, .dump = dump.path()};
        const VerifyReport mine = verify_inference(rt, input, {&logits, &loss, rules});
        if (rt.rank() == ranks - 1) report = mine;
      });
      INFO(cut << " over " << ranks << "\n" << report.text());
      CHECK(report.ok());
      CHECK(report.json().find("gradients") == std::string::npos);
      CHECK(report.f32.logits > report.f64.logits);
      // By hand, from what was dumped: the loss is that of the logits, the statistics are not the initial ones.
      const auto values = [&](const std::string& name) { return std::get<std::vector<double>>(read_npy(dump.path() / name).data); };
      const auto label = std::get<std::vector<std::int64_t>>(read_npy(dump.path() / "inputs/label.npy").data);
      double sum = 0;
      for (std::size_t n = 0; n < 4; n++) {
        double exps = 0;
        for (std::size_t k = 0; k < kClasses; k++) exps += std::exp(values("logits.npy")[n * kClasses + k]);
        sum += std::log(exps) - values("logits.npy")[n * kClasses + static_cast<std::size_t>(label[n])];
      }
      CHECK(values("loss.npy").front() == Approx(sum / 4));
      for (const double v : values("weights_before/batch_norm_2.running_mean.npy")) CHECK((v != 0 && std::abs(v) < 0.5));
      for (const double v : values("weights_before/batch_norm_2.running_var.npy")) CHECK((v != 1 && std::abs(v - 1) < 0.5));
      // What the layers before the last one compute reaches the logits: not all ReLUs give 0.
      CHECK(std::abs(values("logits.npy")[0] - values("logits.npy")[kClasses]) > 1e-3);
    }
}

TEST_CASE("verify: a disturbed tensor is a difference", "[verify]") {
  RunRecord truth;
  truth.losses = {2, 1};
  truth.logits.values = {1, -4};
  truth.gradients["a"].values = {0.5, 0.25};
  truth.weights_after["a"].values = {3, 0};
  truth.weights_after["b"].values = {0, 0};
  RunRecord run = truth;
  CHECK(VerifyReport{difference(run, truth), difference(run, truth)}.ok());
  run.weights_after["a"].values[1] = 3e-3;
  CHECK(difference(run, truth).weights == Approx(1e-3));
  CHECK_FALSE(VerifyReport{difference(run, truth), {}}.ok());
  CHECK_FALSE(VerifyReport{{}, difference(run, truth)}.ok());
  CHECK(VerifyReport{{}, difference(run, truth), difference(run, truth)}.ok());  // f32 is as far off without any cut
  CHECK_FALSE(VerifyReport{difference(run, truth), {}, difference(run, truth)}.ok());
  run.gradients["a"].values[1] += 1e-3;
  const Difference far = difference(run, truth);
  CHECK_FALSE(VerifyReport{{}, far, far}.ok());  // no plain kernels are
  CHECK(VerifyReport{{}, far, far, {.gradients = far.gradients / 15}}.ok());
  CHECK_FALSE(VerifyReport{{}, far, far, {.gradients = far.gradients / 17}}.ok());
  run = truth;
  run.weights_after["b"].values[0] = 1e-7;  // absolute: the truth is all zero
  CHECK(difference(run, truth).weights == Approx(1e-7));
  for (RunRecord* one : {&truth, &run}) one->gradients["b"].values = {1e-17, 0};
  run.weights_after["b"].values[0] = 1e-3;  // a step made of rounding
  CHECK(VerifyReport{difference(run, truth), difference(run, truth)}.ok());
  for (RunRecord* one : {&truth, &run}) one->weights_after["running_mean"].values = {2, 2};  // has no gradient
  run.weights_after["running_mean"].values[1] = 2 + 1e-3;
  CHECK(VerifyReport{difference(run, truth), difference(run, truth)}.ok());
  run.weights_after["running_mean"].values[1] = 2 + 13e-3;  // ten times as far as "b", and 3e-3
  CHECK(difference(run, truth).weights == Approx(1.5e-3));
  for (RunRecord* one : {&truth, &run}) one->weights_after.erase("running_mean");
  for (RunRecord* one : {&truth, &run}) one->averages_after = {{"a", {.values = {3, 0}}}, {"b", {.values = {0, 0}}}};
  run.averages_after["b"].values[0] = 1e-2;  // follows from the step made of rounding
  CHECK(difference(run, truth).weights < 1e-9);
  run.averages_after["a"].values[1] = 3e-3;
  CHECK(difference(run, truth).weights == Approx(1e-3));
  CHECK(difference(run, truth).worst_weights == std::string("the average of a"));
  truth.gradients.erase("b");
  run = truth;
  run.gradients["a"].values[0] = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(VerifyReport{difference(run, truth), {}}.ok());
  run = truth;
  run.gradients.clear();
  CHECK_FALSE(VerifyReport{difference(run, truth), {}}.ok());
  const std::string json = VerifyReport{difference(run, truth), {}}.json();
  CHECK(json.find("\"ok\": false") != std::string::npos);
}
