// SPDX-License-Identifier: Apache-2.0
// README's example. Run: mpiexec -n 2 build/examples/train_fashion_mnist, in the root of the repository (one rank per device
// of the mesh). A test keeps it equal to README's text.
#include <motley/motley.h>
using namespace motley;

int main(int argc, char** argv) {
  return run(argc, argv, [](Runtime& rt) {  // one rank, one device; an error on any rank stops all of them
    const Mesh mesh = Mesh::load("configs/meshes/fast_slow.json");

    const Dim batch{"batch", 128}, in{"in", 1}, rows{"rows", 28}, cols{"cols", 28};
    const Dim f1{"f1", 32}, f2{"f2", 64}, hidden{"hidden", 256}, classes{"classes", 10};

    Graph g;  // what to compute: no device, no rank, no cut
    const Tensor image = g.input("image", {batch, in, rows, cols});
    const Tensor label = g.input("label", {batch}, DType::i32);
    Tensor h = relu(conv2d(image, {.in = in, .out = f1, .over = {rows, cols}, .window = 5, .padding = same}));
    h = max_pool2d(h, {.over = {rows, cols}, .window = 2});
    h = relu(conv2d(h, {.in = f1, .out = f2, .over = {rows, cols}, .window = 5, .padding = same}));
    h = max_pool2d(h, {.over = {rows, cols}, .window = 2});
    h = relu(dense(h, {.in = {f2, rows, cols}, .out = {hidden}}));
    const Tensor logits = dense(h, {.in = {hidden}, .out = {classes}});
    const Tensor loss = mean(softmax_cross_entropy(logits, label, classes));
    const Step step = training(loss, Sgd{.learning_rate = 0.05, .momentum = 0.9});

    const LayoutRules rules{{f1, "all"}, {hidden, "all"}};                   // which dim is cut over which axis
    const Profile profile = measure(rt, mesh, step, rules, "profile.json");  // seconds per kernel and per link
    const Plan plan = balance(step, mesh, rules, profile);                   // who owns and computes what: a pure function
    rt.print(plan.table());

    Trainer trainer(rt, plan);
    for (const Batch& b : FashionMnist{}.train(batch, /*seed=*/1))  // a batch reads only the box this rank asks for
      rt.print(trainer.step({{image, b.images}, {label, b.labels}}).line());
  });
}
