// SPDX-License-Identifier: Apache-2.0
// Predictions and evaluations, on ranks that are threads.
#include <motley/error.h>
#include <motley/predictor.h>
#include <motley/trainer.h>
#include <motley/weights.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <mutex>
#include <optional>

#include "tests/lib/train_nets.h"
#include "train/predict.h"
#include "train/score.h"

using namespace motley;

TEST_CASE("score: by hand, ties and padding", "[train]") {
  Score score;
  score.add({0, 0, 0, /**/ 1, 2, 0, /**/ 9, 9, 9}, {0, 2, kNoSample}, 3);
  CHECK(score.rows == 2);
  CHECK(score.right == 1);  // the first of equal logits
  CHECK(score.loss == Approx(std::log(3.0) + std::log(std::exp(1.0) + std::exp(2.0) + 1)));
}

TEST_CASE("score: several rows a sample, classes not last", "[train]") {
  Score score;  // [2 samples, 2, 3 classes, 2]
  score.add({5, 0, 0, 5, 0, 0, /**/ 0, 0, 9, 0, 0, 9, /**/ 1, 1, 1, 1, 1, 1, /**/ 1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, -1, 7, -1, 7}, 3,
            2, 7);
  CHECK(score.rows == 4);
  CHECK(score.right == 1);  // of {5 0 0} {0 5 0} {0 9 0} {0 0 9}
}

TEST_CASE("predictor: what it took is given back, what is wrong is refused", "[train]") {
  const Plan plan = small_plan(1, DType::f32), evaluation = evaluation_plan(plan);
  auto shared = [] {  // memory of transports that this process maps
    std::ifstream maps("/proc/self/maps");
    int found = 0;
    for (std::string line; std::getline(maps, line);) found += line.find("memfd:motley") != std::string::npos;
    return found;
  };
  run_ranks_in_memory(1, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    const int before = shared();
    {
      Predictor predictor(rt, evaluation, trainer.state());
      CHECK(shared() == before + 1);
      CHECK_THROWS_WITH(predictor.run_named({}), Catch::Contains("\"image\" is not fed"));
      CHECK_THROWS_WITH(predictor.get("relu_2"), Catch::Contains("\"relu_2\" is not an output of this step"));
    }
    CHECK(shared() == before);
    const Batch b = batch_of(small_data(4).train, {0, 1, 2, 3}, 0, 0);
    CHECK_THROWS_WITH(trainer.step_named({{"image", b.images}}), Catch::Contains("\"label\" is not fed"));
    CHECK_THROWS_WITH(trainer.step_named({{"image", b.images}, {"label", ReadBox()}}),
                      Catch::Contains("\"label\" is fed by an empty"));
    CHECK(trainer.step_named(feeds_of(b)).step == 1);  // whose figures are on their way
    for (int k = 0; k < 3; k++) {
      Predictor predictor(rt, evaluation, trainer.state());
      CHECK_THROWS_WITH(predictor.get("dense_6"), Catch::Contains("has no values before the first run()"));
      predictor.run_named({{"image", b.images}});
    }
    CHECK(shared() == before);
    CHECK_THROWS_WITH(Predictor(rt, plan, trainer.state()), Catch::Contains("this one trains; run it with a Trainer"));
    CHECK_THROWS_WITH(Trainer(rt, evaluation), Catch::Contains("this one is inference; run it with a Predictor"));
  });
}

TEST_CASE("predictor: whatever a feed throws is all ranks' error", "[train]") {
  const Plan plan = evaluation_plan(small_plan(3, DType::f64));
  const Batch b = batch_of(std::make_shared<Fixed>(4), {0, 1, 2, 3}, 0, 0);
  std::mutex lock;
  run_ranks_in_memory(3, [&](Runtime& rt) {
    State state(plan, rt.rank(), 1);
    Predictor predictor(rt, plan, state);
    const ReadBox bad = [](const Box&, std::span<std::byte>) { throw std::runtime_error("the disk is gone"); };
    const std::string text = thrown_by([&] { predictor.run_named({{"image", rt.rank() == 1 ? bad : b.images}}); });
    using Feeds = std::map<std::string, ReadBox>;
    const std::string missing = thrown_by([&] { predictor.run_named(rt.rank() == 1 ? Feeds{} : Feeds{{"image", b.images}}); });
    predictor.run_named({{"image", b.images}});
    const std::size_t values = predictor.get("dense_6").size();
    const std::lock_guard hold(lock);
    CHECK(text == "the disk is gone");
    CHECK(missing == "input \"image\" is not fed");
    CHECK(values == 4 * kClasses);
  });
}

TEST_CASE("predictor, evaluation: what differs on one rank is refused on all", "[train]") {
  const Plan trained = small_plan(2, DType::f64), plan = evaluation_plan(trained);
  std::mutex lock;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    State state(plan, rt.rank(), 1);
    const bool other = rt.rank() == 1;
    std::vector<std::string> said;
    const auto refused = [&](auto&& work) { said.push_back(thrown_by(work)); };
    refused([&] { Predictor(rt, plan, state, other ? PredictedWeights::current : PredictedWeights::averaged); });
    refused([&] { Predictor(rt, other ? trained : plan, state); });
    Predictor predictor(rt, plan, state);
    const std::shared_ptr<const Dataset> data = std::make_shared<Fixed>(6), more = std::make_shared<Fixed>(9);
    const auto evaluated = [&](const std::shared_ptr<const Dataset>& its, const EvaluateOptions& options) {
      refused([&] { evaluate(rt, predictor, other ? its : data, other ? options : EvaluateOptions{}); });
    };
    evaluated(data, {.ignored = 1});
    evaluated(data, {.label_smoothing = 0.5});
    evaluated(data, {.over = "rows"});
    evaluated(data, {.loss = LossKind::mean_squared_error});
    evaluated(more, {});
    evaluated(nullptr, {});
    evaluated(data, {});
    const std::lock_guard hold(lock);
    CHECK(said[0] == "rank 1 predicts with current weights, rank 0 with averaged weights; give every rank the same");
    CHECK_THAT(said[1], Catch::Contains("this one trains"));
    CHECK(said[2] == "rank 1 evaluates with the ignored label 1, rank 0 with no ignored label; give every rank the same");
    CHECK_THAT(said[3], Catch::Contains("rank 1 evaluates with label_smoothing 0.5"));
    CHECK_THAT(said[4], Catch::Contains("not \"rows\""));
    CHECK(said[5] != "nothing");
    CHECK(said[6] == "rank 1 evaluates with 9 samples, rank 0 with 6 samples; give every rank the same");
    CHECK_THAT(said[7], Catch::Contains("no samples to evaluate on"));
    CHECK(said[8] == "nothing");
  });
}

TEST_CASE("predictors after a step, on ranks that send each other figures, give back what they took", "[train]") {
  const Plan plan = small_plan(3, DType::f32), evaluation = evaluation_plan(plan);
  std::vector<int> maps(2);
  run_ranks_in_memory(3, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    const Batch b = batch_of(small_data(4).train, {0, 1, 2, 3}, 0, 0);
    auto count = [&](std::size_t at) {
      static_cast<void>(rt.transport().gather_all({}));
      std::ifstream file("/proc/self/maps");
      for (std::string line; rt.rank() == 0 && std::getline(file, line);)
        maps[at] += line.find("memfd:motley") != std::string::npos;
      static_cast<void>(rt.transport().gather_all({}));
    };
    trainer.step_named(feeds_of(b));
    count(0);
    for (int k = 0; k < 5; k++) Predictor(rt, evaluation, trainer.state()).run_named({{"image", b.images}});
    count(1);
  });
  CHECK(maps[1] == maps[0]);
}

TEST_CASE("evaluation: what is wrong with samples is said", "[train]") {
  const Plan plan = evaluation_plan(small_plan(1, DType::f64));
  struct Other final : Dataset {
    std::int32_t wrong = 0;
    std::vector<Index> extents{2, 6, 5};
    Index samples() const override { return 3; }
    Index classes() const override { return kClasses; }
    std::vector<Index> sample_extents() const override { return extents; }
    void read(Index, const Box&, std::span<double> out) const override { std::fill(out.begin(), out.end(), 0.0); }
    std::int32_t label(Index sample) const override { return sample == 1 ? wrong : 0; }
    std::vector<Index> label_extents() const override { return real ? std::vector<Index>{kClasses} : std::vector<Index>{}; }
    void read_targets(Index sample, const Box&, std::span<double> out) const override {
      std::fill(out.begin(), out.end(), sample == 1 ? *real : 0.0);
    }
    std::optional<double> real{};
  };
  run_ranks_in_memory(1, [&](Runtime& rt) {
    State state(plan, 0, 1);
    Predictor predictor(rt, plan, state);
    const auto data = std::make_shared<Other>();
    CHECK(evaluate(rt, predictor, data).samples == 3);
    for (const std::int32_t label : {-1, 3}) {
      data->wrong = label;
      CHECK_THROWS_WITH(evaluate(rt, predictor, data), Catch::Contains("sample 1 has the label " + std::to_string(label)));
    }
    CHECK_THROWS_WITH(evaluate(rt, predictor, data, {.label_smoothing = 3}), Catch::Contains("label_smoothing: expected"));
    data->real = 0.5;
    CHECK(std::isfinite(evaluate(rt, predictor, data, {.loss = LossKind::mean_squared_error}).mean_loss));
    data->real = std::nan("");
    CHECK_THROWS_WITH(evaluate(rt, predictor, data, {.loss = LossKind::mean_squared_error}),
                      Catch::Contains("sample 1 has the label nan; expected finite numbers"));
    data->real.reset();
    data->extents = {2, 6, 6};
    CHECK_THROWS_WITH(evaluate(rt, predictor, data), Catch::Contains("a sample has the sizes [2, 6, 6], \"image\" has [2, 6, 5]"));
    CHECK_THROWS_WITH(evaluate(rt, predictor, nullptr), Catch::Contains("no samples to evaluate on"));
  });
}

TEST_CASE("weights: a running variance below 0 is refused, whatever file it is in", "[train]") {
  const Dim n{"batch", 4}, in{"in", 2}, rows{"rows", 6}, cols{"cols", 5}, f{"f", 3}, classes{"classes", kClasses};
  Graph g;
  const Tensor image = g.input("image", {n, in, rows, cols}), label = g.input("label", {n}, DType::i32);
  const Tensor h = relu(batch_norm(conv2d(image, {.in = in, .out = f, .over = {rows, cols}, .window = 3}), {.name = "norm"}));
  const Step step = training(mean(softmax_cross_entropy(dense(h, {.out = {classes}}), label, classes)), Sgd{.momentum = 0.9});
  const Plan plan = balance(step, line_of(2), {{f, "all", Sizes{{2, 1}}}}, {}, {.dtype = DType::f32});
  const Folder folder;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    trainer.step_named(feeds_of(batch_of(small_data(4).train, {0, 1, 2, 3}, 0, 0)));
    const std::string name = "norm.running_var";
    const auto saved = [&](double last) {
      trainer.state().set(name, {1, 0, last});
      for (const char* file : {"w.safetensors", "w.npz"}) save_weights(rt, trainer.state(), folder.path() / file);
      trainer.save(folder.path() / "checkpoint");
      trainer.state().set(name, {2, 3, 4});
    };
    const auto load_each = [&](auto&& verdict) {
      for (const char* file : {"w.safetensors", "w.npz", "checkpoint"})
        verdict(file, thrown_by([&] { load_weights(rt, trainer.state(), folder.path() / file); }));
      verdict("checkpoint", thrown_by([&] { trainer.load(folder.path() / "checkpoint"); }));
    };
    std::vector<std::string> wrong;
    saved(-0.25);
    load_each([&](const std::string& file, const std::string& text) {
      if (text.find(file + ": \"norm.running_var\" has a value, -0.25, that is no variance; expected numbers from 0 on") ==
          std::string::npos)
        wrong.push_back(file + ": " + text);
    });
    const std::vector<double> kept = trainer.state().get(rt.transport(), name);  // nothing was overwritten
    saved(0.25);
    load_each([&](const std::string& file, const std::string& text) {
      if (text != "nothing") wrong.push_back(file + ": " + text);
    });
    const std::vector<double> loaded = trainer.state().get(rt.transport(), name);
    if (rt.rank() != 0) return;
    CHECK(wrong == std::vector<std::string>{});
    CHECK(kept == std::vector<double>{2, 3, 4});
    CHECK(loaded == std::vector<double>{1, 0, 0.25});
  });
}

TEST_CASE("evaluation: a short last batch, every layout the same", "[train]") {
  const auto data = std::make_shared<Fixed>(10);  // batches of 4: 4, 4, 2
  Evaluation one, whole;
  {  // one batch of all ten, nothing padded
    const Plan plan = evaluation_plan(small_plan(1, DType::f64, 10), 10);
    run_ranks_in_memory(1, [&](Runtime& rt) {
      State state(plan, rt.rank(), 2);
      Predictor predictor(rt, plan, state);
      whole = evaluate(rt, predictor, data);
    });
  }
  for (int ranks = 1; ranks <= 4; ranks++) {
    const Plan plan = small_plan(ranks, DType::f64);
    run_ranks_in_memory(ranks, [&](Runtime& rt) {
      Trainer trainer(rt, plan, {.seed = 2});
      Predictor predictor(rt, evaluation_plan(plan), trainer.state());
      const Evaluation e = evaluate(rt, predictor, data);
      if (rt.rank() == ranks - 1) one = e;
    });
    CHECK(one.samples == 10);
    CHECK(one.accuracy == whole.accuracy);
    CHECK(one.mean_loss == Approx(whole.mean_loss).epsilon(1e-12));
  }
}

TEST_CASE("a network that compares its batch's samples takes no batch that is filled up", "[train]") {
  const Dim n{"batch", 4}, in{"in", 2}, rows{"rows", 6}, cols{"cols", 5}, classes{"classes", kClasses};
  Graph g;
  const Tensor image = g.input("image", {n, in, rows, cols});
  const Tensor plain = dense(image, {.out = {classes}, .name = "plain"});
  for (const auto& [logits, refused] :
       {std::pair{plain, false},
        {softmax(plain, {.over = n, .name = "compares"}), true},
        {max_pool2d(image, {.over = {n, cols}, .window = {3, 5}, .stride = 1, .padding = same, .name = "slides"}), true}}) {
    const Tensor out = logits.shape().has("classes") ? logits : dense(logits, {.out = {classes}, .name = "after"});
    const Plan plan = balance(inference({out}), line_of(2), {{"classes", "all", CutBy::even}}, {}, {.dtype = DType::f64});
    const std::string layer = logits.name();
    std::string evaluated, predicted;
    run_ranks_in_memory(2, [&, refuses = refused](Runtime& rt) {
      State state(plan, rt.rank(), 2);
      Predictor predictor(rt, plan, state);
      const auto attempt = [&](Index samples) {
        const auto data = std::make_shared<Fixed>(samples);
        const std::string one = thrown_by([&] { static_cast<void>(evaluate(rt, predictor, data)); });
        const std::string two = thrown_by([&] { static_cast<void>(predict(rt, predictor, data, "image")); });
        if (rt.rank() == 0) evaluated += one, predicted += two;
      };
      attempt(8);
      if (refuses) attempt(6);
    });
    INFO(layer);
    CHECK(evaluated == predicted);
    if (refused)
      CHECK_THAT(evaluated, Catch::StartsWith("nothing\"" + layer +
                                              "\" computes a sample's values from the other samples of its batch too, "
                                              "and the last batch of 6 samples, 2 of them, would be filled up"));
    else
      CHECK(evaluated == "nothing");
  }
}

TEST_CASE("evaluation: the logits' samples in any place among their dims", "[train]") {
  const auto data = small_data(10).test;
  const Dim n{"batch", 4}, in{"in", 2}, rows{"rows", 6}, cols{"cols", 5}, classes{"classes", kClasses};
  std::vector<Evaluation> found;
  for (const std::vector<Dim>& order : {std::vector<Dim>{n, rows, in, cols}, {rows, n, in, cols}}) {
    Graph g;
    const Tensor label = g.input("label", {n}, DType::i32);
    const Tensor image = g.input("image", {n, in, rows, cols});
    const Tensor logits = dense(transpose(image, order), {.in = {in, cols}, .out = {classes}, .name = "out"});
    const Plan plan = balance(inference({logits}), line_of(2), {{"classes", "all", CutBy::even}}, {}, {.dtype = DType::f64});
    run_ranks_in_memory(2, [&](Runtime& rt) {
      State state(plan, rt.rank(), 2);
      Predictor predictor(rt, plan, state);
      CHECK_THROWS_WITH(evaluate(rt, predictor, data, {.over = "batch"}), Catch::Contains("counts the classes; name it"));
      CHECK_THROWS_WITH(evaluate(rt, predictor, data), Catch::Contains("counts the classes; name it"));
      const Evaluation e = evaluate(rt, predictor, data, {.over = "classes"});
      if (rt.rank() == 0) found.push_back(e);
    });
  }
  CHECK(found[0].samples == data->samples());
  CHECK(found[1].samples == data->samples());
  CHECK(found[0].accuracy == found[1].accuracy);
  CHECK(found[0].mean_loss == Approx(found[1].mean_loss).epsilon(1e-12));
}
