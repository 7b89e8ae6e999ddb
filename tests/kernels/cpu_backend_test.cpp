// SPDX-License-Identifier: Apache-2.0
// What the CPU backends promise beside the law: no allocation in run(), the same bits every time; oneDNN: one ISA per process.
// MOTLEY_TEST_LIBRARY says which.
#include <motley/error.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "kernels/open_cpu.h"
#include "kernels/operands.h"
#include "kernels/value.h"
#include "tests/support/allocations.h"
#include "tests/support/backend_law.h"
#include "tests/support/formulas.h"

using namespace motley;
using namespace motley::testing;

namespace {

Device device(int threads) {
  Device device;
  device.name = "cpu";
  device.threads = threads;
  const char* library = std::getenv("MOTLEY_TEST_LIBRARY");
  device.library = library == nullptr ? "" : library;
  return device;
}

bool is_onednn() {
  return (device(1).library.empty() ? cpu_libraries().front() : device(1).library) == "onednn";
}

// A kernel with its operands, filled from the law's case.
struct Ready {
  Ready(Backend& backend, const LawCase& one)
      : spec(one.spec), kernel(backend.compile(one.spec)), workspace(kernel->workspace_bytes() / 4 + 16) {
    const auto uses = operands_of(spec);
    for (std::size_t i = 0; i < uses.size(); i++) {
      std::vector<float>& data = operands.emplace_back(static_cast<std::size_t>(uses[i].bytes()) / 4 + 32, 0.0f);
      float* first = reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(data.data()) + 63) / 64 * 64);
      for (std::size_t j = 0; j < one.images[i].size(); j++) {
        if (uses[i].dtype == DType::i32) {
          const auto label = static_cast<std::int32_t>(one.images[i][j]);
          std::memcpy(first + j, &label, sizeof label);
        } else if (uses[i].dtype == DType::f64) {
          std::memcpy(first + 2 * j, &one.images[i][j], sizeof one.images[i][j]);
        } else {
          first[j] = static_cast<float>(one.images[i][j]);
        }
      }
      pointers.push_back(first);
    }
    result_elements = static_cast<std::size_t>(uses.back().bytes()) / 4;
  }
  void run() { kernel->run(pointers, workspace.data()); }
  std::vector<float> result() const {
    const float* first = static_cast<const float*>(pointers.back());
    return {first, first + result_elements};
  }
  KernelSpec spec;
  std::unique_ptr<Kernel> kernel;
  std::vector<float> workspace;
  std::vector<std::vector<float>> operands{};
  std::vector<void*> pointers{};
  std::size_t result_elements = 0;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

bool is_vendors(const KernelSpec& spec) {
  return is_onednn() && (spec.op == KernelOp::conv2d || spec.op == KernelOp::dense);
}

}  // namespace

TEST_CASE("CPU backend: run() allocates nothing of its own") {
  const auto backend = open_cpu(device(1));
  for (int number = 0; number < 400; number++) {
    Ready ready(*backend, law_case(21, number, LawMode::tolerance));
    ready.run();
    std::size_t counted[2];
    for (std::size_t& count : counted) {
      allocations() = {};
      ready.run();
      count = allocations().count;
    }
    const std::size_t most = allocations().largest;
    INFO(summary(ready.spec) << " by " << ready.kernel->implementation());
    if (!is_vendors(ready.spec)) CHECK(counted[0] == 0);
    CHECK(counted[0] == counted[1]);
    CHECK(most <= 512);  // oneDNN's own list of a primitive's arguments
  }
}

// An embedding's rows, taken and added to: 5 numbers below 7, rows of 3.
TEST_CASE("CPU backend: rows that integers name are taken and added to without an allocation") {
  const auto rows = [](int position_of_v) {
    return formula({select(matches(position(position_of_v), integer(0)), operand(1), 0.0)});
  };
  KernelSpec take = map_of(rows(1), {5, 7, 3}, {{1, 0, 0}, {0, 3, 1}, {3, 0, 1}});
  KernelSpec give = map_of(rows(0), {7, 3, 5}, {{0, 0, 1}, {0, 1, 3}, {3, 1, 0}});
  const auto backend = open_cpu(device(1));
  for (KernelSpec* spec : {&take, &give}) {
    spec->operands[0].dtype = DType::i32;
    spec->origin = {0, 0, 0};
    spec->combine = Combine::add;
    LawCase one;
    one.spec = *spec;
    one.images = {{6, 0, 2, 2, 6}, Image(spec == &take ? 21 : 15, 1.0), Image(spec == &take ? 15 : 21)};
    Ready ready(*backend, one);
    INFO(ready.kernel->implementation());
    CHECK(ready.kernel->implementation() == "motley:rows");
    allocations() = {};
    ready.run();
    CHECK(allocations().count == 0);
    const std::vector<float> result = ready.result();
    CHECK(std::vector<float>(result.begin(), result.begin() + 9) ==
          (spec == &take ? std::vector<float>(9, 1.0F) : std::vector<float>{1, 1, 1, 0, 0, 0, 2, 2, 2}));
  }
}

TEST_CASE("CPU backend: the same bits every time; our own loops and Eigen with any number of threads") {
  const auto one = open_cpu(device(1));
  std::vector<std::vector<float>> expected;
  std::vector<LawCase> cases;
  for (int number = 0; number < 300; number++) {
    const LawCase& law = cases.emplace_back(law_case(22, number, LawMode::tolerance));
    Ready ready(*one, law);
    ready.run();
    expected.push_back(ready.result());
    for (int i = 0; i < 3 && !law.spec.accumulate; i++) ready.run();
    CHECK(same_bits(ready.result(), expected.back()));
  }
  const auto three = open_cpu(device(3));
  for (std::size_t i = 0; i < cases.size(); i++) {
    if (is_vendors(cases[i].spec)) continue;
    Ready ready(*three, cases[i]);
    ready.run();
    CHECK(same_bits(ready.result(), expected[i]));
  }
}

// Large enough to be divided: several blocks, strips and groups of samples, in place and copied.
TEST_CASE("CPU backend: Eigen's convolutions and products are the same bits with three threads") {
  if (is_onednn()) return;
  const auto one = open_cpu(device(1)), three = open_cpu(device(3));
  for (const Format format : {Format::plain, Format::channels_last})
    for (const PassKind pass : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter})
      for (const Index size : {4, 40}) {
        LawCase law;
        for (const bool dense : {false, true}) {
          law.spec.op = dense ? KernelOp::dense : KernelOp::conv2d;
          law.spec.pass = pass;
          law.spec.roles = dense ? Roles{.n = 33, .c = 600, .f = 530} : Roles{35, 34, size, size, 9, 3, 3, size, size};
          law.spec.padding = dense ? std::array<Index, 4>{} : std::array<Index, 4>{1, 1, 1, 1};
          law.spec.x_format = law.spec.y_format = dense ? Format::plain : format;
          law.images.clear();
          for (const OperandUse& use : operands_of(law.spec)) {
            Image& image = law.images.emplace_back();
            for (Index i = 0; use.read && i < use.elements; i++) image.push_back(1.0 / static_cast<double>(1 + i % 97));
          }
          Ready a(*one, law), b(*three, law);
          a.run();
          b.run();
          INFO(summary(law.spec));
          CHECK(same_bits(a.result(), b.result()));
        }
      }
}

TEST_CASE("CPU backend: large sums are the same bits with three threads") {
  LawCase sum;
  KernelSpec& spec = sum.spec;
  spec.op = KernelOp::map;
  spec.combine = Combine::add;
  spec.extents = {517, 301};
  sum.images.resize(2);
  for (int i = 0; i < 517 * 301; i++) sum.images[0].push_back(1.0 / (1 + i % 97));
  for (const bool across : {true, false}) {
    spec.operands = {{DType::f32, {301, 1}}, {DType::f32, across ? std::vector<Index>{0, 1} : std::vector<Index>{1, 0}}};
    const auto one = open_cpu(device(1)), three = open_cpu(device(3));
    Ready a(*one, sum), b(*three, sum);
    a.run();
    b.run();
    CHECK(same_bits(a.result(), b.result()));
  }
}

TEST_CASE("CPU backend: softmax keeps its digits where a class is all but certain") {
  const auto backend = open_cpu(device(1));
  const Index n = 3, classes = 4;
  const std::vector<double> logits{12, 1, 0, -2, -3, 5, -3, -30, 0.25, 0, -1, 2}, labels{0, 1, 3};
  const std::vector<Index> all{classes, 1}, row{1, 0};
  auto run = [&](const std::string& what, Combine combine, std::vector<Index> extents, std::vector<std::vector<Index>> strides,
                 int label, std::vector<std::vector<double>> images) {
    LawCase c;
    c.spec = map_of(softmax_formula(what), std::move(extents), strides);
    c.spec.combine = combine;
    if (label >= 0) {
      c.spec.operands[static_cast<std::size_t>(label)].dtype = DType::i32;
      c.spec.origin = {0, 0};
    }
    c.images = std::move(images);
    c.images.emplace_back();
    Ready ready(*backend, c);
    ready.run();
    const std::vector<float> result = ready.result();
    return std::vector<double>(result.begin(), result.end());
  };
  const auto m = run("max", Combine::max, {n, classes}, {all, row}, -1, {logits});
  const auto s = run("sum_exp", Combine::add, {n, classes}, {all, row, row, row}, 2, {logits, m, labels});
  const auto h = run("pick_label", Combine::add, {n, classes}, {all, row, row}, 1, {logits, labels});
  const auto loss = run("forward", Combine::set, {n}, {{1}, {1}, {1}, {1}}, -1, {m, s, h});
  const auto gradient = run("backward_data", Combine::set, {n, classes}, {all, row, row, row, row, row, all}, 4,
                            {logits, m, s, h, labels, {1, 1, 1}});
  for (Index i = 0; i < n; i++) {
    const auto at = [&](Index c) { return logits[static_cast<std::size_t>(i * classes + c)]; };
    const auto y = static_cast<Index>(labels[static_cast<std::size_t>(i)]);
    double others = 0;  // beside the label's 1
    for (Index c = 0; c < classes; c++)
      if (c != y) others += std::exp(at(c) - at(y));
    CHECK(loss[static_cast<std::size_t>(i)] == Approx(std::log1p(others)).epsilon(1e-6));
    for (Index c = 0; c < classes; c++)
      CHECK(gradient[static_cast<std::size_t>(i * classes + c)] ==
            Approx((c == y ? -others : std::exp(at(c) - at(y))) / (1 + others)).epsilon(1e-6));
  }
}

TEST_CASE("CPU backend: ranks as threads of one process") {
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < results.size(); rank++)
    ranks.emplace_back([&, rank] {
      const auto backend = open_cpu(device(1));
      for (int number = 0; number < 60; number++) {
        Ready ready(*backend, law_case(23, number, LawMode::tolerance));
        for (int i = 0; i < 3; i++) ready.run();
        const std::vector<float> result = ready.result();
        results[rank].insert(results[rank].end(), result.begin(), result.end());
      }
    });
  for (std::thread& rank : ranks) rank.join();
  for (const auto& result : results) CHECK(same_bits(result, results[0]));
}

TEST_CASE("CPU backend: says what it is and refuses what it cannot do") {
  const auto backend = open_cpu(device(2));
  CHECK(!backend->model().empty());
  CHECK(!backend->isa().empty());
  CHECK(backend->library().starts_with(is_onednn() ? "oneDNN " : "Eigen "));
  CHECK(backend->threads() == 2);
  CHECK(backend->memory_bytes() > 0);
  KernelSpec f64;
  f64.dtype = DType::f64;
  CHECK_THROWS_AS(backend->compile(f64), DeviceError);
  Device other = device(1);
  other.isa = isa_names().front();
  if (is_onednn())
    CHECK_THROWS_WITH(open_cpu(other), Catch::Contains("the ISA is per process"));
  else
    CHECK(open_cpu(other)->isa() == "generic");
  CHECK_THROWS_AS(open_cpu(device(0)), DeviceError);
}
