// SPDX-License-Identifier: Apache-2.0
// Gradient law: finite differences of the loss in f64, per parameter, through whole random networks.
#include <motley/error.h>
#include <motley/executor.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.h"
#include "plan/plan_data.h"
#include "tests/support/random_network.h"
#include "tests/support/run_plan.h"
#include "train/keys.h"

using namespace motley;
using namespace motley::law;

namespace {

struct Runner {
  Plan plan;
  Program program;
  State state;
  std::unique_ptr<Backend> backend = reference_backend();
  std::vector<std::unique_ptr<Transport>> transport = in_memory(1);
  Executor executor;

  explicit Runner(const Step& step)
      : plan(balance(step, mesh_of({{"one", 1}}), {}, {}, {.dtype = DType::f64})),
        program(compile(plan, 0, {.keep_gradients = true})),
        state(plan, program.rank, 3),
        executor(program, *backend, *transport.front(), state) {
    spread_constants(plan, program, executor);
  }
  void feed() {  // before each run: an input's memory is used again after its last reader
    executor.feed([&](const std::string& name, const Box& box, std::span<std::byte> out) {
      if (name.ends_with(".key")) return random_keys(3, name, 1)(box, out);
      const RandomStream stream(5, name);
      const Passes& passes = plan.data().passes;
      const bool whole = passes.tensors[static_cast<std::size_t>(passes.find(name))].dtype == DType::i32;
      for (Index i = 0; i < volume(box); i++) {
        if (whole)
          reinterpret_cast<std::int32_t*>(out.data())[i] = static_cast<std::int32_t>(i % 2);
        else
          reinterpret_cast<double*>(out.data())[i] = 2 * stream.uniform(static_cast<std::uint64_t>(i)) - 1;
      }
    });
  }
  double loss() {
    feed();
    executor.run_forward();
    return executor.read(program.buffer_of(plan.data().passes.outputs.front(), Stored::As::owner, {}), {}).front();
  }
};

// Of every parameter, at three of its elements.
void check_gradients(const Network& net, int number, Random& random) {
  Runner run(training(net.loss, Sgd{.learning_rate = 0}));
  run.feed();
  run.executor.run();
  std::vector<std::vector<double>> gradients;  // read before the next run uses their memory
  for (const Slice& s : run.program.slices) gradients.push_back(run.executor.read(s.gradient, s.box));
  for (std::size_t i = 0; i < gradients.size(); i++) {
    const Slice& s = run.program.slices[i];
    if (run.plan.data().passes.statistic(s.tensor) != nullptr) continue;
    const std::vector<double>&gradient = gradients[i], values = run.executor.read(s.value, s.box);
    double most = 0;
    for (double g : gradient) most = std::max(most, std::abs(g));
    for (int k = 0; k < 3; k++) {
      const auto at = static_cast<std::size_t>(pick(random, 0, static_cast<Index>(values.size()) - 1));
      // A kink between the two points shows as a difference that does not shrink with the step: the best of two steps counts.
      double off = INFINITY;
      for (const double e : {1e-5, 1e-6}) {
        std::vector<double> moved = values;
        moved[at] = values[at] + e;
        run.executor.write(s.value, s.box, moved);
        const double up = run.loss();
        moved[at] = values[at] - e;
        run.executor.write(s.value, s.box, moved);
        const double down = run.loss();
        off = std::min(off, std::abs((up - down) / (2 * e) - gradient[at]));
      }
      run.executor.write(s.value, s.box, values);
      INFO("case " << number << " " << s.name << " element " << at << " gradient " << gradient[at]);
      CHECK(off <= 1e-7 + 1e-5 * most);
    }
  }
}

}  // namespace

TEST_CASE("gradient law: finite differences of every parameter of random networks", "[law]") {
  for (int number = 0; number < share_of(60); number++) {
    Random random(static_cast<unsigned>(40000 + number));
    const Network net = build(random_recipe(random));
    check_gradients(net, number, random);
  }
}

TEST_CASE("gradient law: convolutions by groups and products of activations", "[law]") {
  for (int number = 0; number < share_of(40); number++) {
    Random random(static_cast<unsigned>(44000 + number));
    const Network net = build(with_products(with_groups(random_recipe(random), random), random));
    check_gradients(net, number, random);
  }
}

TEST_CASE("gradient law: upsampling", "[law]") {
  for (int number = 0; number < share_of(40); number++) {
    Random random(static_cast<unsigned>(47000 + number));
    const Network net = build(with_upsampling(random_recipe(random), random));
    check_gradients(net, number, random);
  }
}

TEST_CASE("gradient law: maps by a formula", "[law]") {
  for (int number = 0; number < share_of(60); number++) {
    Random random(static_cast<unsigned>(45000 + number));
    const Network net = build(with_maps(random_recipe(random), random));
    check_gradients(net, number, random);
  }
}

TEST_CASE("gradient law: attention", "[law]") {
  for (int number = 0; number < share_of(40); number++) {
    Random random(static_cast<unsigned>(48000 + number));
    const Network net = build(with_attention(random_recipe(random), random));
    check_gradients(net, number, random);
  }
}

TEST_CASE("gradient law: embeddings, shared weights, learned constants", "[law]") {
  for (int number = 0; number < share_of(40); number++) {
    Random random(static_cast<unsigned>(49000 + number));
    const Network net = token_network(random);
    check_gradients(net, number, random);
  }
}

TEST_CASE("gradient law: losses", "[law]") {
  for (int number = 0; number < share_of(200); number++) {
    Random random(static_cast<unsigned>(47000 + number));
    const Network net = loss_network(random);
    check_gradients(net, number, random);
  }
}

TEST_CASE("gradient law: norms, dropout, softmax and products by broadcast tensors", "[law]") {
  for (int number = 0; number < share_of(60); number++) {
    Random random(static_cast<unsigned>(46000 + number));
    const Network net = build(with_norms(random_recipe(random), random));
    check_gradients(net, number, random);
  }
}
