// SPDX-License-Identifier: Apache-2.0
// The trainer, on ranks that are threads.
#include <fmt/format.h>
#include <motley/error.h>
#include <motley/trainer.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <mutex>

#include "plan/plan_data.h"
#include "run/gather.h"
#include "run/not_finite.h"
#include "tests/lib/train_nets.h"
#include "tests/support/each_index.h"
#include "tests/support/synthetic_profile.h"
#include "train/gains.h"

using namespace motley;

namespace {

std::vector<double> losses(int ranks, DType dtype, int steps) {
  const Plan plan = small_plan(ranks, dtype);
  const Datasets data = small_data(40);
  std::vector<double> out;
  run_ranks_in_memory(ranks, [&](Runtime& rt) {
    Trainer trainer(rt, plan, {.seed = 5});
    Order order(40, 4, 1);
    for (int s = 0; s < steps; s++) {
      const StepReport report = trainer.step_named(feeds_of(batch_of(data.train, order.batch_of(s), s, 0)));
      Index planned = 0;
      for (const PredictedRank& r : plan.data().predicted) planned += r.bytes;
      if (trainer.figures().bytes_received != planned) throw InternalError("counted other bytes than planned");
      if (rt.rank() == 0) out.push_back(report.loss);
    }
  });
  return out;
}

std::map<std::string, WholeTensor> weights(Runtime& rt, const Plan& plan, Trainer& trainer) {
  std::map<std::string, WholeTensor> out;
  for (int p : plan.data().passes.parameters) {
    WholeTensor w = gather_parameter(plan, trainer.program(), trainer.executor(), rt.transport(), p, Part::value);
    out.emplace(w.name, std::move(w));
  }
  return out;
}

}  // namespace

TEST_CASE("trainer: every step's loss under a layout is the unsharded one", "[train]") {
  const auto truth = losses(1, DType::f64, 6);
  REQUIRE(truth.size() == 6);
  CHECK(truth.back() != truth.front());
  for (int ranks = 2; ranks <= 4; ranks++) {
    const auto cut = losses(ranks, DType::f64, 6);
    for (std::size_t s = 0; s < truth.size(); s++) CHECK(cut[s] == Approx(truth[s]).epsilon(1e-12));
  }
  const auto f32 = losses(2, DType::f32, 6);
  for (std::size_t s = 0; s < truth.size(); s++) CHECK(f32[s] == Approx(truth[s]).epsilon(1e-5));
}

TEST_CASE("trainer: a loss that is not finite stops all ranks before the update", "[train]") {
  const Plan plan = small_plan(3, DType::f64);
  int refused = 0;
  std::mutex lock;
  run_ranks_in_memory(3, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    const auto data = std::make_shared<Fixed>(8, 6);
    trainer.step_named(feeds_of(batch_of(data, {0, 1, 2, 3}, 0, 0)));
    const auto before = weights(rt, plan, trainer);
    std::string text;
    try {
      trainer.step_named(feeds_of(batch_of(data, {4, 5, 6, 7}, 1, 0)));
    } catch (const LossNotFinite& e) {
      text = e.what();
      const std::lock_guard hold(lock);
      refused += e.code() == Exit::internal ? 1 : 0;
    }
    const auto after = weights(rt, plan, trainer);
    const std::lock_guard hold(lock);
    CHECK(text.find("loss not finite at step 2; first bad tensor: \"image\"") == 0);
    for (const auto& [name, w] : before) CHECK(after.at(name).values == w.values);
  });
  CHECK(refused == 3);
}

// Users' data sets throw what the standard library throws, on one rank alone.
TEST_CASE("trainer: whatever a feed throws is all ranks' error, before the update", "[train]") {
  const Plan plan = small_plan(3, DType::f64);
  const auto data = std::make_shared<Fixed>(8);
  std::mutex lock;
  run_ranks_in_memory(3, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    const auto good = feeds_of(batch_of(data, {0, 1, 2, 3}, 0, 0));
    trainer.step_named(good);
    const auto before = weights(rt, plan, trainer);
    for (const bool standard : {true, false}) {
      auto bad = good;
      if (rt.rank() == 1)
        bad["label"] = [standard](const Box&, std::span<std::byte>) {
          if (standard) throw std::runtime_error("the disk is gone");
          throw 7;
        };
      const std::string text = thrown_by([&] { trainer.step_named(bad); });
      const std::lock_guard hold(lock);
      CHECK(text == (standard ? "the disk is gone" : "something other than a std::exception was thrown"));
      CHECK(trainer.refused());
    }
    const auto after = weights(rt, plan, trainer);
    const Index step = trainer.step_named(good).step;
    const std::lock_guard hold(lock);
    for (const auto& [name, w] : before) CHECK(after.at(name).values == w.values);
    CHECK(step == 2);
  });
}

// Gradients that micro-batches have added up before a step is refused must not be part of the next one.
TEST_CASE("trainer: after a refused step with micro-batches training goes on as without that step", "[train]") {
  const Folder folder;
  const auto start = folder.path() / "start";
  for (int ranks = 1; ranks <= 3; ranks++) {
    const Plan plan = balance(small_step(4, {.learning_rate = 0.05, .momentum = 0.9}, {.accumulate = 2}), line_of(ranks),
                              small_rules(ranks), {}, {.dtype = DType::f64});
    const auto data = std::make_shared<Fixed>(8, 7);
    std::mutex lock;
    run_ranks_in_memory(ranks, [&](Runtime& rt) {
      const auto good = feeds_of(batch_of(data, {0, 1, 2, 3}, 0, 0)), not_finite = feeds_of(batch_of(data, {4, 5, 6, 7}, 1, 0));
      auto unread = good;
      if (rt.rank() == ranks - 1) unread["label"] = [](const Box&, std::span<std::byte>) { throw UserError("the disk is gone"); };
      Trainer undisturbed(rt, plan), trainer(rt, plan);
      std::vector<double> expected, losses;
      std::vector<std::string> refused;
      for (int s = 0; s < 3; s++) expected.push_back(undisturbed.step_named(good).loss);
      trainer.save(start);
      for (int s = 0; s < 4; s++) {
        if (s > 0) refused.push_back(thrown_by([&] { trainer.step_named(s == 1 ? unread : not_finite); }));
        if (s == 3) trainer.load(start);  // parameters that were received before the refused step are not used again
        losses.push_back(trainer.step_named(good).loss);
      }
      const std::lock_guard hold(lock);
      CHECK(refused.front() == "the disk is gone");
      for (std::size_t i = 1; i < refused.size(); i++) CHECK_THAT(refused[i], Catch::Contains("not finite at step"));
      for (std::size_t s = 0; s < losses.size(); s++) CHECK(losses[s] == expected[s % 3]);
    });
  }
}

TEST_CASE("trainer: a checkpoint does not replace what is none", "[train]") {
  const Plan plan = small_plan(2, DType::f64);
  const Folder folder;
  const auto mine = folder.path() / "mine", file = folder.path() / "file";
  std::filesystem::create_directory(mine);
  std::ofstream(mine / "thesis.txt") << "all of it";
  std::ofstream(file) << "this too";
  std::filesystem::create_directory(folder.path() / "other.new");
  std::ofstream(folder.path() / "other.new/thesis.txt") << "that too";
  std::filesystem::create_directory(folder.path() / "step-1.new");  // left by a process that was killed while it saved
  for (const char* name : {"rank-0.bin", "rank-1.bin.new-21891-0", "manifest.json.new-21891-12"})
    std::ofstream(folder.path() / "step-1.new" / name) << "half";
  std::filesystem::create_directory(folder.path() / "named.new");
  std::ofstream(folder.path() / "named.new/rank-0.bin.new-x") << "mine";
  std::mutex lock;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    const std::string foreign = thrown_by([&] { trainer.save(mine); }), no_directory = thrown_by([&] { trainer.save(file); });
    const std::string beside = thrown_by([&] { trainer.save(folder.path() / "other"); });
    const std::string named = thrown_by([&] { trainer.save(folder.path() / "named"); });
    for (int again = 0; again < 2; again++) trainer.save(folder.path() / "step-1");
    trainer.save(folder.path() / "step-1/");  // the same directory
    CHECK_THROWS_AS(trainer.save(""), UserError);
    const std::string nowhere =  // on one rank alone
        thrown_by([&] { trainer.save(folder.path() / "step-2", {.epoch = rt.rank() == 1 ? -1 : 0}); });
    const std::string beyond =
        thrown_by([&] { trainer.save(folder.path() / "step-2", {.batch = 4, .batch_size = 4, .samples = 12}); });
    const std::lock_guard hold(lock);
    CHECK_THAT(foreign, Catch::Contains("it holds \"thesis.txt\", which is not part of a checkpoint"));
    CHECK_THAT(beside, Catch::Contains("other.new: it holds \"thesis.txt\", which is not part of a checkpoint"));
    CHECK_THAT(named, Catch::Contains("named.new: it holds \"rank-0.bin.new-x\""));
    CHECK_THAT(no_directory, Catch::Contains("is not a directory"));
    CHECK_THAT(nowhere, Catch::Contains("epoch -1") && Catch::Contains("is not a valid position"));
    CHECK_THAT(beyond, Catch::Contains("batch 4 (of 12 samples, in batches of 4) is not a valid position"));
  });
  CHECK(!std::filesystem::exists(folder.path() / "step-2"));
  CHECK(text_of(mine / "thesis.txt") == "all of it");
  CHECK(text_of(file) == "this too");
  CHECK(text_of(folder.path() / "other.new/thesis.txt") == "that too");
}

TEST_CASE("trainer: samples that are not the network's are refused", "[train]") {
  const Plan plan = small_plan(2, DType::f32);
  const auto of = [](std::vector<Index> sample, Index batch) {
    std::vector<Index> which(static_cast<std::size_t>(batch));
    return batch_of(synthetic(std::move(sample), kClasses, 8, 3).train, which, 0, 0);
  };
  std::map<std::string, std::string> said;
  std::mutex lock;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    const auto step = [&](const std::map<std::string, ReadBox>& feeds) { return thrown_by([&] { trainer.step_named(feeds); }); };
    const Batch good = of({2, 6, 5}, 4);
    trainer.step_named(feeds_of(good));
    const std::string larger = step(feeds_of(of({2, 7, 5}, 4))), smaller = step(feeds_of(of({2, 6, 4}, 4))),
                      other = step(feeds_of(of({6, 5}, 4))), few = step(feeds_of(of({2, 6, 5}, 3))),
                      many = step(feeds_of(of({2, 6, 5}, 5))), kind = step({{"image", good.labels}, {"label", good.labels}});
    const std::lock_guard hold(lock);
    CHECK_THAT(larger, Catch::Contains("\"image\" is fed by samples of the sizes [2, 7, 5]; expected [2, 6, 5]"));
    CHECK_THAT(smaller, Catch::Contains("[2, 6, 4]; expected [2, 6, 5]"));
    CHECK_THAT(other, Catch::Contains("[6, 5]; expected [2, 6, 5]"));
    CHECK_THAT(few, Catch::Contains("is fed by 3 samples; expected 4"));
    CHECK_THAT(many, Catch::Contains("is fed by 5 samples; expected 4"));
    CHECK_THAT(kind, Catch::Contains("\"image\" is fed by labels that are integers; expected floats"));
    CHECK(trainer.steps() == 1);
  });
}

TEST_CASE("trainer: a loaded checkpoint goes on with its seed, unless another one is given", "[train]") {
  Graph g;
  const Dim n{"n", 4}, in{"in", 8}, out{"out", kClasses};
  const Tensor x = dropout(g.input("image", {n, in}), {.rate = 0.5}), label = g.input("label", {n}, DType::i32);
  const Step step = training(mean(softmax_cross_entropy(dense(x, {.out = {out}}), label, out)), Sgd{.learning_rate = 0.1});
  const Plan plan = balance(step, line_of(1), {}, {}, {.dtype = DType::f64});
  const Batch batch = batch_of(synthetic({8}, kClasses, 4, 3).train, {0, 1, 2, 3}, 0, 0);
  const Folder folder;
  std::vector<double> losses;
  run_ranks_in_memory(1, [&](Runtime& rt) {
    Trainer first(rt, plan, {.seed = 7});
    first.step_named(feeds_of(batch));
    first.save(folder.path() / "step-1");
    losses.push_back(first.step_named(feeds_of(batch)).loss);
    for (const TrainerOptions& options : {TrainerOptions{}, TrainerOptions{.seed = 7}, TrainerOptions{.seed = 8}}) {
      Trainer next(rt, plan, options);
      next.load(folder.path() / "step-1");
      losses.push_back(next.step_named(feeds_of(batch)).loss);
    }
  });
  CHECK(losses[1] == losses[0]);
  CHECK(losses[2] == losses[0]);
  CHECK(losses[3] != losses[0]);
}

TEST_CASE("trainer: a stop requested before a load is not reported after it", "[train]") {
  const Datasets data = small_data(40);
  const Folder folder;
  std::vector<bool> stops;
  run_ranks_in_memory(1, [&](Runtime& rt) {
    Trainer trainer(rt, small_plan(1, DType::f64));
    const auto step = [&] { stops.push_back(trainer.step_named(feeds_of(batch_of(data.train, {0, 1, 2, 3}, 0, 0))).stop); };
    step();
    trainer.save(folder.path() / "step-1");
    trainer.ask_to_stop();
    step();
    trainer.load(folder.path() / "step-1");
    step();
  });
  CHECK(stops == std::vector<bool>{false, true, false});
}

TEST_CASE("plans and inputs of types that nothing computes are refused", "[train]") {
  for (const DType dtype : {DType::bf16, DType::i32}) CHECK_THROWS_AS(small_plan(2, dtype), UserError);
  Graph graph;
  CHECK_THROWS_WITH(graph.input("image", {{"batch", 4}, {"in", 3}}, DType::bf16), Catch::Contains("an input is f32"));
}

TEST_CASE("trainer: a parameter that is not finite is found though the loss is finite", "[train]") {
  const Plan plan = small_plan(2, DType::f64);
  const Folder folder;
  std::mutex lock;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    trainer.step_named(feeds_of(batch_of(std::make_shared<Fixed>(4), {0, 1, 2, 3}, 0, 0)));
    trainer.save(folder.path() / "good");
    std::string name;
    if (rt.rank() == 1) {
      const Slice& s = trainer.program().slices.front();
      name = s.name;
      trainer.executor().write(s.value, s.box, std::vector<double>(static_cast<std::size_t>(volume(s.box)), NAN));
    }
    std::vector<std::string> texts;
    for (const char* to : {"good", "bad"}) texts.push_back(thrown_by([&] { trainer.save(folder.path() / to); }));
    texts.push_back(thrown_by([&] { trainer.compare_copies(); }));
    trainer.load(folder.path() / "good");
    texts.push_back(thrown_by([&] { trainer.compare_copies(); }));
    const std::lock_guard hold(lock);
    CHECK(texts.back() == "nothing");
    texts.pop_back();
    for (const std::string& text : texts)
      CHECK_THAT(text, Catch::StartsWith("parameters not finite at step 1 (finite at step 1); first bad tensor: \"" + name) &&
                           Catch::Contains("\" on rank 1"));
  });
  CHECK_FALSE(std::filesystem::exists(folder.path() / "bad"));
}

TEST_CASE("a value that is not finite is found wherever it is in a buffer", "[train]") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const Format format : {Format::plain, Format::channels_last}) {
      Program program;
      program.buffers.push_back({.name = "w", .dtype = dtype, .box = {{0, 5}, {2, 9}, {0, 3}, {0, 3}}, .format = format});
      const auto count = static_cast<std::size_t>(volume(program.buffers[0].box));
      const auto found = [&](std::size_t at, double value) {
        std::vector<std::byte> bytes(count * bytes_of(dtype));
        const auto put = [&](std::size_t i, auto one) { std::memcpy(bytes.data() + i * sizeof one, &one, sizeof one); };
        for (std::size_t i = 0; i < count; i++) {
          const double its = i == at ? value : -1e30;
          dtype == DType::f64   ? put(i, its)
          : dtype == DType::f32 ? put(i, static_cast<float>(its))
                                : put(i, Bf16(static_cast<float>(its)));
        }
        return !is_finite(program, 0, bytes.data());
      };
      for (std::size_t at = 0; at < count; at++)
        for (const double value : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()})
          CHECK(found(at, value));
      CHECK(!found(count, 0));
    }
}

TEST_CASE("trainer: names the tensor in which a number overflows", "[train]") {
  const Plan plan = small_plan(2, DType::f64);
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    const auto data = std::make_shared<Fixed>(4);
    const Batch b = batch_of(data, {0, 1, 2, 3}, 0, 0);
    auto huge = feeds_of(b);
    huge["image"] = [&](const Box& box, std::span<std::byte> out) {  // finite, but its products are not
      b.images(box, out);
      auto* values = reinterpret_cast<double*>(out.data());
      for (std::size_t i = 0; i < out.size() / sizeof(double); i++) values[i] = 1e308;
    };
    std::string text;
    try {
      trainer.step_named(huge);
    } catch (const LossNotFinite& e) {
      text = e.what();
    }
    static std::mutex lock;
    const std::lock_guard hold(lock);
    INFO(text);
    CHECK((text.find("\"conv2d_1") != std::string::npos || text.find("\"relu_2\"") != std::string::npos));
  });
}

TEST_CASE("trainer: refuses what was not fed, and ranks with another network", "[train]") {
  const Plan plan = small_plan(1, DType::f64);
  const Batch b = batch_of(std::make_shared<Fixed>(4), {0, 1, 2, 3}, 0, 0);
  run_ranks_in_memory(1, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    CHECK_THROWS_WITH(trainer.step_named({{"image", b.images}}), Catch::Contains("\"label\" is not fed"));
    CHECK_THROWS_WITH(trainer.step_named({{"image", b.images}, {"label", b.labels}, {"imagge", b.images}}),
                      Catch::Contains("imagge"));
  });
  // On one rank alone: all ranks say so before the update, and continue.
  const Plan three = small_plan(3, DType::f64);
  std::mutex lock;
  Graph same;  // as that of the step
  const Feed twice{same.input("image", {{"batch", 4}, {"in", 2}, {"rows", 6}, {"cols", 5}}), b.images};
  const Feed other_sizes{Graph().input("image", {{"batch", 8}}), b.images};
  run_ranks_in_memory(3, [&](Runtime& rt) {
    Trainer trainer(rt, three);
    const std::map<std::string, ReadBox> good{{"image", b.images}, {"label", b.labels}};
    const double first = trainer.step_named(good).loss;
    const auto before = weights(rt, three, trainer);
    const bool bad = rt.rank() == 1;
    auto missing = good, unknown = good;
    if (bad) missing.erase("label");
    if (bad) unknown["imagge"] = b.images;
    const std::string said = thrown_by([&] { trainer.step_named(missing); });
    const std::string named = thrown_by([&] { trainer.step_named(unknown); });
    const std::string doubled = thrown_by([&] { bad ? trainer.step({twice, twice}) : trainer.step_named(good); });
    const std::string sized = thrown_by([&] { bad ? trainer.step({other_sizes}) : trainer.step_named(good); });
    const auto after = weights(rt, three, trainer);
    const StepReport next = trainer.step_named(good);
    const std::lock_guard hold(lock);
    CHECK(said == "input \"label\" is not fed");
    CHECK_THAT(named, Catch::Contains("\"imagge\" is fed, but it is not an input"));
    CHECK(doubled == "\"image\" is fed twice");
    CHECK(sized == "\"image\" is fed as a tensor of sizes [8], the step's has [4, 2, 6, 5]; feed the tensor of its graph");
    for (const auto& [name, w] : before) CHECK(after.at(name).values == w.values);
    CHECK((next.step == 2 && next.loss < first));
  });
  const Plan one = small_plan(2, DType::f64, 4), other = small_plan(2, DType::f64, 8);
  CHECK_THROWS_WITH(run_ranks_in_memory(2, [&](Runtime& rt) { Trainer trainer(rt, rt.rank() == 0 ? one : other); }),
                    Catch::Contains("rank 1 has another step, mesh or layout"));
}

TEST_CASE("trainer: refuses ranks with other settings, which no plan has", "[train]") {
  const auto said = [](const Plan& one, const Plan& other, const TrainerOptions& its = {}) {
    std::mutex lock;
    std::vector<std::string> all;
    run_ranks_in_memory(2, [&](Runtime& rt) {
      const std::string text =
          thrown_by([&] { Trainer trainer(rt, rt.rank() == 0 ? one : other, rt.rank() == 0 ? TrainerOptions{} : its); });
      const std::lock_guard hold(lock);
      all.push_back(text);
    });
    CHECK(all[0] == all[1]);
    return all[0];
  };
  const auto plan_with = [](double rate, const TrainingOptions& options) {
    return balance(small_step(4, {.learning_rate = rate}, options), line_of(2), small_rules(2), {}, {.dtype = DType::f64});
  };
  const Plan plan = plan_with(0.1, {.clip_norm = 1});
  CHECK(said(plan, plan) == "nothing");
  CHECK(said(plan, plan_with(0.2, {.clip_norm = 1})) ==
        "rank 1 trains with learning rate 0.2, rank 0 with learning rate 0.1; give every rank the same");
  CHECK_THAT(said(plan, plan_with(0.1, {.clip_norm = 2})), Catch::Contains("rank 1 trains with clip_norm 2, rank 0"));
  CHECK_THAT(said(plan, plan_with(0.1, {.schedule = {.warmup_steps = 3}, .clip_norm = 1})), Catch::Contains("warm-up 3"));
  CHECK_THAT(
      said(plan, plan_with(0.1, {.schedule = {.kind = RateSchedule::Kind::cosine, .steps = 9}, .clip_norm = 1})),
      Catch::Contains("rank 1 trains with cosine schedule (warm-up 0, 9 steps") && Catch::Contains("with constant schedule"));
  CHECK(said(plan, small_plan(3, DType::f64)) == "the plan is for 3 ranks, but 2 run");
  CHECK_THAT(said(plan, evaluation_plan(plan)), Catch::Contains("this one is inference"));
  CHECK_THAT(said(plan, plan, {.seed = 3}), Catch::Contains("rank 1 trains with seed 3, rank 0 with no seed"));
  CHECK_THAT(said(plan, plan, {.compare_copies_every = 0}), Catch::Contains("compare_copies_every 0"));
}

TEST_CASE("trainer: where ranks have found different plans, rank 0's is run by all", "[train]") {
  const Mesh mesh = line_of(2);
  const Step step = small_step(20, {.learning_rate = 0.05});
  const LayoutRules rules{{"batch", "all"}};  // parts by profile
  const auto plan_by = [&](double fast, double slow) {
    return balance(step, mesh, rules, testing::synthetic_profile(mesh, {fast, slow}, 1e12));
  };
  const Plan first = plan_by(1e-4, 3e-5), other = plan_by(3e-5, 1e-4);
  REQUIRE(first.json() != other.json());
  const Datasets data = small_data(40);
  const auto losses_of = [&](const Plan& one, const Plan& two) {
    std::vector<double> losses;
    run_ranks_in_memory(2, [&](Runtime& rt) {
      Trainer trainer(rt, rt.rank() == 0 ? one : two, {.seed = 5});
      Order order(40, 20, 1);
      for (int s = 0; s < 2; s++) {
        const StepReport report = trainer.step_named(feeds_of(batch_of(data.train, order.batch_of(s), s, 0)));
        if (rt.rank() == 0) losses.push_back(report.loss);
      }
    });
    return losses;
  };
  CHECK(losses_of(first, other) == losses_of(first, first));
}

TEST_CASE("trainer: micro-batches under a layout are the complete batch", "[train]") {
  constexpr Index kBatch = 12;
  const Datasets data = small_data(40);
  struct Result {
    std::vector<double> losses{};
    std::map<std::string, WholeTensor> weights{};
    Index memory = 0;
  };
  auto train = [&](int ranks, const TrainingOptions& options, DType dtype) {
    Result out;
    const Step step = small_step(kBatch, {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3}, options);
    const Plan plan = balance(step, line_of(ranks), small_rules(ranks), {}, {.dtype = dtype});
    std::mutex lock;
    run_ranks_in_memory(ranks, [&](Runtime& rt) {
      Trainer trainer(rt, plan, {.seed = 5, .compare_copies_every = 2});
      Order order(40, kBatch, 1);
      std::vector<double> losses;
      for (int s = 0; s < 4; s++) {
        const StepReport report = trainer.step_named(feeds_of(batch_of(data.train, order.batch_of(s), s, 0)));
        losses.push_back(report.loss);
        Index planned = 0;
        for (const PredictedRank& r : plan.data().predicted) planned += r.bytes;
        if (trainer.figures().bytes_received != planned) throw InternalError("counted other bytes than planned");
      }
      trainer.compare_copies();
      auto mine = weights(rt, plan, trainer);
      const std::lock_guard hold(lock);
      if (rt.rank() == 0) out = {losses, std::move(mine), trainer.program().arena_bytes};
    });
    return out;
  };
  for (const double clip : {0.0, 0.3}) {
    const Result truth = train(1, {.clip_norm = clip}, DType::f64);
    for (const Index parts : {2, 3, 12})
      for (int ranks = 1; ranks <= 4; ranks++) {
        INFO(parts << " micro-batches on " << ranks << " ranks, clipped at " << clip);
        const Result cut = train(ranks, {.clip_norm = clip, .accumulate = parts}, DType::f64);
        for (std::size_t s = 0; s < truth.losses.size(); s++) CHECK(cut.losses[s] == Approx(truth.losses[s]).epsilon(1e-12));
        for (const auto& [name, w] : truth.weights)
          for (std::size_t i = 0; i < w.values.size(); i++)
            CHECK(cut.weights.at(name).values[i] == Approx(w.values[i]).epsilon(1e-11).margin(1e-13));
        if (ranks == 1 && parts == 12) CHECK(cut.memory < truth.memory);
      }
  }
  for (const double clip : {0.0, 0.3}) {
    const Result truth = train(1, {.clip_norm = clip}, DType::f64);
    for (const auto& [ranks, parts] : {std::pair{1, 1}, {2, 1}, {3, 4}}) {
      INFO("f32 on " << ranks << " ranks, " << parts << " micro-batches, clipped at " << clip);
      const Result single = train(ranks, {.clip_norm = clip, .accumulate = parts}, DType::f32);
      for (std::size_t s = 0; s < truth.losses.size(); s++) CHECK(single.losses[s] == Approx(truth.losses[s]).epsilon(1e-5));
    }
  }
  Graph g;  // a dim that is called as the batch was, but is not the batch
  const Tensor image = g.input("image", {{"batch", 8}, {"channels", 8}, {"rows", 4}});
  const Tensor turned = rename(rename(image, {"batch", 8}, {"x", 8}), {"channels", 8}, {"batch", 8});
  CHECK_THROWS_WITH(training(mean(dense(turned, {.out = {Dim{"f", 3}}})), Sgd{}, {.accumulate = 2}),
                    Catch::Contains("changes the dim \"batch\""));
  CHECK_THROWS_WITH(small_step(10, {}, {.accumulate = 4}),
                    Catch::Contains("10 samples (\"batch\") cannot be divided into 4 equal micro-batches"));
}

TEST_CASE("trainer: losses of micro-batches are those of the batch, or refused", "[train]") {
  const Dim batch{"batch", 6}, rows{"rows", 2}, in{"in", 4}, f{"f", 3};
  Graph g;
  const Tensor x = g.input("x", {batch, rows, in});
  const Tensor weight = g.parameter({f}, {.deviation = 1, .name = "w"}),
               factor = g.parameter({{"one", 1}}, {.deviation = 1, .name = "s"});
  const Tensor y = batch_norm(dense(x, {.in = {in}, .out = {f}}), {.name = "norm"});
  const Tensor each = mul(y, y), loss = mean(each), of_features = mean(each, {batch}), penalty = sum(mul(weight, weight));
  const auto step_of = [&](const std::vector<Tensor>& losses, Index parts) {
    return training(losses, Sgd{.learning_rate = 0.1}, {.accumulate = parts});
  };
  // Refused: what they are in a micro-batch does not add up.
  const auto refused = [&](const std::vector<Tensor>& losses) {
    static_cast<void>(step_of(losses, 1));
    std::string said = "accepted";
    try {
      static_cast<void>(step_of(losses, 2));
    } catch (const UserError& e) {
      said = e.what();
    }
    return said;
  };
  CHECK_THAT(refused({loss, penalty}), Catch::Contains("does not depend on the samples") && Catch::Contains("weight_decay"));
  for (const Tensor& other : {add(loss, penalty), sigmoid(loss), mul(loss, loss), sum(relu(mul(of_features, weight))),
                              sum(add(of_features, weight)), mean(dense(of_features, {.in = {f}, .out = {Dim{"h", 2}}}))}) {
    INFO(other.name());
    CHECK_THAT(refused({other}), Catch::Contains("is not a sum or a mean over samples"));
  }
  CHECK_THAT(refused({mean(mul(each, loss))}), Catch::Contains("a sum or a mean over all samples, beside each sample"));
  // Right: linear in sums over samples.
  const Tensor z = dense(x, {.in = {in}, .out = {f}, .name = "plain"}), squares = mul(z, z), by_feature = mean(squares, {batch});
  const auto train = [&](const std::vector<Tensor>& losses, Index parts) {
    const Plan plan = balance(step_of(losses, parts), line_of(1), {}, {}, {.dtype = DType::f64});
    std::vector<double> out;
    run_ranks_in_memory(1, [&](Runtime& rt) {
      Trainer trainer(rt, plan, {.seed = 5});
      const auto feed = [](const Box& box, std::span<std::byte> to) {
        std::size_t at = 0;
        for_each_index(box, [&](const std::vector<Index>& i) {
          const double value = 1 + std::sin(static_cast<double>(8 * i[0] + 4 * i[1] + i[2]));
          std::memcpy(to.data() + sizeof value * at++, &value, sizeof value);
        });
      };
      for (int s = 0; s < 3; s++) out.push_back(trainer.step_named({{"x", feed}}).loss);
    });
    return out;
  };
  const std::vector<std::vector<Tensor>> right = {
      {sum(mul(mean(squares), factor))},
      {add(mean(squares), sum(z))},
      {mean(squares), sum(mul(by_feature, weight))},
      {mean(add(squares, weight))},
      {sum(dense(by_feature, {.in = {f}, .out = {Dim{"h", 2}}, .bias = false, .name = "of_sums"}))},
  };
  for (const std::vector<Tensor>& losses : right)
    for (const Index parts : {2, 3, 6}) {
      INFO(losses.front().name() << " in " << parts << " micro-batches");
      const std::vector<double> truth = train(losses, 1), cut = train(losses, parts);
      for (std::size_t s = 0; s < truth.size(); s++) CHECK(cut[s] == Approx(truth[s]).epsilon(1e-12));
    }
}

TEST_CASE("trainer: what has no samples is dropped once a step, in however many micro-batches", "[train]") {
  const Dim batch{"batch", 6}, rows{"rows", 7}, in{"in", 4};
  Graph g;
  const Tensor x = g.input("x", {batch, rows, in});
  const Tensor positions = dropout(g.parameter({rows, in}, {.deviation = 1, .name = "positions"}), {.rate = 0.5, .name = "drop"});
  const Tensor y = dropout(mul(x, positions), {.rate = 0.25, .name = "each"});
  const Tensor loss = mean(mul(y, y));
  const auto feed = [](const Box& box, std::span<std::byte> out) {
    std::size_t at = 0;
    for_each_index(box, [&](const std::vector<Index>& i) {
      const double value = 1 + std::sin(static_cast<double>(28 * i[0] + 4 * i[1] + i[2]));
      std::memcpy(out.data() + sizeof value * at++, &value, sizeof value);
    });
  };
  const auto train = [&](Index parts, const LayoutRules& rules) {
    const Step step = training(loss, Sgd{.learning_rate = 0.5}, {.accumulate = parts});
    const int ranks = rules.split.empty() ? 1 : 3;
    const Plan plan = balance(step, line_of(ranks), rules, {}, {.dtype = DType::f64});
    std::vector<double> out;
    run_ranks_in_memory(ranks, [&](Runtime& rt) {
      Trainer trainer(rt, plan, {.seed = 5});
      for (int s = 0; s < 3; s++) trainer.step_named({{"x", feed}});
      const std::vector<double> w = trainer.state().get(rt.transport(), "positions.weight");
      if (rt.rank() == 0) out = w;
    });
    return out;
  };
  const std::vector<double> truth = train(1, {});
  for (const Index parts : {1, 2, 3, 6})
    for (const LayoutRules& rules :
         {LayoutRules{}, LayoutRules{{batch, "all", Sizes{{3, 1, 2}}}}, LayoutRules{{rows, "all", Sizes{{1, 0, 6}}}}}) {
      const std::vector<double> cut = train(parts, rules);
      INFO(parts << " micro-batches");
      for (std::size_t i = 0; i < truth.size(); i++) CHECK(cut[i] == Approx(truth[i]).epsilon(1e-12));
    }
}

TEST_CASE("trainer: an input without dims is fed", "[train]") {
  Graph g;
  const Tensor image = g.input("image", {{"batch", 4}, {"in", 3}}), bonus = g.input("bonus", {});
  const Plan plan =
      balance(training(add(mean(dense(image, {.out = {Dim{"f", 2}}})), bonus), Sgd{}), line_of(2), {}, {}, {.dtype = DType::f64});
  run_ranks_in_memory(2, [&](Runtime& rt) {
    const auto fill = [](double value) {
      return [value](const Box& box, std::span<std::byte> out) {
        std::fill_n(reinterpret_cast<double*>(out.data()), volume(box), value);
      };
    };
    Trainer without(rt, plan), with(rt, plan);
    const double base = without.step({{image, fill(1)}, {bonus, fill(0)}}).loss;
    if (with.step({{image, fill(1)}, {bonus, fill(0.5)}}).loss != base + 0.5) throw InternalError("the scalar is part of the loss");
  });
}

TEST_CASE("state: read and written by name, under any layout", "[train]") {
  // Values and velocities of one run go on in another one, with other cuts and another number of ranks.
  const Datasets data = small_data(40);
  auto feed = [&](Index s) { return feeds_of(batch_of(data.train, {4 * s, 4 * s + 1, 4 * s + 2, 4 * s + 3}, s, 0)); };
  std::map<std::string, std::vector<double>> values, velocities;
  std::vector<double> losses(6, 0), again(6, 0);
  run_ranks_in_memory(3, [&](Runtime& rt) {
    Trainer trainer(rt, small_plan(3, DType::f64), {.seed = 5});
    for (Index s = 0; s < 3; s++) trainer.step_named(feed(s));
    std::map<std::string, std::vector<double>> mine, slots;
    Index owned = 0, all = 0;
    for (const std::string& name : trainer.state().names()) {
      mine[name] = trainer.state().get(rt.transport(), name);
      slots[name] = trainer.state().get(rt.transport(), name, "velocity");
      for (const BoxValues& shard : trainer.state().shard(name)) owned += static_cast<Index>(shard.values.size());
      all += static_cast<Index>(mine[name].size());
    }
    if (owned >= all) throw InternalError("no rank owns everything");
    for (Index s = 3; s < 6; s++) {
      const double loss = trainer.step_named(feed(s)).loss;
      if (rt.rank() == 0) losses[static_cast<std::size_t>(s)] = loss;
    }
    if (rt.rank() == 0) std::tie(values, velocities) = std::pair{mine, slots};
  });
  REQUIRE(values.size() == 6);
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, small_plan(2, DType::f64), {.seed = 99});
    for (const auto& [name, all] : values) trainer.state().set(name, all);
    for (const auto& [name, all] : velocities) trainer.state().set(name, all, "velocity");
    for (Index s = 3; s < 6; s++) {
      const double loss = trainer.step_named(feed(s)).loss;
      if (rt.rank() == 0) again[static_cast<std::size_t>(s)] = loss;
    }
  });
  for (std::size_t s = 3; s < 6; s++) CHECK(again[s] == Approx(losses[s]).epsilon(1e-12));
  const Plan one = small_plan(1, DType::f32);
  State state(one, 0, 1);
  CHECK_THROWS_WITH(state.shard("dense_6.weigth"),
                    Catch::Contains("no parameter is called \"dense_6.weigth\"; did you mean \"dense_6.weight\"?"));
  CHECK_THROWS_WITH(state.set("dense_6.bias", {1, 2}), Catch::Contains("\"dense_6.bias\" has 3 elements, 2 are given"));
}

TEST_CASE("learning rates by step", "[train]") {
  using Kind = RateSchedule::Kind;
  const auto rates = [](const RateSchedule& s) {
    std::vector<double> out;
    for (Index step = 1; step <= 6; step++) out.push_back(s.at(0.8, step));
    return out;
  };
  const auto check = [&](const RateSchedule& s, const std::vector<double>& expected) {
    const std::vector<double> found = rates(s);
    for (std::size_t i = 0; i < expected.size(); i++) CHECK(found[i] == Approx(expected[i]).margin(1e-15));
  };
  check({}, {0.8, 0.8, 0.8, 0.8, 0.8, 0.8});
  check({.warmup_steps = 4}, {0.2, 0.4, 0.6, 0.8, 0.8, 0.8});
  check({.kind = Kind::linear, .steps = 5}, {0.8, 0.6, 0.4, 0.2, 0, 0});
  check({.kind = Kind::linear, .warmup_steps = 2, .steps = 6, .final = 0.4}, {0.4, 0.8, 0.7, 0.6, 0.5, 0.4});
  check({.kind = Kind::cosine, .steps = 5, .final = 0.2},
        {0.8, 0.5 + 0.3 * std::sqrt(0.5), 0.5, 0.5 - 0.3 * std::sqrt(0.5), 0.2, 0.2});
  check({.kind = Kind::cosine, .warmup_steps = 2, .steps = 4}, {0.4, 0.8, 0.4, 0, 0, 0});
  check({.kind = Kind::step, .milestones = {3, 5}, .factor = 0.5}, {0.8, 0.8, 0.4, 0.4, 0.2, 0.2});
  check({.kind = Kind::step, .warmup_steps = 4, .milestones = {3, 6}, .factor = 0.5}, {0.2, 0.4, 0.6, 0.8, 0.4, 0.2});
  check({.kind = Kind::linear, .warmup_steps = 9, .steps = 5},
        {0.8 / 9, 1.6 / 9, 2.4 / 9, 3.2 / 9, 4.0 / 9, 4.8 / 9});  // longer than the run
  // PyTorch's PolynomialLR(total_iters=4, power=2); 1 is linear.
  check({.kind = Kind::polynomial, .steps = 5, .power = 2}, {0.8, 0.45, 0.2, 0.05, 0, 0});
  check({.kind = Kind::polynomial, .warmup_steps = 2, .steps = 6, .final = 0.4}, {0.4, 0.8, 0.7, 0.6, 0.5, 0.4});
  // PyTorch's OneCycleLR(max_lr=0.8, total_steps=6, pct_start=0.5), then with its own pct_start, 0.3; of 2 and of 1 steps.
  check({.kind = Kind::one_cycle, .steps = 6, .rise = 0.5}, {0.032, 0.416, 0.8, 0.6000008, 0.2000024, 3.2e-6});
  check({.kind = Kind::one_cycle, .steps = 6},
        {0.032, 0.7955323483607295, 0.6493965231598104, 0.37010968213358003, 0.10678202415106448, 3.2e-6});
  check({.kind = Kind::one_cycle, .steps = 2}, {0.6493965231598104, 3.2e-6, 3.2e-6, 3.2e-6, 3.2e-6, 3.2e-6});
  check({.kind = Kind::one_cycle, .steps = 1, .final = 0.1}, {0.1, 0.1, 0.1, 0.1, 0.1, 0.1});
  check({.kind = Kind::one_cycle, .steps = 3, .final = 0.2, .initial = 0.4, .rise = 1}, {0.4, 0.6, 0.8, 0.8, 0.8, 0.8});
  check({.kind = Kind::one_cycle, .steps = 4, .final = 0.2, .rise = 0.25}, {0.8, 0.65, 0.35, 0.2, 0.2, 0.2});
  // plateau: the falls so far, after the warm-up not below the minimum; other kinds know none.
  const RateSchedule plateau{.kind = Kind::plateau, .warmup_steps = 2, .minimum = 0.3};
  CHECK(plateau.at(0.8, 9, 1) == 0.8);
  CHECK(plateau.at(0.8, 9, 0.5) == 0.4);
  CHECK(plateau.at(0.8, 9, 0.25) == 0.3);
  CHECK(plateau.at(0.8, 1, 0.25) == 0.1);
  CHECK(RateSchedule{}.at(0.8, 9, 0.25) == 0.8);
}

TEST_CASE("the rate falls on a plateau as PyTorch's ReduceLROnPlateau", "[train]") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto rates = [](const RateSchedule& s, const std::vector<double>& values) {
    RunMemory memory{.plateau = {.watch = s.watch}};
    std::vector<double> out;
    for (const double value : values) {
      add(memory, s, static_cast<Index>(out.size()) + 7, value);
      out.push_back(s.at(0.8, 1, memory.scale));
    }
    return out;
  };
  const RateSchedule loss{.kind = RateSchedule::Kind::plateau, .factor = 0.5, .patience = 1, .threshold = 0.1, .minimum = 0.15};
  CHECK(rates(loss, {2, 1.9, 1.85, 1.7, nan, 1.6, 1.69, 1.55, 1.5, 1.5, 1.5}) ==
        std::vector<double>{0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2, 0.15, 0.15, 0.15, 0.15});
  const RateSchedule accuracy{.kind = RateSchedule::Kind::plateau, .factor = 0.5, .watch = Watched::test_accuracy, .patience = 0};
  CHECK(rates(accuracy, {0.5, 0.50001, 0.6, 0.6, 0.7}) == std::vector<double>{0.8, 0.4, 0.4, 0.2, 0.2});
  CHECK(rates(accuracy, {nan, 0, 0, inf}) == std::vector<double>{0.4, 0.4, 0.2, 0.1});
  // What a run remembers: the first of equal values, each step once.
  Gains gains{.watch = Watched::test_accuracy};
  CHECK_FALSE(add(gains, 1, nan));
  CHECK(add(gains, 2, 0.5));
  CHECK_FALSE(add(gains, 2, 0.6));
  CHECK_FALSE(add(gains, 3, 0.5));
  CHECK(gains == Gains{.watch = Watched::test_accuracy, .best = 0.5, .step = 2, .without_gain = 1, .evaluated = 3});
  CHECK(is_gain({.best = -1}, -1.05, 0));
  CHECK_FALSE(is_gain({.best = -1}, -1.05, 0.1));
}

namespace {

// Steps of the small network on two ranks; before(trainer, rank, step) is called before each. What each step throws, else its rate.
std::vector<std::string> rates_of(const Plan& plan, Index steps, const std::function<void(Trainer&, int, Index)>& before) {
  std::vector<std::string> all;
  std::mutex lock;
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, plan);
    const Datasets data = small_data(8);
    for (Index s = 0; s < steps; s++) {
      std::string said;
      try {
        before(trainer, rt.rank(), s);
        said = fmt::format("{}", trainer.step_named(feeds_of(batch_of(data.train, {0, 1, 2, 3}, s, 0))).learning_rate);
      } catch (const UserError& e) {
        said = e.what();
      }
      const std::lock_guard hold(lock);
      if (rt.rank() == 0) all.push_back(said);
    }
  });
  return all;
}

}  // namespace

TEST_CASE("trainer: a learning rate that is set replaces the schedule's, and is equal on all ranks", "[train]") {
  const auto plan_with = [](const TrainingOptions& options) {
    return balance(small_step(4, {.learning_rate = 0.5}, options), line_of(2), small_rules(2), {}, {.dtype = DType::f64});
  };
  const Plan linear = plan_with({.schedule = {.kind = RateSchedule::Kind::linear, .steps = 5}});
  CHECK(rates_of(linear, 5, [](Trainer& trainer, int, Index s) {
          if (s == 1) trainer.set_learning_rate(0.25);
          if (s == 3) trainer.set_learning_rate({});
        }) == std::vector<std::string>{"0.5", "0.25", "0.25", "0.125", "0"});
  const std::vector<std::string> unlike = rates_of(linear, 4, [](Trainer& trainer, int rank, Index s) {
    if (s == 1) trainer.set_learning_rate(rank == 0 ? 0.25 : 0.2);
    if (s == 2) rank == 0 ? trainer.set_learning_rate({}) : trainer.set_learning_rate(0.1);
    if (s == 3) trainer.set_learning_rate(0.1);
  });
  CHECK(unlike[1] ==
        "rank 1 trains step 2 with learning rate 0.2, rank 0 with learning rate 0.25; call "
        "Trainer::set_learning_rate with the same value on every rank, between the same steps");
  CHECK_THAT(unlike[2], Catch::Contains("rank 1 trains step 2 with learning rate 0.1, rank 0 with the schedule's learning rate"));
  CHECK(unlike[3] == "0.1");
  const auto refusals = rates_of(linear, 4, [](Trainer& trainer, int, Index s) {
    if (s == 0) trainer.set_learning_rate(-1);
    if (s == 1) trainer.set_learning_rate(std::numeric_limits<double>::infinity());
    if (s == 2) trainer.executor().set_update(0.1, 1);
    if (s == 3) trainer.evaluated(0.1);
  });
  CHECK(refusals[0] == "learning_rate: expected a number of at least 0, found -1");
  CHECK_THAT(refusals[1], Catch::Contains("learning_rate: expected a number") && Catch::Contains("found inf"));
  CHECK_THAT(refusals[2], Catch::Contains("call Trainer::set_learning_rate"));
  CHECK_THAT(refusals[3], Catch::Contains("evaluated() is for the schedule plateau, this one is linear"));
  // Rank 0's evaluation counts, once per step.
  const Plan plateau = plan_with({.schedule = {.kind = RateSchedule::Kind::plateau, .factor = 0.5, .patience = 1}});
  CHECK(rates_of(plateau, 5, [](Trainer& trainer, int rank, Index s) {
          for (int k = 0; k < 3; k++) trainer.evaluated(rank == 0 ? 1 : 1.0 / static_cast<double>(s + 1));
        }) == std::vector<std::string>{"0.5", "0.5", "0.25", "0.25", "0.125"});
}

TEST_CASE("values of optimizers and of training that a job may not have are refused in C++ too", "[train]") {
  using Kind = RateSchedule::Kind;
  constexpr double kNot = std::numeric_limits<double>::quiet_NaN();
  const auto said = [](const auto& optimizer) -> std::string {
    try {
      return Optimizer(optimizer).kind;
    } catch (const UserError& e) {
      return e.what();
    }
  };
  CHECK(said(Sgd{.learning_rate = -1}) == "sgd: learning_rate: expected a number of at least 0, found -1");
  CHECK(said(Sgd{.learning_rate = kNot}) == "sgd: learning_rate: expected a number of at least 0, found nan");
  CHECK(said(Sgd{.momentum = 1.5}) == "sgd: momentum: expected a number from 0 to 1, found 1.5");
  CHECK(said(Sgd{.weight_decay = -0.1}) == "sgd: weight_decay: expected a number of at least 0, found -0.1");
  CHECK(said(Sgd{.learning_rate = 0, .momentum = 1, .nesterov = true}) == "sgd");
  CHECK(said(Adam{.beta2 = 1}) == "adam: beta2: expected a number from 0 to below 1, found 1");
  CHECK(said(Adam{.epsilon = -1}) == "adam: epsilon: expected a number of at least 0, found -1");
  CHECK(said(AdamW{.learning_rate = -1}) == "adamw: learning_rate: expected a number of at least 0, found -1");
  CHECK(said(AdamW{.weight_decay = -1}) == "adamw: weight_decay: expected a number of at least 0, found -1");
  CHECK(said(Lamb{.beta1 = -0.5}) == "lamb: beta1: expected a number from 0 to below 1, found -0.5");
  CHECK(said(Lamb{.beta1 = 0}) == "lamb");

  Graph g;
  const Tensor loss = mean(dense(g.input("x", {{"batch", 4}, {"in", 3}}), {.out = {{"out", 2}}}));
  const auto refused = [&](const TrainingOptions& options) -> std::string {
    try {
      training(loss, Sgd{}, options);
      return "fine";
    } catch (const UserError& e) {
      return e.what();
    }
  };
  CHECK(refused({.clip_norm = -1}) == "clip_norm: expected a number above 0, found -1; without it gradients are not clipped");
  CHECK(refused({.accumulate = 0}) == "accumulate: expected an integer from 1 to 1048576, found 0");
  CHECK(refused({.average = 1}) == "average: expected a number above 0 and below 1, found 1; without it weights are not averaged");
  CHECK(refused({.schedule = {.warmup_steps = -1}}) == "schedule, warmup_steps: expected an integer of at least 0, found -1");
  CHECK(refused({.schedule = {.kind = Kind::cosine, .final = kNot}}) ==
        "schedule, final: expected a number of at least 0, found nan");
  CHECK(refused({.schedule = {.kind = Kind::step, .milestones = {5, 5}}}) ==
        "schedule, milestones: expected ascending steps, found 5 after 5");
  CHECK(refused({.schedule = {.kind = Kind::step, .milestones = {0}}}) ==
        "schedule, milestones: expected an integer of at least 1, found 0");
  CHECK(refused({.schedule = {.kind = Kind::one_cycle, .warmup_steps = 1, .steps = 9}}) ==
        "schedule, warmup_steps: a one_cycle schedule has none; `rise` is the share of the steps in which its rate rises");
  CHECK(refused({.schedule = {.rise = 0}}) == "schedule, rise: expected a number above 0 and at most 1, found 0");
  CHECK(refused({.schedule = {.power = 0}}) == "schedule, power: expected a number above 0, found 0");
  CHECK(refused({.schedule = {.kind = Kind::plateau, .factor = 1}}) ==
        "schedule, factor: expected a number from 0 to below 1, found 1");
  CHECK(refused({.schedule = {.patience = -1}}) == "schedule, patience: expected an integer of at least 0, found -1");
  for (const Kind falls :
       {Kind::linear, Kind::cosine, Kind::polynomial, Kind::one_cycle})  // to `final`, in a last step that there is not
    CHECK(refused({.schedule = {.kind = falls}}) == "schedule, steps: expected an integer of at least 1, found 0");
  CHECK(refused({.schedule = {.kind = Kind::cosine, .steps = 1}}) == "fine");
  CHECK(refused({.schedule = {.kind = Kind::step}}) ==
        "schedule, milestones: expected the steps at which the learning rate falls, found none");
  CHECK(
      refused(
          {.schedule = {.kind = Kind::step, .milestones = {1, 5}, .factor = 2}, .clip_norm = 3, .accumulate = 2, .average = 0.5}) ==
      "fine");
}

TEST_CASE("optimizers are PyTorch's: five steps of a dense layer against plain loops", "[train]") {
  const bool plain = GENERATE(true, false);  // else by a schedule, clipped
  const std::string named = GENERATE("sgd", "nesterov", "adam", "adamw"), kind = named == "nesterov" ? "sgd" : named;
  const bool nesterov = named == "nesterov";
  constexpr Index kBatch = 3, kIn = 4, kOut = 3;
  constexpr double kRate = 0.1, kMomentum = 0.9, kDecay = 0.01;
  Graph g;
  const Dim n{"batch", kBatch}, in{"in", kIn}, classes{"classes", kOut};
  const Tensor image = g.input("image", {n, in}), label = g.input("label", {n}, DType::i32);
  const Tensor logits = dense(image, {.out = {classes}, .name = "fc"});
  constexpr double kSquare = 0.95, kEpsilon = 1e-3;
  const Optimizer optimizer =
      kind == "sgd"    ? Optimizer(Sgd{.learning_rate = kRate, .momentum = kMomentum, .weight_decay = kDecay, .nesterov = nesterov})
      : kind == "adam" ? Optimizer(Adam{kRate, kMomentum, kSquare, kEpsilon, kDecay})
                       : Optimizer(AdamW{kRate, kMomentum, kSquare, kEpsilon, kDecay});
  const Step step = training(mean(softmax_cross_entropy(logits, label, classes)), optimizer,
                             plain ? TrainingOptions{} : TrainingOptions{{.kind = RateSchedule::Kind::linear, .steps = 5}, 0.925});
  const Plan plan = balance(step, line_of(2), {{classes, "all", Sizes{{2, 1}}}}, {}, {.dtype = DType::f64});
  auto x = [](Index i, Index k) { return 0.3 * static_cast<double>((5 * i + 3 * k) % 7) - 0.8; };
  run_ranks_in_memory(2, [&](Runtime& rt) {
    Trainer trainer(rt, plan, {.seed = 9});
    auto start = weights(rt, plan, trainer);
    int clipped = 0;
    std::vector<double> w = start.at("fc.weight").values, b = start.at("fc.bias").values, vw(w.size(), 0), vb(b.size(), 0),
                        qw(w.size(), 0), qb(b.size(), 0);
    for (int s = 0; s < 5; s++) {
      const ReadBox images = [&](const Box& box, std::span<std::byte> out) {
        auto* to = reinterpret_cast<double*>(out.data());
        for (Index i = box[0].begin; i < box[0].end; i++)
          for (Index k = box[1].begin; k < box[1].end; k++) *to++ = x(i, k);
      };
      const ReadBox labels = [&](const Box& box, std::span<std::byte> out) {
        auto* to = reinterpret_cast<std::int32_t*>(out.data());
        for (Index i = box[0].begin; i < box[0].end; i++) *to++ = static_cast<std::int32_t>(i);
      };
      const StepReport report = trainer.step({{image, images}, {label, labels}});
      std::vector<double> gw(w.size(), 0), gb(b.size(), 0);
      double loss = 0;
      for (Index i = 0; i < kBatch; i++) {
        double y[kOut], sum = 0;
        for (Index f = 0; f < kOut; f++) {
          y[f] = b[static_cast<std::size_t>(f)];
          for (Index k = 0; k < kIn; k++) y[f] += x(i, k) * w[static_cast<std::size_t>(f * kIn + k)];
          sum += std::exp(y[f]);
        }
        loss += (std::log(sum) - y[i]) / kBatch;
        for (Index f = 0; f < kOut; f++) {
          const double dy = (std::exp(y[f]) / sum - (f == i ? 1 : 0)) / kBatch;
          gb[static_cast<std::size_t>(f)] += dy;
          for (Index k = 0; k < kIn; k++) gw[static_cast<std::size_t>(f * kIn + k)] += dy * x(i, k);
        }
      }
      const double rate = plain ? kRate : kRate * (4 - s) / 4;
      double squares = 0, factor = 1;
      for (const auto* all : {&gw, &gb})
        for (double one : *all) squares += one * one;
      if (!plain && std::sqrt(squares) > 0.925) factor = 0.925 / (std::sqrt(squares) + 1e-6);
      clipped += factor < 1 ? 1 : 0;
      auto update = [&](std::vector<double>& value, std::vector<double>& v, std::vector<double>& q,
                        const std::vector<double>& gradient) {
        for (std::size_t i = 0; i < value.size(); i++) {
          if (kind != "sgd") {
            const double its = factor * gradient[i] + (kind == "adam" ? kDecay * value[i] : 0);
            if (kind == "adamw") value[i] -= rate * kDecay * value[i];
            v[i] = kMomentum * v[i] + (1 - kMomentum) * its;
            q[i] = kSquare * q[i] + (1 - kSquare) * its * its;
            value[i] -=
                rate * v[i] / (1 - std::pow(kMomentum, s + 1)) / (std::sqrt(q[i] / (1 - std::pow(kSquare, s + 1))) + kEpsilon);
            continue;
          }
          const double slope = factor * gradient[i] + kDecay * value[i];
          v[i] = kMomentum * v[i] + slope;
          value[i] -= rate * (nesterov ? slope + kMomentum * v[i] : v[i]);
        }
      };
      update(w, vw, qw, gw);
      update(b, vb, qb, gb);
      if (std::abs(report.loss - loss) > 1e-12) throw InternalError("another loss than the plain loops'");
      if (std::abs(report.learning_rate - rate) > 1e-15 || report.gradient_norm.has_value() == plain)
        throw InternalError("another learning rate");
      if (!plain && std::abs(*report.gradient_norm - std::sqrt(squares)) > 1e-12) throw InternalError("another norm");
    }
    if (!plain && kind == "sgd" && (clipped == 0 || clipped == 5)) throw InternalError("some steps are clipped, some are not");
    const State& state = trainer.state();
    const std::vector<double> slot = state.get(rt.transport(), "fc.weight", kind == "sgd" ? "velocity" : "square");
    for (std::size_t i = 0; i < slot.size(); i++)
      if (std::abs(slot[i] - (kind == "sgd" ? vw : qw)[i]) > 1e-12) throw InternalError("another slot than the plain loops'");
    bool refused = false;
    try {
      state.get(rt.transport(), "fc.weight", "velocty");
    } catch (const UserError&) {
      refused = true;
    }
    if (!refused) throw InternalError("a slot that is not there is given");
    const auto end = weights(rt, plan, trainer);
    for (std::size_t i = 0; i < w.size(); i++)
      if (std::abs(end.at("fc.weight").values[i] - w[i]) > 1e-12) throw InternalError("another weight than the plain loops'");
    for (std::size_t i = 0; i < b.size(); i++)
      if (std::abs(end.at("fc.bias").values[i] - b[i]) > 1e-12) throw InternalError("another bias than the plain loops'");
  });
}

TEST_CASE("trainer: the sum of several losses is trained, each is reported", "[train]") {
  auto report_of = [](bool several) {
    Graph g;
    const Tensor x = g.input("image", {{"batch", 4}, {"in", 3}});
    const Tensor h = dense(x, {.out = {Dim{"f", 5}}, .name = "first"});
    const Tensor one = mean(relu(dense(h, {.out = {Dim{"a", 2}}, .name = "a"}))),
                 other = sum(sigmoid(dense(h, {.out = {Dim{"b", 3}}, .name = "b"})));
    const Step step = several ? training({one, other}, Sgd{}) : training(add(one, other), Sgd{});
    if (several) {
      CHECK_THROWS_WITH(training({one, add(one, other)}, Sgd{}), Catch::Contains("depends on the loss"));
      CHECK_THROWS_WITH(training({one, one}, Sgd{}), Catch::Contains("is listed twice"));
      CHECK_THROWS_WITH(training(std::vector<Tensor>{}, Sgd{}), Catch::Contains("no loss to train on"));
    }
    const Plan plan =
        balance(step, line_of(3), {{"f", "all", Sizes{{2, 0, 3}}}, {"b", "all", Sizes{{0, 1, 2}}}}, {}, {.dtype = DType::f64});
    std::vector<StepReport> reports;
    run_ranks_in_memory(3, [&](Runtime& rt) {
      Trainer trainer(rt, plan);
      for (int s = 0; s < 3; s++) {
        const StepReport report = trainer.step({{x, [](const Box& box, std::span<std::byte> out) {
                                                   auto* to = reinterpret_cast<double*>(out.data());
                                                   for_each_index(box, [&](const std::vector<Index>& i) {
                                                     *to++ = std::sin(static_cast<double>(1 + i[0] * 3 + i[1]));
                                                   });
                                                 }}});
        if (rt.rank() == 0) reports.push_back(report);
      }
    });
    return reports;
  };
  const auto both = report_of(true), sum = report_of(false);
  for (std::size_t s = 0; s < both.size(); s++) {
    CHECK(both[s].loss == Approx(sum[s].loss).epsilon(1e-13));
    REQUIRE(both[s].losses.size() == 2);
    CHECK(sum[s].losses == std::vector<double>{sum[s].loss});
    CHECK(both[s].losses[0] + both[s].losses[1] == both[s].loss);
    CHECK(both[s].losses[0] != both[s].losses[1]);
  }
}

TEST_CASE("several losses of a deep network with many paths, one made of another", "[train]") {
  Graph g;
  Tensor x = dense(g.input("x", {{"n", 2}, {"in", 2}}), {.out = {{"f", 2}}, .name = "d"});
  for (int i = 0; i < 100; i++) x = add(x, x);
  const Tensor first = sum(x), second = mean(x);
  CHECK_NOTHROW(training(std::vector<Tensor>{first, second}, Sgd{}));
  CHECK_THROWS_WITH(training(std::vector<Tensor>{first, add(first, second)}, Sgd{}), Catch::Contains("depends on the loss"));
}

TEST_CASE("a weight shared through another layer is the first layer's, with its initial values, also where that layer is not used",
          "[train]") {
  const Dim batch{"batch", 4}, f{"f", 30}, g{"g", 30};
  const auto start = [&](bool used, const WeightOptions& of, DType storage) {
    Graph graph;
    const Tensor x = graph.input("x", {batch, f});
    const Tensor a = dense(x, {.out = {g}, .bias = false, .weight = of, .name = "A"});
    const Tensor b = dense(x, {.out = {g}, .bias = false, .weight = {.layer = "A"}, .name = "B"});
    const Tensor c = dense(x, {.out = {g}, .bias = false, .weight = {.layer = "B"}, .name = "C"});
    const Step step = training({mean(used ? add(a, add(b, c)) : c)}, Sgd{}, {.storage = storage});
    const State state(balance(step, line_of(1), {}, {}), 0, 5);
    CHECK(state.names() == std::vector<std::string>{"A.weight"});
    return state.shard("A.weight").at(0).values;
  };
  for (const WeightOptions& of : {WeightOptions{}, WeightOptions{.initial = InitialWeights::normal, .deviation = 0.01},
                                  WeightOptions{.initial = InitialWeights::ones}})
    for (const DType storage : {DType::f32, DType::bf16}) CHECK(start(false, of, storage) == start(true, of, storage));
}

TEST_CASE("what a graph has refused leaves nothing in it", "[train]") {
  Graph graph;
  CHECK_THROWS_WITH(graph.input("x", {Dim{"f", 0}}), Catch::Contains("expected at least 1"));
  CHECK_THROWS_WITH(graph.input("x", {Dim{"g", 3}, Dim{"g", 4}}), Catch::Contains("g"));
  const Tensor x = graph.input("x", {Dim{"batch", 2}, Dim{"g", 5}});
  CHECK_THROWS_WITH(dense(x, {.out = {{"o", 5}, {"g", 5}}}), Catch::Contains("a dim that the input has"));
  CHECK_THROWS_WITH(relu(x, {"x"}), Catch::Contains("are called \"x\""));
  CHECK(relu(x).name() == "relu_1");
  CHECK(dense(x, {.out = {{"o", 6}}}).shape().size_of("o") == 6);
  CHECK_THROWS_WITH(rename(x, Dim{"g"}, {"n", -6}), Catch::Contains("\"n\" has the size -6"));
  CHECK_THROWS_WITH(reshape(x, {.in = {Dim{"g"}}, .out = {{"n", -5}}}), Catch::Contains("\"n\" has the size -5"));
}

TEST_CASE("an input that is called like a copy of the labels is not taken for it", "[train]") {
  Graph graph;
  const Dim batch{"batch", 4}, in{"in", 3}, classes{"classes", 3};
  const Tensor x = graph.input("x", {batch, in}), y = graph.input("y.0", {batch}, DType::i32),
               other = graph.input("y.0.all", {batch}, DType::i32);
  const auto loss = [&](const std::string& name, const Tensor& labels) {
    return mean(softmax_cross_entropy(dense(x, {.out = {classes}, .name = name}), labels, classes, {.ignore_index = 1}));
  };
  const Step step = training({loss("a", y), loss("b", other)}, Sgd{}, {.accumulate = 2});
  CHECK(step.passes().tensors.at(static_cast<std::size_t>(step.passes().find("y.0.all"))).fed_from == -1);
  CHECK(step.passes().find("all of y.0") >= 0);
}
