// SPDX-License-Identifier: Apache-2.0
// Maps that become a part of other maps: which do, how many kernels and bytes that saves, and that no bit changes.
#include <motley/backend.h>
#include <motley/motley.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "graph/compiled.h"
#include "graph/optimizers.h"
#include "graph/pointwise.h"
#include "kernels/operands.h"
#include "plan/plan_data.h"
#include "program/compile.h"
#include "program/join_maps.h"
#include "tests/support/formulas.h"
#include "tests/support/run_plan.h"
#include "tests/support/synthetic_profile.h"

using namespace motley;
using namespace motley::testing;

namespace {

int kernels_in(const Program& program) {
  int out = 0;
  for (const ProgramStep& s : program.steps) out += std::holds_alternative<RunKernel>(s.what);
  return out;
}

const RunKernel* kernel_named(const Program& program, const std::string& pass) {
  for (const ProgramStep& s : program.steps)
    if (const auto* run = std::get_if<RunKernel>(&s.what); run != nullptr && run->pass == pass) return run;
  return nullptr;
}

// Two residual blocks, each result with a relu: its gradient is that of a sum of two branches.
Step residual_net(Index batch) {
  Graph graph;
  Tensor x = conv2d(graph.input("image", {{"batch", batch}, {"in", 3}, {"rows", 16}, {"cols", 16}}),
                    {.out = {"f0", 16}, .window = 3, .padding = same, .name = "stem"});
  for (const std::string k : {"1", "2"}) {
    const Tensor branch = conv2d(relu(conv2d(x, {.out = {"f" + k, 16}, .window = 3, .padding = same, .name = "a" + k})),
                                 {.out = {"f0", 16}, .window = 3, .padding = same, .name = "b" + k});
    x = relu(add(branch, x), {"out" + k});
  }
  return training(sum(conv2d(x, {.out = {"g", 4}, .window = 1, .name = "last"})), Sgd{.learning_rate = 1e-6});
}

// All kernels one after the other, in f32.
void run_all(Backend& backend, const std::vector<RunKernel>& kernels, std::vector<std::vector<std::byte>>& memory) {
  for (const RunKernel& one : kernels) {
    const auto kernel = backend.compile(one.spec);
    std::vector<std::byte> workspace(kernel->workspace_bytes() + 64);
    std::vector<void*> operands;
    for (std::size_t k = 0; k < one.operands.size(); k++)
      operands.push_back(memory[static_cast<std::size_t>(one.operands[k].buffer)].data() +
                         one.operands[k].element * static_cast<Index>(bytes_of(one.spec.operands[k].dtype)));
    kernel->run(operands, workspace.data());
  }
}

// Over n x m elements of f32, operands by number of their buffer: an operand that is not dense says its strides.
struct Part {
  Formula formula{};
  std::vector<int> buffers{};
  Index summands = 1;
  Combine combine = Combine::set;
  std::vector<std::vector<Index>> strides{};
  std::vector<Index> extents{6, 40};
  DType dtype = DType::f32;
};
RunKernel kernel_of_part(const Part& part) {
  RunKernel run;
  run.spec.op = KernelOp::map;
  run.spec.formula = part.formula;
  run.spec.summands = part.summands;
  run.spec.combine = part.combine;
  run.spec.extents = part.extents;
  for (std::size_t k = 0; k < part.buffers.size(); k++) {
    const bool given = k < part.strides.size() && !part.strides[k].empty();
    run.spec.operands.push_back({part.dtype, given ? part.strides[k] : strides_of(Format::plain, part.extents)});
    run.operands.push_back({part.buffers[k], 0});
  }
  return run;
}

// The two kernels and the joined one leave the same bits, in all but the buffer between them (number 0), if there is one.
void check_same_bits(const RunKernel& first, const RunKernel& then, const RunKernel& joined, std::size_t from = 1) {
  const auto backend = open_backend(Device{});
  std::vector<std::vector<std::byte>> memory(8, std::vector<std::byte>(8 * 400));
  std::mt19937 random(5);
  std::uniform_real_distribution<double> real(-2, 2);
  const bool wide = first.spec.operands.front().dtype == DType::f64;
  for (auto& block : memory)
    for (std::size_t i = 0; i < 400; i++)
      if (const double value = i % 17 == 3 ? -0.0 : real(random); wide)
        std::memcpy(block.data() + 8 * i, &value, 8);
      else if (const auto narrow = static_cast<float>(value); true)
        std::memcpy(block.data() + 4 * i, &narrow, 4);
  auto apart = memory;
  run_all(*backend, {first, then}, apart);
  run_all(*backend, {joined}, memory);
  for (std::size_t b = from; b < memory.size(); b++) {
    INFO("buffer " << b);
    CHECK(std::memcmp(memory[b].data(), apart[b].data(), memory[b].size()) == 0);
  }
}

}  // namespace

TEST_CASE("two maps as one leave the same bits", "[fuse]") {
  const Value a = operand(0), b = operand(1), c = operand(2);
  const Formula gelu = forward_of("gelu"), relu_gradient = gradient_of("relu"), gelu_gradient = gradient_of("gelu");
  const std::vector<Index> row{0, 1}, column{40, 0}, outer{40, 1}, transposed{1, 6};
  const std::vector<Part> firsts{
      {gelu, {1, 0}},
      {gelu_gradient, {1, 2, 0}},
      {{}, {1, 2, 0}, 2},
      {{}, {1, 2, 3, 0}, 3},
      {relu_gradient, {1, 2, 3, 0}, 2},
      {formula({a * b - c}), {1, 2, 3, 0}, 1, Combine::set, {{}, row, column}},
      {{}, {1, 0}, 1, Combine::set, {row}},
      {formula({a * 3.0}), {1, 0}, 1, Combine::set, {{}}, {240}},
  };
  const std::vector<Part> thens{
      {relu_gradient, {0, 4, 5}},
      {gelu_gradient, {4, 0, 5}},
      {formula({a * a + b}), {0, 4, 5}},
      {formula({a - b * c}), {4, 5, 0, 5}},
      {{}, {0, 4, 5}, 2},
      {{}, {4, 0, 5}, 2},
      {relu_gradient, {4, 5, 0, 6}, 2},
      {formula({b * a}), {4, 5, 6, 0, 7}, 3},
      {{}, {0, 4}, 1, Combine::set, {{}, {50, 1}}},
      {gelu, {0, 4}, 1, Combine::add, {{}, {1, 0}}},
      {formula({a * b}), {0, 4, 5}, 1, Combine::max, {{}, {}, {0, 1}}},
      {formula({a, a * b}), {0, 4, 4, 5}},
      {formula({a * 2.0}), {0, 4}, 1, Combine::set, {}, {2, 3, 40}},
      {formula({a + b}), {0, 0, 4}},
  };
  int joined = 0;
  for (std::size_t i = 0; i < firsts.size(); i++)
    for (std::size_t k = 0; k < thens.size(); k++) {
      INFO("first " << i << " then " << k);
      const RunKernel first = kernel_of_part(firsts[i]), then = kernel_of_part(thens[k]);
      const auto one = join_maps(first, then, 0);
      // A sum of three reads one of two summands: a sum in f64 inside another kernel's.
      const bool nested = firsts[i].summands == 3 && thens[k].summands == 3;
      CHECK(one.has_value() != nested);
      if (!one) continue;
      joined++;
      for (const Place& p : one->operands) CHECK(p.buffer != 0);
      check_same_bits(first, then, *one);
    }
  CHECK(joined == static_cast<int>(firsts.size() * thens.size()) - 1);

  const auto joins = [](const Part& first, const Part& then) {
    return join_maps(kernel_of_part(first), kernel_of_part(then), 0).has_value();
  };
  CHECK_FALSE(
      joins({gelu, {1, 0}, 1, Combine::add, {{}, {1, 0}}}, {gelu, {0, 4}, 1, Combine::set, {{1, 0}}}));   // a reduction first
  CHECK_FALSE(joins({gelu, {1, 0}, 1, Combine::set, {}, {40}}, {gelu, {0, 4}, 1, Combine::set, {row}}));  // again for each row
  CHECK_FALSE(joins({gelu, {1, 0}}, {{}, {4, 5, 0, 6}, 3}));                                              // inside a sum in f64
  CHECK_FALSE(joins({gelu, {1, 0}, 1, Combine::set, {transposed}}, {gelu, {0, 4}}));                      // in another order
  CHECK_FALSE(joins({gelu, {1, 0}}, {gelu, {0, 4}, 1, Combine::set, {transposed}}));
  CHECK_FALSE(joins({gelu, {1, 0}}, {relu_gradient, {0, 1, 1}, 1, Combine::set, {{}, {}, outer}, {2, 40}}));  // a part of it
  Part wide{gelu, {1, 0}};
  wide.dtype = DType::f64;
  RunKernel rounds = kernel_of_part(wide);
  rounds.spec.operands.front().dtype = DType::f32;
  CHECK_FALSE(join_maps(kernel_of_part({gelu, {1, 0}}), rounds, 0));  // other registers
  Value long_one = a;
  for (int k = 0; k < 20; k++) long_one = long_one * b + static_cast<double>(k + 2);
  CHECK_FALSE(joins({formula({long_one}), {1, 2, 0}}, {formula({long_one}), {0, 4, 5}}));  // too long
}

TEST_CASE("positions go where their index goes, and must be the same", "[fuse]") {
  const Formula masked = formula({select(matches(position(1), position(2)), operand(0), 0.0)});
  RunKernel first = kernel_of_part({masked, {1, 0}, 1, Combine::set, {}, {2, 8, 8}}),
            then = kernel_of_part({masked, {0, 4}, 1, Combine::set, {}, {2, 8, 8}});
  first.spec.origin = then.spec.origin = {0, 3, 4};
  const auto joined = join_maps(first, then, 0);
  REQUIRE(joined);
  CHECK(joined->spec.origin == std::vector<Index>{0, 3, 4});
  check_same_bits(first, then, *joined);
  const RunKernel flat = kernel_of_part({forward_of("gelu"), {0, 4}, 1, Combine::set, {}, {16, 8}});
  CHECK(join_maps(first, flat, 0));
  RunKernel two =
      kernel_of_part({formula({select(matches(position(0), position(1)), operand(0), 0.0)}), {1, 0}, 1, Combine::set, {}, {16, 8}});
  two.spec.origin = {0, 0};
  CHECK_FALSE(
      join_maps(two, kernel_of_part({forward_of("gelu"), {0, 4}, 1, Combine::set, {}, {2, 8, 8}}), 0));  // its first index is cut
  then.spec.origin = {0, 3, 5};
  CHECK_FALSE(join_maps(first, then, 0));
}

TEST_CASE("the gradient of a sum of branches, and the relu's after it, are one kernel", "[fuse]") {
  const Plan plan = balance(residual_net(8), Mesh({{"all", 1}}, std::vector<Device>(1)), {}, {});
  const Program with = compile(plan, 0), without = compile(plan, 0, {.fuse_maps = false});
  CHECK(kernels_in(without) - kernels_in(with) == 1);
  const RunKernel* made = kernel_named(with, "out1 backward_data");
  REQUIRE(made != nullptr);
  CHECK(made->spec.summands == 2);
  CHECK(made->spec.formula == gradient_of("relu"));  // so a compiled loop does it
  Fusions fusions;
  compile(plan.data(), 0, &fusions);
  CHECK(std::count_if(fusions.made().begin(), fusions.made().end(),
                      [](const Fusion& f) { return f.fused[0].op == KernelOp::map && f.fused[0].combine == Combine::set; }) == 1);
}

TEST_CASE("a norm and what networks have after it are one kernel, a compiled one", "[fuse]") {
  for (const std::string op : {"batch_norm", "layer_norm", "rms_norm"}) {
    INFO(op);
    Graph graph;
    const Tensor image = graph.input("image", {{"batch", 8}, {"f0", 64}, {"rows", 64}, {"cols", 64}});
    const auto norm = [&](const Tensor& x, const std::string& name) {
      if (op == "batch_norm") return batch_norm(x, {.name = name});
      const std::vector<Dim> over{x.shape()[1]};
      return op == "rms_norm" ? rms_norm(x, {.over = over, .name = name}) : layer_norm(x, {.over = over, .name = name});
    };
    const auto layer = [&](const Tensor& x, const std::string& name) {
      return conv2d(x, {.out = {"f" + name, 64}, .window = 3, .padding = same, .name = "conv" + name});
    };
    Tensor x = norm(layer(image, "1"), "n1");
    for (const auto& [k, activation] : {std::pair{"2", "relu"}, {"3", "relu6"}, {"4", "silu"}, {"5", "gelu"}})
      x = norm(layer((*Pointwise::find(activation))(x, activation), k), std::string("n") + k);
    x = layer(relu(x, {"relu_last"}), "6");
    for (const bool first : {true, false}) {
      const Tensor y = rename(norm(layer(x, first ? "7" : "8"), first ? "n7" : "n8"), {first ? "f7" : "f8", 64}, {"f6", 64});
      x = relu(first ? add(y, x) : add(x, y), {first ? "first" : "second"});
    }
    const Step step = inference({conv2d(x, {.out = {"g", 4}, .window = 1})});
    const Program program = compile(balance(step, Mesh({{"all", 1}}, {Device{}}), {}, {}), 0);
    int elementwise = 0;  // over whole tensors: 5 activations and 2 sums
    for (const ProgramStep& s : program.steps)
      if (const auto* run = std::get_if<RunKernel>(&s.what); run != nullptr && run->spec.op == KernelOp::map)
        elementwise += run->spec.combine == Combine::set && run->operands.size() > 3;
    CHECK(elementwise == 7);
    for (const std::string name : {"n1", "n2", "n3", "n4", "n5", "n7", "n8"})
      CHECK(kernel_named(program, name + " forward") == nullptr);
  }
}

TEST_CASE("two sums of the same operands are one kernel with the same bits", "[fuse]") {
  const Value a = operand(0), b = operand(1), c = operand(2);
  const std::vector<Index> rows{1, 0}, columns{0, 1}, row{0, 1};
  for (const auto& [result, dtype] :
       {std::pair{rows, DType::f32}, {columns, DType::f32}, {rows, DType::f64}, {columns, DType::f64}}) {
    const RunKernel first =
        kernel_of_part({formula({a * (b - c)}), {1, 2, 3, 0}, 1, Combine::add, {{}, {}, row, result}, {6, 40}, dtype});
    for (const Part& part :
         {Part{{}, {1, 7}, 1, Combine::add, {{}, result}}, Part{formula({b * a}), {4, 1, 7}, 1, Combine::add, {{}, {}, result}},
          Part{formula({exp(a)}), {3, 7}, 1, Combine::add, {row, result}}}) {
      Part of = part;
      of.dtype = dtype;
      const RunKernel then = kernel_of_part(of);
      const auto joined = join_sums(first, then);
      REQUIRE(joined);
      CHECK(result_count(joined->spec) == 2);
      check_same_bits(first, then, *joined, 0);
    }
    Part reads_it{{}, {0, 7}, 1, Combine::add, {result, result}, {6, 40}, dtype};
    CHECK_FALSE(join_sums(first, kernel_of_part(reads_it)));
    CHECK_FALSE(
        join_sums(first, kernel_of_part({{}, {1, 7}, 1, Combine::add, {{}, result == rows ? columns : rows}, {6, 40}, dtype})));
    CHECK_FALSE(join_sums(first, kernel_of_part({{}, {1, 7}, 1, Combine::max, {{}, result}, {6, 40}, dtype})));
  }
}

TEST_CASE("the gradient of a norm and its activation reads the norm's operand and the gradient twice, in compiled loops",
          "[fuse]") {
  for (const std::string activation : {"relu", "relu6", "silu", "hard_swish"}) {
    INFO(activation);
    Graph graph;
    Tensor x = graph.input("image", {{"batch", 8}, {"f", 64}, {"rows", 64}, {"cols", 64}});
    for (const std::string k : {"1", "2"})
      x = (*Pointwise::find(activation))(
          batch_norm(conv2d(x, {.out = {"f" + k, 64}, .window = 3, .padding = same, .bias = false, .name = "c" + k}),
                     {.name = "n" + k}),
          "y" + k);
    const Step step =
        training(sum(conv2d(x, {.out = {"g", 4}, .window = 1, .bias = false, .name = "last"})), Sgd{.learning_rate = 1e-6});
    const Program program = compile(balance(step, Mesh({{"all", 1}}, {Device{}}), {}, {}), 0);
    const Index tensor = 8 * 64 * 64 * 64 * 4;
    Index readings = 0;  // of the second norm, reading and writing whole tensors
    for (const ProgramStep& s : program.steps) {
      const auto* run = std::get_if<RunKernel>(&s.what);
      if (run == nullptr || run->spec.op != KernelOp::map || bytes_touched(run->spec) < tensor) continue;
      INFO(run->pass << ": " << summary(run->spec));
      const auto& all = compiled_formulas();
      CHECK((run->spec.formula.code.size() < 2 || std::any_of(all.begin(), all.end(), [&](const CompiledFormula& one) {
               return shape_of(one.formula).hash == shape_of(run->spec.formula).hash;
             })));
      if (run->pass.find("n2 ") == 0 || run->pass.find("y2 ") == 0) readings += bytes_touched(run->spec) / tensor;
    }
    // Mean and variance, output (2); both sums of the gradient (2), the gradient (3). What takes long to compute is computed once:
    // 3 more.
    CHECK(readings == (activation == "silu" ? 11 : 8));
  }
}

TEST_CASE("more sums than a kernel has results stay several kernels", "[fuse]") {
  Graph graph;
  const Tensor image = graph.input("image", {{"batch", 2}, {"in", 3}, {"rows", 6}, {"cols", 6}});
  std::vector<Tensor> branches;
  for (const std::string k : {"1", "2", "3"})
    branches.push_back(
        batch_norm(conv2d(image, {.out = {"f", 5}, .window = 1, .bias = false, .name = "c" + k}), {.name = "n" + k}));
  const Step step = training(sum(add(branches)), Sgd{.learning_rate = 1e-6});
  const Program program = compile(balance(step, Mesh({{"all", 1}}, {Device{}}), {}, {}), 0);
  const auto backend = open_backend(Device{});
  std::size_t most = 0;
  for (const ProgramStep& s : program.steps) {
    const auto* run = std::get_if<RunKernel>(&s.what);
    if (run == nullptr || run->spec.op != KernelOp::map) continue;
    CHECK(backend->supports(run->spec));
    if (run->spec.combine == Combine::add) most = std::max(most, result_count(run->spec));
  }
  CHECK(most == kMostSums);  // of the six sums that read the gradient
}

TEST_CASE("what is stored as bf16 is not computed again, which would not be rounded as others read it", "[fuse]") {
  for (const DType storage : {DType::f32, DType::bf16}) {
    Graph graph;
    Tensor x = graph.input("image", {{"batch", 64}, {"in", 9}});
    x = dense(x, {.out = {{"f", 128}}, .name = "first"});
    x = group_norm(hard_swish(layer_norm(x, {.name = "n1"})), {.groups = 4, .name = "n2"});
    const Step step =
        training(sum(dense(x, {.out = {{"g", 4}}, .name = "last"})), Sgd{.learning_rate = 1e-6}, {.storage = storage});
    Fusions fusions;
    compile(balance(step, Mesh({{"all", 1}}, {Device{}}), {}, {}).data(), 0, &fusions);
    const auto stored = [&](const KernelSpec& spec) {
      return std::count_if(spec.operands.begin(), spec.operands.end(), [&](const MapOperand& o) { return o.dtype == storage; });
    };
    int again = 0;
    for (const Fusion& f : fusions.made())
      again += f.fused.size() == 1 && f.apart.size() == 1 && stored(f.fused[0]) < stored(f.apart[0]);
    CHECK((again > 0) == (storage == DType::f32));
  }
}

TEST_CASE("an activation whose result two layers read: the sum of both gradients is inside the norm's gradient too", "[fuse]") {
  Graph graph;
  const Tensor image = graph.input("image", {{"batch", 8}, {"in", 8}, {"rows", 64}, {"cols", 64}});
  const Tensor x =
      relu(batch_norm(conv2d(image, {.out = {"f", 64}, .window = 3, .padding = same, .bias = false}), {.name = "n"}), {"y"});
  const auto branch = [&](const std::string& name) {
    return conv2d(x, {.out = {"g", 4}, .window = 3, .padding = same, .bias = false, .name = name});
  };
  const Step step = training(sum(add(branch("a"), branch("b"))), Sgd{.learning_rate = 1e-6});
  const Program program = compile(balance(step, Mesh({{"all", 1}}, {Device{}}), {}, {}), 0);
  CHECK(kernel_named(program, "y backward_data") == nullptr);
  const RunKernel *sums = kernel_named(program, "n sum_g_normal"), *data = kernel_named(program, "n backward_data");
  REQUIRE(sums != nullptr);
  REQUIRE(data != nullptr);
  const Index tensor = 8 * 64 * 64 * 64 * 4;
  CHECK(bytes_touched(sums->spec) / tensor == 3);  // both gradients and the norm's operand
  CHECK(bytes_touched(data->spec) / tensor == 4);
}

// A norm, activations that need their input or their output, a residual sum; statistics of parts of the batch on several ranks.
Step norms_net(Index batch) {
  Graph graph;
  Tensor x = conv2d(graph.input("image", {{"batch", batch}, {"in", 3}, {"rows", 16}, {"cols", 16}}),
                    {.out = {"f", 16}, .window = 3, .padding = same, .name = "stem"});
  for (const std::string op : {"relu", "relu6", "silu", "gelu"}) {
    const Tensor y = (*Pointwise::find(op))(batch_norm(x, {.name = "n_" + op}), op);
    const Tensor z = conv2d(y, {.out = {"m", 16}, .window = 3, .padding = same, .bias = false, .name = "c_" + op});
    x = add(conv2d(z, {.out = {"f", 16}, .window = 1, .name = "d_" + op}), y);
    x = layer_norm(x, {.over = {x.shape()[1]}, .name = "l_" + op});
  }
  return training(sum(conv2d(x, {.out = {"g", 4}, .window = 1, .name = "last"})), Sgd{.learning_rate = 1e-6});
}

TEST_CASE("fused maps change no bit of a network of norms, on any number of ranks", "[fuse]") {
  for (const int ranks : {1, 2, 3}) {
    for (const std::string cut : {"batch", "f"}) {
      const Plan plan = balance(norms_net(6), Mesh({{"all", ranks}}, std::vector<Device>(static_cast<std::size_t>(ranks))),
                                ranks == 1 ? LayoutRules{} : LayoutRules{{cut, "all", CutBy::even}}, {});
      const Outcome with = run_plan(plan, {.steps = 3, .cpu_backend = true}),
                    without = run_plan(plan, {.steps = 3, .cpu_backend = true, .program = {.fuse_maps = false}});
      CHECK(with.loss == without.loss);
      CHECK(with.gradients == without.gradients);
      CHECK(with.weights == without.weights);
      CHECK(with.counted == without.counted);
    }
  }
}

TEST_CASE("fused maps change no bit of a training step in f32, on any number of ranks", "[fuse]") {
  for (const int ranks : {1, 2, 3}) {
    const Plan plan = balance(residual_net(6), Mesh({{"all", ranks}}, std::vector<Device>(static_cast<std::size_t>(ranks))),
                              ranks == 1 ? LayoutRules{} : LayoutRules{{"batch", "all", CutBy::even}}, {});
    const Outcome with = run_plan(plan, {.steps = 3, .cpu_backend = true}),
                  without = run_plan(plan, {.steps = 3, .cpu_backend = true, .program = {.fuse_maps = false}});
    CHECK(with.loss == without.loss);
    CHECK(with.gradients == without.gradients);
    CHECK(with.weights == without.weights);
    CHECK(with.counted == without.counted);
  }
}

// The sums of one gradient for two parameters become one kernel, and the branches' sum its operands: two results of one value.
TEST_CASE("two parameters that are added to one sum, which several layers read, get the same gradient", "[fuse]") {
  Graph g;
  const Shape shape{{"batch", 3}, {"hidden", 4}}, one{{"hidden", 4}};
  const Tensor p = g.parameter(one, {.deviation = 1, .name = "p"}), q = g.parameter(one, {.deviation = 1, .name = "q"});
  const Tensor b = add(add(g.input("x", shape), p), q), c = add(mul(b, relu(b)), b);
  const Step step = training(mean_squared_error(c, g.input("target", shape)), Sgd{.learning_rate = 0.1});
  const Plan plan = balance(step, Mesh({{"all", 1}}, {Device{}}), {}, {});
  const Outcome with = run_plan(plan, {.steps = 3, .cpu_backend = true}),
                without = run_plan(plan, {.steps = 3, .cpu_backend = true, .program = {.fuse_maps = false}});
  CHECK(with.gradients == without.gradients);
  CHECK(with.weights == without.weights);
  CHECK(with.loss == without.loss);
}

TEST_CASE("what the profile says is slower fused, or impossible, stays apart", "[fuse]") {
  const Mesh mesh({{"all", 1}}, std::vector<Device>(1));
  const Step step = residual_net(8);
  Profile profile = synthetic_profile(mesh, {1}, 1e9);
  const Plan plain = balance(step, mesh, {}, profile);
  CHECK(plain.data().apart.empty());
  Fusions fusions;
  const Program before = compile(plain.data(), 0, &fusions);
  const auto add = [&](const KernelSpec& spec, double seconds) { profile.add({0, spec, {seconds, seconds, seconds, 5}, "test"}); };
  int epilogues = 0, maps = 0;
  for (const Fusion& f : fusions.made()) {
    const bool epilogue = f.fused[0].op != KernelOp::map;
    if (f.apart.size() < 2) continue;  // what is computed again
    KernelSpec bare = f.apart[0];
    bare.bias = false;
    add(bare, 1e-3);
    add(f.apart[1], 1e-4);
    if (epilogue && epilogues++ == 0) add(f.fused[0], 2e-3);
    if (!epilogue && maps++ == 0) profile.add({.device = 0, .spec = f.fused[0], .supported = false});
  }
  REQUIRE(epilogues > 1);
  REQUIRE(maps == 1);
  const Plan plan = balance(step, mesh, {}, profile);
  REQUIRE(plan.data().apart.size() == 1);
  CHECK(plan.data().apart[0].size() >= 2);
  const Program after = compile(plan, 0);
  CHECK(kernels_in(after) >= kernels_in(before) + 2);
  for (const ProgramStep& s : after.steps)
    if (const auto* run = std::get_if<RunKernel>(&s.what)) CHECK(profile.supports(0, run->spec));
  CHECK(simulate({after}, profile).step_seconds == *plan.data().step_seconds);
}
