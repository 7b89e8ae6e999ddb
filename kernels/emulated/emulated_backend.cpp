// SPDX-License-Identifier: Apache-2.0
// Slows a backend down by k: kernels that may run more than once do so, floor(k) times in all (real work in the real caches), and
// the rest of the time is spent spinning. In-place kernels run once and then spin for (k - 1) times their own time. A device with
// separate queues never spins: there the number of repetitions is k on average.
#include "kernels/emulated/emulated_backend.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "kernels/operands.h"
#include "kernels/wrapped_backend.h"

namespace motley {
namespace {

using Clock = std::chrono::steady_clock;

// Whether it writes what it also reads: running it again would change the result. Operands do not overlap otherwise.
bool is_in_place(const KernelSpec& spec, std::span<void* const> operands) {
  if (spec.accumulate) return true;
  if (spec.op != KernelOp::map) return false;
  const auto results = operands.end() - static_cast<std::ptrdiff_t>(result_count(spec));
  return std::any_of(results, operands.end(),
                     [&](void* result) { return std::find(operands.begin(), results, result) != results; });
}

class EmulatedKernel final : public Kernel {
 public:
  EmulatedKernel(KernelSpec spec, std::unique_ptr<Kernel> inner, double slowdown, bool queued)
      : spec_(std::move(spec)), inner_(std::move(inner)), slowdown_(slowdown), queued_(queued) {}
  std::size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  std::string implementation() const override { return inner_->implementation(); }

  void run(std::span<void* const> operands, void* workspace) override {
    const bool once = is_in_place(spec_, operands);
    if (queued_) {
      for (owed_ += slowdown_; owed_ >= 1; owed_--)
        if (!once || owed_ < 2) inner_->run(operands, workspace);
      return;
    }
    const int runs = once ? 1 : static_cast<int>(slowdown_);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < runs; i++) inner_->run(operands, workspace);
    const Clock::duration one = (Clock::now() - start) / runs;
    const auto whole = std::chrono::duration_cast<Clock::duration>(one * slowdown_);
    while (Clock::now() - start < whole) {
    }
  }

 private:
  KernelSpec spec_;
  std::unique_ptr<Kernel> inner_;
  double slowdown_;
  bool queued_;
  double owed_ = 0;  // fraction of a run that earlier calls left over
};

class EmulatedBackend final : public WrappedBackend {
 public:
  EmulatedBackend(std::unique_ptr<Backend> inner, double slowdown, Index memory_bytes)
      : WrappedBackend(std::move(inner)), slowdown_(slowdown), memory_bytes_(memory_bytes) {}
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    return std::make_unique<EmulatedKernel>(spec, inner().compile(spec), slowdown_, device_memory() != nullptr);
  }
  std::unique_ptr<Kernel> compile_as(const KernelSpec& spec, const std::string& implementation) override {
    return std::make_unique<EmulatedKernel>(spec, inner().compile_as(spec, implementation), slowdown_, device_memory() != nullptr);
  }
  Index memory_bytes() const override { return memory_bytes_ > 0 ? memory_bytes_ : inner().memory_bytes(); }
  std::string model() const override { return slowed_model(inner().model(), slowdown_); }  // a profile holds for one slowdown
  bool repeats() const override { return true; }

 private:
  double slowdown_;
  Index memory_bytes_;
};

}  // namespace

std::string slowed_model(const std::string& model, double slowdown) {
  return fmt::format("{}, {:g} times slower", model, slowdown);
}

std::unique_ptr<Backend> emulated_backend(std::unique_ptr<Backend> inner, double slowdown, Index memory_bytes) {
  if (!(slowdown >= 1) || !(slowdown <= 1e6))
    throw DeviceError("an emulated device's slowdown is " + fmt::format("{:g}", slowdown) + "; it must be from 1 to 1e6");
  return std::make_unique<EmulatedBackend>(std::move(inner), slowdown, memory_bytes);
}

}  // namespace motley
