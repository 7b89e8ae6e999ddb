// SPDX-License-Identifier: Apache-2.0
// Ops that change a shape: their values, element by element against the index formulas, whole and under uneven cuts; what moves;
// errors.
#include <motley/error.h>
#include <motley/executor.h>
#include <motley/ops.h>

#include <catch2/catch.hpp>
#include <functional>
#include <mutex>

#include "plan/index_maps.h"
#include "plan/kernel_of.h"
#include "plan/planner.h"
#include "run/gather.h"
#include "tests/support/each_index.h"
#include "tests/support/threads.h"

using namespace motley;

namespace {

constexpr Index kN = 3, kC = 6, kH = 4;
const Dim n{"n", kN}, c{"c", kC}, h{"h", kH};

double x(Index ni, Index ci, Index hi) {
  return static_cast<double>((ni * kC + ci) * kH + hi);
}

Mesh line(int ranks) {
  return Mesh({{"all", ranks}}, std::vector<Device>(static_cast<std::size_t>(ranks)));
}

// The tensor's values, put together from all ranks; x[n c h] is filled with its linear index.
std::vector<double> run(const Plan& plan, const std::string& name) {
  std::vector<double> out;
  std::mutex mutex;
  on_threads(plan.mesh().ranks(), [&](Transport& transport) {
    const Program program = compile(plan, transport.rank());
    const auto backend = reference_backend();
    State state(plan, program.rank, 1);
    Executor executor(program, *backend, transport, state);
    executor.feed([&](const std::string&, const Box& box, std::span<std::byte> bytes) {
      auto* at = reinterpret_cast<double*>(bytes.data());
      for_each_index(box, [&](const std::vector<Index>& i) { *at++ = x(i[0], i[1], i[2]); });
    });
    const Ran ran = executor.run();
    const WholeTensor whole = gather_output(plan, program, executor, transport, plan.data().passes.find(name));
    const std::lock_guard lock(mutex);
    CHECK(ran.bytes_received == plan.data().predicted[static_cast<std::size_t>(transport.rank())].bytes);
    if (transport.rank() == 0) out = whole.values;
  });
  return out;
}

Plan plan_of(const Tensor& y, const LayoutRules& rules, int ranks) {
  return balance(inference({y}), line(ranks), rules, {}, {.dtype = DType::f64});
}

using Formula = std::function<double(const std::vector<Index>&)>;  // y at its global indices

// Whole, cut along the input's dims, cut along the output's own.
void check_values(const std::function<Tensor(const Tensor&)>& op, const std::vector<Dim>& shape, const Formula& right) {
  for (int kind = 0; kind < 4; kind++) {
    Graph g;
    const Tensor in = relu(g.input("x", {n, c, h}), {"in"}), y = op(in);
    REQUIRE(y.shape() == Shape(shape));
    LayoutRules rules;
    const int ranks = kind == 0 ? 1 : 3;
    if (kind == 1) rules.split.push_back({c, "all", Sizes{{1, 0, 5}}});
    if (kind == 2) rules.split.push_back({h, "all", Sizes{{2, 1, 1}}});
    if (kind == 3) {
      const Dim& last = y.shape().dims().back();
      rules.tensor(y.name(), {{last, "all", Sizes{{last.size - last.size / 2, 0, last.size / 2}}}});
    }
    const std::vector<double> got = run(plan_of(y, rules, ranks), y.name());
    std::size_t k = 0;
    int wrong = 0;
    for_each_index(whole(y.shape()), [&](const std::vector<Index>& at) { wrong += got[k++] != right(at); });
    INFO(y.name() << ", layout " << kind);
    CHECK(wrong == 0);
  }
}

std::string refused(const std::function<Tensor(Graph&, const Tensor&)>& call) {
  Graph g;
  const Tensor in = g.input("x", {n, c, h});
  try {
    call(g, in);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("shapes: reshape splits, merges, and mixes two dims into two", "[shapes]") {
  check_values(
      [](const Tensor& t) {
        return reshape(t, {.in = {c}, .out = {{"g", 2}, {"e"}}});
      },
      {n, {"g", 2}, {"e", 3}, h}, [](const auto& i) { return x(i[0], i[1] * 3 + i[2], i[3]); });
  check_values(
      [](const Tensor& t) {
        return reshape(t, {.in = {c, h}, .out = {{"m"}}});
      },
      {n, {"m", 24}}, [](const auto& i) { return x(i[0], i[1] / 4, i[1] % 4); });
  check_values(
      [](const Tensor& t) {
        return reshape(t, {.in = {h, c}, .out = {{"m"}}});
      },
      {n, {"m", 24}}, [](const auto& i) { return x(i[0], i[1] % 6, i[1] / 6); });
  check_values(
      [](const Tensor& t) {
        return reshape(t, {.in = {c, h}, .out = {{"a"}, {"b", 8}}});
      },
      {n, {"a", 3}, {"b", 8}},
      [](const auto& i) {
        const Index flat = i[1] * 8 + i[2];
        return x(i[0], flat / 4, flat % 4);
      });
  check_values([](const Tensor& t) { return flatten(t, "flat"); }, {n, {"flat", 24}},
               [](const auto& i) { return x(i[0], i[1] / 4, i[1] % 4); });
}

TEST_CASE("shapes: rename, transpose, slice, pad, concat, stack", "[shapes]") {
  check_values([](const Tensor& t) { return rename(t, c, {"d"}); }, {n, {"d", kC}, h},
               [](const auto& i) { return x(i[0], i[1], i[2]); });
  check_values(
      [](const Tensor& t) {
        return transpose(t, {h, n, c});
      },
      {h, n, c}, [](const auto& i) { return x(i[1], i[2], i[0]); });
  check_values(
      [](const Tensor& t) {
        return slice(t, {.in = c, .range = {2, 5}, .out = {"s"}});
      },
      {n, {"s", 3}, h}, [](const auto& i) { return x(i[0], i[1] + 2, i[2]); });
  check_values([](const Tensor& t) { return pad(t, {.in = h, .before = 1, .after = 2, .out = {"p"}}); }, {n, c, {"p", 7}},
               [](const auto& i) { return i[2] < 1 || i[2] > 4 ? 0.0 : x(i[0], i[1], i[2] - 1); });
  check_values(
      [](const Tensor& t) {
        return concat({t, slice(t, {.in = c, .range = {4, 6}, .out = {"s"}})}, {.in = {c, {"s"}}, .out = {"both"}});
      },
      {n, {"both", 8}, h}, [](const auto& i) { return x(i[0], i[1] < 6 ? i[1] : i[1] - 2, i[2]); });
  check_values(
      [](const Tensor& t) {
        return stack(
            {t, t, sigmoid(pad(slice(t, {.in = h, .range = {0, 1}, .out = {"one"}}), {.in = {"one"}, .after = 3, .out = h}))},
            {.out = {"k"}});
      },
      {n, {"k", 3}, c, h},
      [](const auto& i) {
        if (i[1] < 2) return x(i[0], i[2], i[3]);
        return 1.0 / (1.0 + std::exp(i[3] == 0 ? -x(i[0], i[2], 0) : -0.0));
      });
}

TEST_CASE("shapes: on block multiples nothing moves, elsewhere the plan gathers and says so", "[shapes]") {
  auto bytes = [](const Plan& plan) {
    Index sum = 0;
    for (const PredictedRank& r : plan.data().predicted) sum += r.bytes;
    return sum;
  };
  // c 2 + 4 is g 1 + 2 of g=3 e=2: in place. c 3 + 3 is not. Read by an op along the same cut; rank 0 alone reads the sum.
  for (const bool fits : {true, false}) {
    Graph g;
    const Tensor y = relu(reshape(g.input("x", {n, c, h}), {.in = {c}, .out = {{"g", 3}, {"e"}}, .name = "split"}));
    const std::vector<Index> cut = fits ? std::vector<Index>{2, 4} : std::vector<Index>{3, 3};
    const Plan plan = plan_of(sum(y), {{c, "all", Sizes{cut}}}, 2);
    const PlanData& data = plan.data();
    const Layout& made = data.tensors[static_cast<std::size_t>(data.passes.find("split"))].layout;
    CHECK(made.cuts.at("g").lists.front().sizes() == (fits ? std::vector<Index>{1, 2} : std::vector<Index>{2, 1}));
    CHECK(bytes(plan) == 8);  // x is an input: read from where the data is
  }
  for (const bool fits : {true, false}) {
    Graph g;
    const Tensor in = relu(g.input("x", {n, c, h}), {"in"});
    const Tensor y = relu(reshape(in, {.in = {c}, .out = {{"g", 3}, {"e"}}, .name = "split"}));
    const Plan plan = plan_of(sum(y), {{c, "all", Sizes{fits ? std::vector<Index>{2, 4} : std::vector<Index>{3, 3}}}}, 2);
    CHECK(bytes(plan) == (fits ? 8 : 8 + kN * kH * 8));  // c = 3 belongs to g = 1, which rank 0 has
    std::string notes;
    for (const std::string& note : plan.data().notes) notes += note + "\n";
    CHECK((notes.find(
               "split forward: its cut and that of \"in\" are not aligned at block boundaries; 12 elements are gathered first") ==
           std::string::npos) == fits);
  }
}

TEST_CASE("shapes: dims that are made follow the dims they come from", "[shapes]") {
  Graph g;
  const Tensor in = relu(g.input("x", {n, c, h}));
  const Tensor some = slice(in, {.in = c, .range = {1, 5}, .out = {"some"}, .name = "some"});
  const Tensor more = pad(some, {.in = {"some"}, .before = 2, .after = 1, .out = {"more"}, .name = "more"});
  const Tensor flat = flatten(rename(more, {"more"}, {"again"}), "flat", {"flat"});
  const Step step = inference({flat});
  const Layouts layouts(step.passes(), line(3), {{c, "all", Sizes{{2, 0, 4}}}});
  auto sizes = [&](const std::string& tensor, const std::string& dim) {
    return layouts.of(step.passes().find(tensor)).cuts.at(dim).lists.front().sizes();
  };
  CHECK(sizes("some", "some") == std::vector<Index>{1, 0, 3});
  CHECK(sizes("more", "more") == std::vector<Index>{3, 0, 4});
  CHECK(sizes("flat", "flat") == std::vector<Index>{12, 0, 16});
  const Layouts own(step.passes(), line(3), {{c, "all", Sizes{{2, 0, 4}}}, {Dim{"more"}, Axes()}});
  CHECK(own.of(step.passes().find("more")).cuts.empty());
  CHECK(own.of(step.passes().find("flat")).cuts.empty());
}

TEST_CASE("shapes: numbers and boxes", "[shapes]") {
  const std::vector<Index> sizes{3, 4, 5};
  for (Index begin = 0; begin <= 60; begin++)
    for (Index end = begin + 1; end <= 60; end++) {
      const Box box = box_of_numbers(sizes, {begin, end});
      const Range back = numbers_of(sizes, box);
      CHECK((back.begin <= begin && back.end >= end && back.size() == volume(box)));  // holds them, without gaps
      for (std::size_t k = 0; k < 3; k++) {                                           // and no smaller box does
        Index low = 60, high = -1;
        for (Index i = begin; i < end; i++) {
          const Index digit = k == 0 ? i / 20 : k == 1 ? i / 5 % 4 : i % 5;
          low = std::min(low, digit);
          high = std::max(high, digit);
        }
        const bool crosses = (k == 1 && begin / 20 != (end - 1) / 20) || (k == 2 && begin / 5 != (end - 1) / 5);
        CHECK((crosses ? box[k] == Range{0, sizes[k]} : box[k] == Range{low, high + 1}));
      }
    }
  CHECK(numbers_of({}, {}) == Range{0, 1});
}

TEST_CASE("shapes: what does not fit is said with layers, dims and sizes", "[shapes]") {
  using T = const Tensor&;
  CHECK(refused([](Graph&, T t) {
          return reshape(t, {.in = {c}, .out = {{"g", 4}, {"e"}}});
        }) == "reshape: \"x\" has 6 in `in`, which 4 does not divide: \"e\" would not have an integer size");
  CHECK(refused([](Graph&, T t) {
          return reshape(t, {.in = {c, h}, .out = {{"g", 4}, {"e", 5}}});
        }) == "reshape: `out` makes 4 x 5 = 20 elements, \"x\" has 6 x 4 = 24 in `in`");
  CHECK(refused([](Graph&, T t) {
          return reshape(t, {.in = {c}, .out = {{"g"}, {"e"}}});
        }) == "reshape: the sizes of \"g\" and \"e\" are both missing; give one of them");
  CHECK(refused([](Graph&, T t) { return reshape(t, {.in = {{"cc"}}, .out = {{"g"}}}); }) ==
        "reshape: `in` names \"cc\", which \"x\" does not have; did you mean \"c\"?");
  CHECK(refused([](Graph&, T t) { return rename(t, c, h); }) ==
        "rename: `out` may not be a dim that the input has: \"h\" is one of \"x\"");
  CHECK(refused([](Graph&, T t) {
          return transpose(t, {n, c});
        }) == "transpose: `order` names each dim of \"x\" once; \"h\" is listed 0 times");
  CHECK(refused([](Graph&, T t) {
          return slice(t, {.in = c, .range = {4, 8}, .out = {"s"}});
        }) == "slice: the range [4, 8) of \"c\" does not fit its size 6 in \"x\"; expected 0 <= begin < end <= 6");
  CHECK(refused([](Graph&, T t) { return pad(t, {.in = c, .out = {"p"}}); }) ==
        "pad: before 0 and after 0; expected numbers from 0 to 2^40, one above 0");
  CHECK(refused([](Graph&, T t) {
          return slice(t, {.in = c, .range = {0, 2}, .out = {"s", 3}});
        }) == "slice: \"s\" has the size 3 here, but from \"x\" follows the size 2");
  CHECK(refused([](Graph&, T t) {
          return concat({t, slice(t, {.in = h, .range = {0, 2}, .out = {"s"}})}, {.in = {c}, .out = {"both"}});
        }) == "concat: \"slice_1\" and \"x\" differ in a dim: only the first of them has \"s\"");
  CHECK(refused([](Graph&, T t) {
          return concat({t, t}, {.in = {c, c, c}, .out = {"both"}});
        }) == "concat: `in` names 3 dims for 2 tensors; expected one dim for all, or one for each");
  CHECK(refused([](Graph&, T t) {
          return stack({t, rename(t, c, {"d"})}, {.out = {"k"}});
        }) == "stack: \"rename_1\" and \"x\" differ in a dim: only the first of them has \"d\"");
  CHECK(refused([](Graph& g, T t) {
          return concat({t, g.input("label", {n}, DType::i32)}, {.in = {n}, .out = {"both"}});
        }) == "concat works on floats; \"label\" holds integers");
}

TEST_CASE("dims that are named twice, and values that are no numbers, are refused") {
  using T = const Tensor&;
  CHECK(refused([](Graph&, T t) { return mean(t, {c, h, c}); }) == "mean: `over` names \"c\" twice");
  CHECK(refused([](Graph&, T t) { return dense(t, {.in = {c, c}, .out = {Dim{"f", 2}}}); }) == "dense: `in` names \"c\" twice");
  CHECK(refused([](Graph&, T t) { return dense(t, {.out = {Dim{"f", 2}}, .keep = {n, n}}); }) == "dense: `keep` names \"n\" twice");
  CHECK_THAT(refused([](Graph&, T t) { return sum(t, {Dim{"cc"}}); }), Catch::Contains("sum: `over` names \"cc\", which \"x\""));
  CHECK_THAT(refused([](Graph&, T t) { return leaky_relu(t, {.slope = std::nan("")}); }), Catch::Contains("leaky_relu: slope"));
}

TEST_CASE("windows: numbers whose products would not fit are refused by name") {
  using T = const Tensor&;
  const Index huge = Index{1} << 62;
  const Dim f{"f", 2}, w{"w", 5};
  const auto image = [&](Graph& g) { return g.input("image", {n, c, h, w}); };
  const std::string range = "expected an integer from 1 to 1048576, found 4611686018427387904";
  CHECK(refused([&](Graph& g, T) { return upsample2d(image(g), {.scale = huge}); }) == "upsample2d: scale: " + range);
  CHECK(refused([&](Graph& g, T) { return conv2d(image(g), {.out = f, .window = huge}); }) == "window: " + range);
  CHECK(refused([&](Graph& g, T) { return conv2d(image(g), {.out = f, .window = 3, .dilation = huge}); }) == "dilation: " + range);
  CHECK(refused([&](Graph& g, T) { return conv_transpose2d(image(g), {.out = f, .window = 3, .stride = huge}); }) ==
        "stride: " + range);
  CHECK_THAT(refused([&](Graph& g, T) { return conv2d(image(g), {.out = f, .window = 3, .padding = huge}); }),
             Catch::Contains("padding: expected an integer from 0 to 1048576"));
}

TEST_CASE("groups and products: what does not fit is said with dims and sizes") {
  using T = const Tensor&;
  const Dim w{"w", 5};
  auto by_groups = [&](Index channels, Index filters, Index groups) {
    return refused([&](Graph& g, T) {
      return conv2d(g.input("image", {n, {"in", channels}, h, w}), {.out = {"f", filters}, .window = 1, .groups = groups});
    });
  };
  CHECK(by_groups(6, 8, 2) == "");
  CHECK(by_groups(6, 8, 3) ==
        "`groups` is 3, which does not divide the 8 of \"f\"; every group has as many channels, and as many filters");
  CHECK(by_groups(6, 8, 4) ==
        "`groups` is 4, which does not divide the 6 of \"in\"; every group has as many channels, and as many filters");
  CHECK(by_groups(6, 8, 0) == "`groups` is 0; expected at least 1");
  CHECK(refused([&](Graph& g, T t) {
          return matmul(t, g.input("y", {n, w}), {.over = {}});
        }) == "matmul needs `over`: the dims of both tensors that it contracts");
  CHECK(refused([&](Graph& g, T t) {
          return matmul(t, g.input("y", {n, w}), {.over = {c}});
        }) == "matmul: `over` names \"c\", which \"y\" does not have; did you mean \"n\"?");
  CHECK(refused([&](Graph& g, T t) { return matmul(t, g.input("y", {n}, DType::i32), {.over = {n}}); }) ==
        "matmul works on floats; \"y\" holds integers");
}

TEST_CASE("dense: an index of input, weight and result counts a batch of products, never dropped") {
  Graph g;
  const Tensor y = dense(g.input("x", {n, c}), {.out = {{"f", 5}}});
  Passes passes = inference({y}).passes();
  for (const PassKind kind : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter}) {
    Pass pass = passes.passes.front();
    REQUIRE(pass.op == KernelOp::dense);
    const Box work{{0, kN}, {0, kC}, {0, 5}, {0, 2}};
    const std::vector<Format> formats(passes.tensors.size(), Format::plain);
    const Box plain(work.begin(), work.begin() + 3);
    pass.kind = kind;
    const PassOperand was[] = {pass.reads[0], pass.reads[1], pass.writes};  // x, w, y
    if (kind == PassKind::backward_data) pass.reads[0] = was[2], pass.writes = was[0];
    if (kind == PassKind::backward_filter) pass.reads[1] = was[2], pass.writes = was[1];
    CHECK(kernel_of(passes, pass, plain, DType::f32, formats).roles == Roles{.n = kN, .c = kC, .f = 5});
    pass.indices.push_back({"heads", 2});
    for (PassOperand* o : {&pass.reads[0], &pass.reads[1], &pass.writes}) o->indices.push_back(3);
    CHECK(kernel_of(passes, pass, work, DType::f32, formats).roles == Roles{.n = kN, .c = kC, .f = 5, .g = 2});
    pass.writes.indices.pop_back();
    pass.reads[0].indices.pop_back();
    CHECK_THROWS_AS(kernel_of(passes, pass, work, DType::f32, formats), InternalError);
  }
}

TEST_CASE("the order of dims that dense and matmul give, as docs/own_network.md says") {
  const Dim n{"n", 2}, h{"h", 3}, d{"d", 4}, i{"i", 5}, j{"j", 6}, out{"out", 7}, more{"more", 8};
  Graph g;
  const Tensor q = g.input("q", {n, h, d, i}), k = g.input("k", {n, j, d, h});
  CHECK(matmul(q, k, {.over = {d}}).shape() == Shape{n, h, j, i});
  CHECK(matmul(k, q, {.over = {d}}).shape() == Shape{n, j, i, h});
  CHECK(matmul(q, k, {.over = {d, h}}).shape() == Shape{n, j, i});
  // The weight has what is contracted in the input's order, however it is listed.
  for (const std::vector<Dim>& in : {std::vector<Dim>{h, i}, std::vector<Dim>{i, h}}) {
    const Tensor y = dense(q, {.in = in, .out = {out, more}});
    CHECK(y.shape() == Shape{n, out, more, d});
    const Step step = inference({y});
    const Passes& passes = step.passes();
    CHECK(passes.tensors.at(static_cast<std::size_t>(passes.find(y.name() + ".weight"))).shape == Shape{out, more, h, i});
    CHECK(passes.tensors.at(static_cast<std::size_t>(passes.find(y.name() + ".bias"))).shape == Shape{out, more});
  }
}
