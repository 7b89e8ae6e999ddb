// SPDX-License-Identifier: Apache-2.0
// Saves a training, goes on from it on other cuts, and predicts with the weights that it left. Run: mpiexec -n 2
// build/examples/keep DIRECTORY
#include <motley/motley.h>

#include <filesystem>
#include <string>
using namespace motley;

namespace {

const Dim batch{"batch", 32}, in{"in", 1}, rows{"rows", 12}, cols{"cols", 12}, filters{"filters", 8}, classes{"classes", 4};

struct Network {
  Graph graph{};
  Tensor image{}, label{}, logits{}, loss{};
  Network() {
    image = graph.input("image", {batch, in, rows, cols});
    label = graph.input("label", {batch}, DType::i32);
    const Tensor h = relu(conv2d(image, {.in = in, .out = filters, .over = {rows, cols}, .window = 3}));
    logits = dense(h, {.out = {classes}, .name = "logits"});
    loss = mean(softmax_cross_entropy(logits, label, classes));
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv, [&](Runtime& rt) {
    const std::filesystem::path folder = argc > 1 ? argv[1] : "kept";
    const Mesh mesh({{"all", rt.ranks()}}, std::vector<Device>(static_cast<std::size_t>(rt.ranks())));
    const Datasets data = synthetic({1, 12, 12}, 4, 320, /*seed=*/1);
    const Network net;
    const Step step = training(net.loss, Adam{.learning_rate = 0.01});
    const Order order(data.train->samples(), batch.size, /*seed=*/1);
    auto train = [&](Trainer& trainer, Index steps) {
      double loss = 0;
      while (trainer.steps() < steps) {
        const Index next = trainer.steps();
        const Batch b = batch_of(data.train, order.batch_of(next), next, next / order.steps_per_epoch());
        loss = trainer.step({{net.image, b.images}, {net.label, b.labels}}).loss;
      }
      return loss;
    };

    // Ten steps, saved; ten more.
    Trainer first(rt, balance(step, mesh, {{filters, "all", CutBy::even}}, {}));
    train(first, 10);
    first.save(folder / "step-10");
    const double loss = train(first, 20);

    // The same ten on other cuts: parameters, Adam's means and squares and the number of steps come from the checkpoint.
    Trainer second(rt, balance(step, mesh, {{"batch", "all", CutBy::even}}, {}));
    second.load(folder / "step-10");
    rt.print("step 20: loss " + std::to_string(loss) + ", from the checkpoint " + std::to_string(train(second, 20)));

    // The weights alone, in a file that other frameworks read; and a prediction with them.
    save_weights(rt, second.state(), folder / "weights.safetensors");
    const Plan plan = balance(inference({net.logits}), mesh, {}, {});
    State state(plan, rt.rank(), /*seed=*/1, rt.backend(mesh).device_memory());
    load_weights(rt, state, folder / "weights.safetensors");
    Predictor predictor(rt, plan, state);
    rt.print("accuracy " + std::to_string(*evaluate(rt, predictor, data.test).accuracy));
  });
}
