// SPDX-License-Identifier: Apache-2.0
// verify where values are rounding alone: no difference, and what is wrong is found there too.
#include <motley/error.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "graph/magnitudes.h"
#include "graph/nodes.h"
#include "kernels/open_cpu.h"
#include "kernels/value.h"
#include "kernels/wrapped_backend.h"
#include "plan/plan_data.h"
#include "plan/planner.h"
#include "tests/lib/train_nets.h"
#include "tests/support/random_network.h"
#include "train/verify.h"
#include "train/verify_run.h"

using namespace motley;

namespace {

bool disturbed = false;  // devices add so much to the results of dense layers
constexpr float kDisturbed = 1e-2F;

class Disturbed final : public Kernel {
 public:
  explicit Disturbed(std::unique_ptr<Kernel> inner) : inner_(std::move(inner)) {}
  std::size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  std::string implementation() const override { return inner_->implementation(); }
  void run(std::span<void* const> operands, void* workspace) override {
    inner_->run(operands, workspace);
    *static_cast<float*>(operands.back()) += kDisturbed;
  }

 private:
  std::unique_ptr<Kernel> inner_;
};

class Cpu final : public WrappedBackend {
 public:
  explicit Cpu(std::unique_ptr<Backend> inner) : WrappedBackend(std::move(inner)) {}
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    auto kernel = inner().compile(spec);
    if (disturbed && spec.op == KernelOp::dense && spec.dtype == DType::f32) return std::make_unique<Disturbed>(std::move(kernel));
    return kernel;
  }
};

VerifyReport verified(const Step& step, int ranks, const LayoutRules& rules, const std::shared_ptr<const Dataset>& data) {
  const Mesh mesh = line_of(ranks);
  VerifyReport report;
  run_ranks_in_memory(ranks, [&](Runtime& rt) {
    const VerifyReport mine = verify(rt, {.step = &step, .mesh = &mesh, .rules = rules, .data = data});
    if (rt.rank() == 0) report = mine;
  });
  return report;
}

// A sample is [positions, hidden]; its labels are positions. The loss does not depend on what is added to all positions.
const Dim kBatch{"batch", 4}, kPositions{"pos", 4}, kHidden{"hid", 3};
Step invariant(Graph& g, const Optimizer& optimizer) {
  const Tensor x = g.input("image", {kBatch, kPositions, kHidden}), label = g.input("label", {kBatch, kHidden}, DType::i32);
  const Tensor h = add(x, g.parameter({kHidden}, {.name = "p"}));
  return training(mean(softmax_cross_entropy(h, label, kPositions)), optimizer);
}
class Positions final : public Dataset {
 public:
  Index samples() const override { return 8; }
  Index classes() const override { return kPositions.size; }
  std::vector<Index> sample_extents() const override { return {kPositions.size, kHidden.size}; }
  std::vector<Index> label_extents() const override { return {kHidden.size}; }
  std::int32_t label(Index) const override { return 0; }
  void read_labels(Index sample, const Box& box, std::span<std::int32_t> out) const override {
    for (std::size_t k = 0; k < out.size(); k++)
      out[k] = static_cast<std::int32_t>((sample + box[0].begin + static_cast<Index>(k)) % kPositions.size);
  }
  void read(Index sample, const Box& box, std::span<double> out) const override {
    std::size_t k = 0;
    for (Index i = box[0].begin; i < box[0].end; i++)
      for (Index j = box[1].begin; j < box[1].end; j++) out[k++] = std::sin(static_cast<double>(sample * 12 + i * 3 + j));
  }
};

}  // namespace

namespace motley {
// In this program devices are these.
std::unique_ptr<Backend> open_backend(const Device& device) {
  return std::make_unique<Cpu>(open_cpu(device));
}
}  // namespace motley

TEST_CASE("verify: gradients that are all 0 but for rounding", "[verify]") {
  const auto data = std::make_shared<Positions>();
  for (const Optimizer& optimizer :
       {Optimizer(Sgd{.learning_rate = 0.05}), Optimizer(Adam{.learning_rate = 0.01}), Optimizer(Lamb{.learning_rate = 0.01})})
    for (int ranks = 1; ranks <= 4; ranks++)
      for (const Dim& cut : {kBatch, kPositions, kHidden}) {
        Graph g;
        const LayoutRules rules = ranks == 1 ? LayoutRules{} : LayoutRules{{cut, "all", uneven(cut.size, std::min<int>(ranks, 3))}};
        LayoutRules all = rules;
        if (ranks == 4)
          for (Rule& rule : all.split) std::get<Sizes>(rule.parts).of.push_back(0);
        const VerifyReport report = verified(invariant(g, optimizer), ranks, all, data);
        INFO(optimizer.kind << " on " << ranks << " ranks, " << cut.name << " cut\n" << report.text());
        CHECK(report.ok());
        CHECK(report.f64.gradients < 1e-14);
      }
}

TEST_CASE("verify: a gradient that should be 0 and is not is a difference, and so is a step that it does not explain", "[verify]") {
  RunRecord truth;
  truth.losses = {1};
  truth.logits.values = {1};
  truth.gradients["p"].values = {1e-17, -2e-17};
  truth.weights_after["p"].values = {0.5, 0.5};
  RunRecord run = truth;
  run.gradients["p"].values = {-1e-17, 0};
  CHECK(difference(run, truth).gradients == Approx(1));  // nothing is known of what is added
  truth.summed["p"] = {0.5, true};
  CHECK(difference(run, truth).gradients == Approx(4e-17));
  run.gradients["p"].values[0] = 1e-9;  // far less than one missing part
  CHECK(difference(run, truth).gradients == Approx(2e-9));
  CHECK(!VerifyReport{difference(run, truth), {}}.ok());
  // Another parameter that is not a sum that cancels is compared with itself, whatever cancelled beside it.
  truth.gradients["q"].values = run.gradients["q"].values = {1e-12};
  truth.summed["q"] = {1.5e-12, true};
  run.gradients["p"] = truth.gradients["p"];
  run.gradients["q"].values = {1.1e-12};
  CHECK(difference(run, truth).gradients == Approx(0.1));
  truth.summed["q"].complete = false;  // an attention's: it may be one, too
  CHECK(difference(run, truth).gradients < 1e-12);
  // Adam makes steps of such a gradient, SGD does not.
  run.weights_after["p"].values[0] = 0.49;
  CHECK(difference(run, truth).weights == 0);
  truth.moves_by_rounding = false;
  CHECK(difference(run, truth).weights == Approx(0.02));
}

TEST_CASE("magnitudes: of a formula, by hand", "[verify]") {
  const Value a = operand(0), b = operand(1), c = operand(2);
  const auto of = [](const Value& value, const std::vector<bool>& positive, const std::vector<double>& operands) {
    return evaluate(magnitude_of(formula({value}), positive), operands).front();
  };
  const std::vector<bool> none(3, false);
  CHECK(of(a * b - c, none, {2, -3, 5}) == 11);
  CHECK(of(a - b, none, {2, 2, 0}) == 4);
  CHECK(of((a + b) / c, none, {2, -3, -2}) == 2.5);
  CHECK(of(select(a < 0.0, b - c, c), none, {-1, -3, 5}) == 8);
  CHECK(of(select(a < 0.0, b - c, c), none, {1, -3, -5}) == 5);
  CHECK(of(tanh(a) * b, none, {-1, -2, 0}) == Approx(2 * std::tanh(1.0)));
  CHECK(of(a * b, {true, false, false}, {2, -3, 0}) == 6);
}

TEST_CASE("magnitudes: no gradient is larger than what is added into it", "[verify]") {
  using namespace motley::law;
  int cancelled = 0;
  for (int number = 0; number < share_of(40); number++) {
    INFO("case " << number);
    Random random(static_cast<unsigned>(51000 + number));
    const Recipe plain = random_recipe(random);
    const Recipe recipe = number % 4 == 0   ? with_norms(plain, random)
                          : number % 4 == 1 ? with_attention(plain, random)
                          : number % 4 == 2 ? with_upsampling(with_groups(plain, random), random)
                                            : with_products(plain, random);
    const Network net = build(recipe);
    const Step step = training(net.loss, Sgd{});
    const Mesh one = mesh_of({{"one", 1}});
    const Plan plan = balance(step, one, {}, {}, {.dtype = DType::f64});
    const Magnitudes with = with_magnitudes(plan.data().passes);
    CHECK(with.sums_of.size() == step.parameters().size());
    // As with the first samples that verify takes: random ones.
    const Tensor& image = net.inputs.begin()->second;
    if (net.inputs.size() != 2) continue;
    std::vector<Index> extents;
    for (std::size_t d = 1; d < image.shape().rank(); d++) extents.push_back(image.shape()[d].size);
    if (net.inputs.rbegin()->second.shape().rank() != 1) continue;
    const Datasets data = synthetic(extents, recipe.classes, 4 * recipe.batch, 3);
    const VerifyInput in{.step = &step,
                         .mesh = &one,
                         .data = data.train,
                         .names = {.image = image.name(), .label = net.inputs.rbegin()->first},
                         .steps = 1};
    const auto backend = f64_backend();
    const auto transport = std::move(in_memory(1).front());
    const auto summed = summed_magnitudes(plan, *backend, in, [](const char*) {});
    const RunRecord run = run_steps(plan, *backend, *transport, in, [](const char*) {});
    for (const auto& [name, gradient] : run.gradients) {
      double most = 0;
      for (const double g : gradient.values) most = std::max(most, std::abs(g));
      INFO(name << " " << most << ", added " << summed.at(name).most);
      CHECK(most <= summed.at(name).most * (1 + 1e-12));
      cancelled += most < kCancelled * summed.at(name).most ? 1 : 0;
    }
  }
  CHECK(cancelled > when_all(2));  // biases before norms, of attention's keys
}

TEST_CASE("verify: a norm over values that are equal but for a device's rounding; a wrong kernel is found there too", "[verify]") {
  const Datasets data = synthetic({2, 1, 1}, kClasses, 8, 3);
  for (int number = 0; number < 6; number++)
    for (const bool wrong : {false, true}) {
      Graph g;
      const Dim batch{"batch", 2}, in{"in", 2}, rows{"rows", 1}, cols{"cols", 1}, f{"f", 1}, classes{"classes", kClasses};
      Tensor h = g.input("image", {batch, in, rows, cols});
      const Tensor label = g.input("label", {batch}, DType::i32);
      h = conv2d(h, {.out = f, .window = 1, .name = "c" + std::to_string(number)});
      if (number % 2 == 1) h = sigmoid(h);
      h = group_norm(upsample2d(h, {.scale = 3, .mode = Upsampling::bilinear}), {.groups = 3, .of = {"rows", 3}});
      const Tensor logits = dense(h, {.in = {f, {"rows", 3}, {"cols", 3}}, .out = {classes}});
      const Step step = training(mean(softmax_cross_entropy(logits, label, classes)), Sgd{.learning_rate = 0.1});
      disturbed = wrong;
      const VerifyReport report = verified(step, 1, {}, data.train);
      disturbed = false;
      INFO("case " << number << ", wrong " << wrong << "\n" << report.text());
      CHECK(report.ok() != wrong);
    }
}
