// SPDX-License-Identifier: Apache-2.0
// Trains, evaluates and predicts: three batches, two plans, one set of parameters. Run: mpiexec -n 2 build/examples/evaluate
#include <motley/motley.h>

#include <algorithm>
#include <string>
using namespace motley;

namespace {

const Dim in{"in", 1}, rows{"rows", 28}, cols{"cols", 28}, filters{"filters", 8}, classes{"classes", 10};

struct Network {
  Graph graph{};
  Tensor image{}, logits{};
  explicit Network(Index batch) {
    image = graph.input("image", {{"batch", batch}, in, rows, cols});
    const Tensor h = relu(conv2d(image, {.in = in, .out = filters, .over = {rows, cols}, .window = 5, .stride = 2}));
    logits = dense(h, {.out = {classes}, .name = "logits"});
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv, [](Runtime& rt) {
    const Mesh mesh({{"all", rt.ranks()}}, std::vector<Device>(static_cast<std::size_t>(rt.ranks())));
    const Datasets data = load_fashion_mnist();

    Network net(64);
    const Tensor label = net.graph.input("label", {{"batch", 64}}, DType::i32);
    const Tensor loss = mean(softmax_cross_entropy(net.logits, label, classes));
    const LayoutRules rules{{filters, "all", CutBy::even}};
    const Plan plan = balance(training(loss, Sgd{.learning_rate = 0.1}), mesh, rules, {});
    Trainer trainer(rt, plan);
    Index steps = 0;
    for (const Batch& b : Epoch(data.train, 64, /*seed=*/1)) {
      if (steps++ == 200) break;
      trainer.step({{net.image, b.images}, {label, b.labels}});
    }

    // Another batch, cut along the batch; parameters stay where the training stores them.
    const Network large(500);
    LayoutRules by_batch{{"batch", "all", CutBy::even}};
    by_batch.homes = plan.homes();
    Predictor predictor(rt, balance(inference({large.logits}), mesh, by_batch, {}), trainer.state());
    const Evaluation test = evaluate(rt, predictor, data.test);
    rt.print("accuracy " + std::to_string(*test.accuracy) + " on " + std::to_string(test.samples) + " samples\n");

    const Batch first = *Epoch(data.test, 500, /*seed=*/1).begin();
    predictor.run({{large.image, first.images}});
    const std::vector<double> logits = predictor.get(large.logits);  // [500, 10] on every rank
    rt.print("the first sample's class: " + std::to_string(std::max_element(logits.begin(), logits.begin() + 10) - logits.begin()) +
             "\n");
  });
}
