// SPDX-License-Identifier: Apache-2.0
// A learning rate of one's own: warm restarts (Loshchilov and Hutter, SGDR), lower after each evaluation without a gain. Run:
// mpiexec -n 2 build/examples/own_rate
#include <motley/motley.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
using namespace motley;

int main(int argc, char** argv) {
  return run(argc, argv, [](Runtime& rt) {
    const Mesh mesh({{"all", rt.ranks()}}, std::vector<Device>(static_cast<std::size_t>(rt.ranks())));
    const Datasets data = synthetic({1, 12, 12}, 4, 320, /*seed=*/1);
    const Dim batch{"batch", 32}, in{"in", 1}, rows{"rows", 12}, cols{"cols", 12}, filters{"filters", 8}, classes{"classes", 4};

    Graph g;
    const Tensor image = g.input("image", {batch, in, rows, cols}), label = g.input("label", {batch}, DType::i32);
    const Tensor h = relu(conv2d(image, {.in = in, .out = filters, .over = {rows, cols}, .window = 3}));
    const Tensor logits = dense(h, {.out = {classes}});
    const Tensor loss = mean(softmax_cross_entropy(logits, label, classes));
    const Plan plan = balance(training(loss, Sgd{.momentum = 0.9}), mesh, {{filters, "all", CutBy::even}}, {});
    Trainer trainer(rt, plan);
    LayoutRules rules{{filters, "all", CutBy::even}};
    rules.homes = plan.homes();
    Predictor predictor(rt, balance(inference({logits}), mesh, rules, {}), trainer.state());

    const Order order(data.train->samples(), batch.size, /*seed=*/1);
    double highest = 0.1, best = std::numeric_limits<double>::infinity();
    for (Index s = 0; s < 60; s++) {
      const Index cycle = 20;  // steps from one restart to the next
      const double done = static_cast<double>(s % cycle) / static_cast<double>(cycle);
      trainer.set_learning_rate(highest * (1 + std::cos(std::numbers::pi * done)) / 2);  // the same on every rank
      const Batch b = batch_of(data.train, order.batch_of(s), s, s / order.steps_per_epoch());
      const StepReport report = trainer.step({{image, b.images}, {label, b.labels}});
      if ((s + 1) % order.steps_per_epoch() != 0) continue;
      const Evaluation test = evaluate(rt, predictor, data.test);
      rt.print("step " + std::to_string(report.step) + ": learning rate " + std::to_string(report.learning_rate) + ", test loss " +
               std::to_string(test.mean_loss) + "\n");
      if (test.mean_loss >= best) highest /= 2;
      best = std::min(best, test.mean_loss);
    }
  });
}
