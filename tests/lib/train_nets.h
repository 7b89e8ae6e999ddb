// SPDX-License-Identifier: Apache-2.0
// A small network and small data for the tests of training.
#pragma once
#include <motley/data.h>
#include <motley/error.h>
#include <motley/ops.h>
#include <motley/plan.h>

#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>

#include "plan/plan_data.h"

namespace motley {

inline constexpr Index kClasses = 3;

// conv2d - max_pool2d - conv2d - dense over images [batch, 2, 6, 5].
struct SmallNet {
  Tensor logits{}, loss{};
};
inline SmallNet small_net(Graph& g, Index batch) {
  const Dim n{"batch", batch}, in{"in", 2}, rows{"rows", 6}, cols{"cols", 5}, f1{"f1", 5}, f2{"f2", 4},
      classes{"classes", kClasses};
  const Tensor image = g.input("image", {n, in, rows, cols});
  const Tensor label = g.input("label", {n}, DType::i32);
  Tensor h = relu(conv2d(image, {.out = f1, .window = 3, .padding = same}));
  h = max_pool2d(h, {.window = 2, .padding = same});
  h = relu(conv2d(h, {.out = f2, .window = 3, .padding = same}));
  const Tensor logits = dense(h, {.out = {classes}});
  return {logits, mean(softmax_cross_entropy(logits, label, classes))};
}

inline Step small_step(Index batch, const Sgd& sgd = {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3},
                       const TrainingOptions& options = {}) {
  Graph g;
  return training(small_net(g, batch).loss, sgd, options);
}

inline Step small_inference(Index batch) {
  Graph g;
  return inference({small_net(g, batch).logits});
}

inline Datasets small_data(Index samples) {
  return synthetic({2, 6, 5}, kClasses, samples, 3);
}

inline Mesh line_of(int ranks) {
  return Mesh({{"all", ranks}}, std::vector<Device>(static_cast<std::size_t>(ranks)));
}

// A cut that gives the first rank most, the second one, the rest what is left over.
inline Sizes uneven(Index size, int ranks) {
  Sizes out{std::vector<Index>(static_cast<std::size_t>(ranks), 0)};
  for (int r = 1; r < ranks && size > 1; r++, size--) out.of[static_cast<std::size_t>(r)] = 1;
  out.of[0] = size;
  return out;
}

inline LayoutRules small_rules(int ranks) {
  return ranks == 1 ? LayoutRules{} : LayoutRules{{"f1", "all", uneven(5, ranks)}, {"f2", "all", uneven(4, ranks)}};
}

inline std::map<std::string, ReadBox> feeds_of(const Batch& b) {
  return {{"image", b.images}, {"label", b.labels}};
}

inline Plan small_plan(int ranks, DType dtype, Index batch = 4,
                       const Sgd& sgd = {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3}) {
  return balance(small_step(batch, sgd), line_of(ranks), small_rules(ranks), {}, {.dtype = dtype});
}

// The small network's logits, on the parameters as `plan` stores them.
inline Plan evaluation_plan(const Plan& plan, Index batch = 4) {
  const int ranks = plan.mesh().ranks();
  LayoutRules rules = small_rules(ranks);
  rules.homes = plan.homes();
  return balance(small_inference(batch), line_of(ranks), rules, {}, {.dtype = plan.data().dtype});
}

// Labels as given; one sample may hold a value that is not a number.
class Fixed final : public Dataset {
 public:
  explicit Fixed(Index samples, Index bad = -1) : samples_(samples), bad_(bad) {}
  Index samples() const override { return samples_; }
  Index classes() const override { return kClasses; }
  std::vector<Index> sample_extents() const override { return {2, 6, 5}; }
  void read(Index sample, const Box& box, std::span<double> out) const override {
    std::size_t at = 0;
    for (Index c = box[0].begin; c < box[0].end; c++)
      for (Index h = box[1].begin; h < box[1].end; h++)
        for (Index w = box[2].begin; w < box[2].end; w++)
          out[at++] = sample == bad_ ? std::numeric_limits<double>::quiet_NaN()
                                     : static_cast<double>((sample * 7 + c * 5 + h * 3 + w) % 11) / 11;
  }
  std::int32_t label(Index sample) const override { return static_cast<std::int32_t>(sample % kClasses); }

 private:
  Index samples_, bad_;
};

// What it throws; Catch's assertions are one thread's.
template <class Work>
std::string thrown_by(Work&& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

// A folder of its own, gone at the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "motley-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace motley
