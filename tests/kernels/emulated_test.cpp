// SPDX-License-Identifier: Apache-2.0
#include "graph/optimizers.h"
#include "kernels/emulated/emulated_backend.h"
#include "tests/support/formulas.h"

#include <motley/error.h>

#include <catch2/catch.hpp>
#include <chrono>

using namespace motley;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds kWork{2};

// Counts its runs, each of which takes 2 ms.
class Busy final : public Backend {
 public:
  explicit Busy(int& runs) : runs_(runs) {}
  bool supports(const KernelSpec&) const override { return true; }
  std::unique_ptr<Kernel> compile(const KernelSpec&) override {
    struct Work final : Kernel {
      explicit Work(int& r) : runs(r) {}
      std::size_t workspace_bytes() const override { return 96; }
      std::string implementation() const override { return "busy"; }
      void run(std::span<void* const>, void*) override {
        const Clock::time_point start = Clock::now();
        while (Clock::now() - start < kWork) {
        }
        runs++;
      }
      int& runs;
    };
    return std::make_unique<Work>(runs_);
  }
  std::string model() const override { return "busy model"; }
  std::string isa() const override { return "avx2"; }
  std::string library() const override { return "busy library"; }
  int threads() const override { return 3; }
  Index memory_bytes() const override { return 1000; }

 private:
  int& runs_;
};

KernelSpec add_of_two() {
  return testing::sum_of({4}, {{1}, {1}, {1}});
}

struct Seen {
  int runs;
  double milliseconds;
};

Seen run(const KernelSpec& spec, std::vector<void*> operands, double slowdown) {
  int runs = 0;
  const auto backend = emulated_backend(std::make_unique<Busy>(runs), slowdown);
  const auto kernel = backend->compile(spec);
  const Clock::time_point start = Clock::now();
  kernel->run(operands, nullptr);
  return {runs, std::chrono::duration<double, std::milli>(Clock::now() - start).count()};
}

}  // namespace

TEST_CASE("emulated: kernels run floor(k) times and spin the rest") {
  float a[4] = {}, b[4] = {}, y[4] = {};
  const Seen seen = run(add_of_two(), {a, b, y}, 3.5);
  CHECK(seen.runs == 3);
  CHECK(seen.milliseconds >= 7.0);
  CHECK(run(add_of_two(), {a, b, y}, 1.0).runs == 1);
}

TEST_CASE("emulated: what is in place runs once and spins the rest") {
  float a[4] = {}, b[4] = {};
  const Seen sum = run(add_of_two(), {a, b, a}, 3.5);
  CHECK(sum.runs == 1);
  CHECK(sum.milliseconds >= 7.0);
  const KernelSpec update = testing::map_of(Optimizer(Sgd{}).update, {4}, {{0}, {0}, {1}, {1}, {1}, {1}, {1}});
  float v[4] = {};
  const Seen sgd = run(update, {a, a, a, v, b, v, b}, 2.0);
  CHECK(sgd.runs == 1);
  CHECK(sgd.milliseconds >= 4.0);
}

TEST_CASE("emulated: says what the inner device says") {
  int runs = 0;
  const auto backend = emulated_backend(std::make_unique<Busy>(runs), 2.0);
  CHECK(backend->model() == "busy model, 2 times slower");
  CHECK(backend->isa() == "avx2");
  CHECK(backend->library() == "busy library");
  CHECK(backend->threads() == 3);
  CHECK(backend->memory_bytes() == 1000);
  CHECK(backend->repeats());
  CHECK(backend->compile({})->workspace_bytes() == 96);
  CHECK(backend->compile({})->implementation() == "busy");
  CHECK(emulated_backend(std::make_unique<Busy>(runs), 2.0, 500)->memory_bytes() == 500);
}

TEST_CASE("emulated: a slowdown below 1 is refused") {
  int runs = 0;
  CHECK_THROWS_AS(emulated_backend(std::make_unique<Busy>(runs), 0.5), DeviceError);
  CHECK_THROWS_AS(emulated_backend(std::make_unique<Busy>(runs), std::numeric_limits<double>::quiet_NaN()), DeviceError);
}
