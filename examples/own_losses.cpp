// SPDX-License-Identifier: Apache-2.0
// Losses of one's own: a Dice loss for masks, a focal loss for rare classes, and an activation by a formula. Run: mpiexec -n 2
// build/examples/own_losses
#include <motley/motley.h>

#include <cmath>
#include <memory>
#include <string>
using namespace motley;

namespace {

const Dim batch{"batch", 16}, in{"in", 1}, rows{"rows", 8}, cols{"cols", 8}, filters{"filters", 8}, classes{"classes", 3};

// 1 - 2 |p y| / (|p| + |y|) (Milletari et al., "V-Net", 2016), over all pixels of the batch.
Tensor dice_loss(const Tensor& logits, const Tensor& mask) {
  const Tensor p = sigmoid(logits);
  return 1.0 - (2.0 * sum(p * mask) + 1.0) / (sum(p) + sum(mask) + 1.0);
}
// Mean of -(1 - p)^2 log(p) for the probability p of the label's class (Lin et al., "Focal loss", 2017).
Tensor focal_loss(const Tensor& logits, const Tensor& label, const Dim& over) {
  return mean(map("pow(1 - exp(-t0), 2) * t0", {softmax_cross_entropy(logits, label, over)}));
}

// Pictures of a bright square in noise. Labels: its pixels, or in which third of the rows it begins.
class Squares final : public Dataset {
 public:
  explicit Squares(bool masks) : masks_(masks) {}
  Index samples() const override { return 256; }
  Index classes() const override { return masks_ ? 0 : 3; }
  std::vector<Index> sample_extents() const override { return {1, rows.size, cols.size}; }
  void read(Index sample, const Box& box, std::span<double> out) const override {
    std::size_t k = 0;
    for (Index r = box[1].begin; r < box[1].end; r++)
      for (Index c = box[2].begin; c < box[2].end; c++) out[k++] = 0.6 * is_in(sample, r, c) + 0.4 * noise(sample, r, c);
  }
  std::int32_t label(Index sample) const override { return static_cast<std::int32_t>(top(sample) / 2); }
  DType label_dtype() const override { return masks_ ? DType::f32 : DType::i32; }
  std::vector<Index> label_extents() const override {
    return masks_ ? std::vector<Index>{rows.size, cols.size} : std::vector<Index>{};
  }
  void read_targets(Index sample, const Box& box, std::span<double> out) const override {
    std::size_t k = 0;
    for (Index r = box[0].begin; r < box[0].end; r++)
      for (Index c = box[1].begin; c < box[1].end; c++) out[k++] = is_in(sample, r, c);
  }

 private:
  static Index top(Index sample) { return sample * 7 % 6; }
  static double is_in(Index sample, Index r, Index c) {
    const Index left = sample * 5 % 6;
    return r >= top(sample) && r < top(sample) + 3 && c >= left && c < left + 3 ? 1 : 0;
  }
  static double noise(Index sample, Index r, Index c) {
    const double x = 43758.5453 * std::sin(static_cast<double>(sample * 64 + r * 8 + c) * 12.9898);
    return x - std::floor(x);
  }
  bool masks_;
};

struct Network {
  Graph graph{};
  Tensor image{}, features{};
  Network() {
    image = graph.input("image", {batch, in, rows, cols});
    const Tensor h = conv2d(image, {.in = in, .out = filters, .over = {rows, cols}, .window = 3, .padding = same});
    features = map("t0 * tanh(softplus(t0))", {h});
  }
};

// The first and the last step's loss.
std::string train(Runtime& rt, const Network& net, const Tensor& label, const Tensor& loss, bool masks) {
  const Mesh mesh({{"all", rt.ranks()}}, std::vector<Device>(static_cast<std::size_t>(rt.ranks())));
  const Step step = training(loss, Adam{.learning_rate = 0.02});
  Trainer trainer(rt, balance(step, mesh, {{batch, "all", CutBy::even}}, {}));
  double first = 0, last = 0;
  for (std::uint64_t epoch = 1; epoch <= 4; epoch++)
    for (const Batch& b : Epoch(std::make_shared<Squares>(masks), batch.size, epoch)) {
      last = trainer.step({{net.image, b.images}, {label, b.labels}}).loss;
      if (trainer.steps() == 1) first = last;
    }
  return std::to_string(first) + " to " + std::to_string(last);
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc, argv, [](Runtime& rt) {
    Network masks;
    const Tensor pixels = conv2d(masks.features, {.out = {"one", 1}, .over = {rows, cols}, .window = 3, .padding = same});
    const Tensor each = sum(pixels, {{"one", 1}});  // without the dim of one channel
    const Tensor mask = masks.graph.input("mask", each.shape());
    rt.print("Dice loss " + train(rt, masks, mask, dice_loss(each, mask), true));

    Network thirds;
    const Tensor logits = dense(thirds.features, {.out = {classes}});
    const Tensor label = thirds.graph.input("label", {batch}, DType::i32);
    rt.print("focal loss " + train(rt, thirds, label, focal_loss(logits, label, classes), false));
  });
}
