// SPDX-License-Identifier: Apache-2.0
#include "bench/support/gpu_kernels.h"

#include <fmt/core.h>
#include <motley/program.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "bench/support/memory_bound.h"
#include "bench/support/networks.h"
#include "kernels/wrapped_backend.h"
#include "profiler/measure_kernels.h"

namespace motley::bench {

namespace {

// A backend that takes what it would take without a profile.
class FirstOnly final : public WrappedBackend {
 public:
  explicit FirstOnly(Backend& inner) : WrappedBackend({std::shared_ptr<Backend>(), &inner}) {}
  std::vector<std::string> implementations(const KernelSpec&) override { return {}; }
};

// As a step on one GPU runs them, each once, with how often it runs.
std::vector<std::pair<KernelSpec, int>> convolutions_of(const std::string& name, Index batch) {
  const Network net = network(name, batch);
  Device gpu;
  gpu.kind = DeviceKind::cuda;
  const Plan plan = balance(training(net.loss, Sgd{.learning_rate = 0.001}), Mesh({{"all", 1}}, {gpu}), {}, {});
  std::vector<std::pair<KernelSpec, int>> out;
  for (const ProgramStep& s : compile(plan, 0).steps) {
    const auto* run = std::get_if<RunKernel>(&s.what);
    if (run == nullptr || run->spec.op != KernelOp::conv2d) continue;
    const auto same = std::find_if(out.begin(), out.end(), [&](const auto& known) { return known.first == run->spec; });
    same == out.end() ? static_cast<void>(out.emplace_back(run->spec, 1)) : static_cast<void>(same->second++);
  }
  return out;
}

// Bytes read and written per second by copies within the device from and to memory that no cache keeps: the fastest of several.
double copy_rate(DeviceMemory& device, std::size_t bytes, int rounds) {
  const DeviceMemory::Block from = device.allocate(bytes), to = device.allocate(bytes);
  const auto begin = device.make_mark(), end = device.make_mark();
  double best = HUGE_VAL;
  for (int round = 0; round < rounds; round++) {
    constexpr int kRuns = 4;
    begin->set(DeviceMemory::Queue::compute);
    for (int run = 0; run < kRuns; run++)
      device.copy(DeviceMemory::Queue::compute, run % 2 == 0 ? to.get() : from.get(), run % 2 == 0 ? from.get() : to.get(), bytes);
    end->set(DeviceMemory::Queue::compute);
    while (!end->passed()) std::this_thread::yield();
    best = std::min(best, end->seconds_since(*begin) / kRuns);
  }
  return 2 * static_cast<double>(bytes) / best;
}

}  // namespace

void own_kernels(Backend& backend, bool quick, std::vector<std::string>& json) {
  constexpr Index kBatch = 512;  // 128 MiB per operand, more than twice any L2
  const std::vector<MemoryBound> kernels = memory_bound(kBatch);
  std::vector<KernelSpec> specs;
  for (const MemoryBound& one : kernels) specs.push_back(one.spec);
  const double copied = copy_rate(*backend.device_memory(), std::size_t{kBatch} << 18, quick ? 5 : 15);
  // Operands are taken in turn from so much memory that none is still in a cache.
  const Measurement measured =
      measure_kernels(backend, 0, specs, {.budget_seconds = 1e4, .most_rounds = quick ? 3 : 9, .step_bytes = Index{2} << 30});
  fmt::print(
      "\nown kernels, {} MiB per operand of 64 channels: GB/s read and written, beside a copy within the device ({:.0f} "
      "GB/s)\n{:>40} {:>9} {:>9} {:>6}  implementation\n",
      kBatch / 4, copied * 1e-9, "kernel", "ms", "GB/s", "ratio");
  for (std::size_t i = 0; i < kernels.size(); i++) {
    const double seconds = measured.points[i].seconds.min, bytes = static_cast<double>(bytes_touched(specs[i])),
                 rate = bytes / seconds;
    const std::string& name = measured.points[i].implementation;
    fmt::print("{:>40} {:9.3f} {:9.1f} {:6.3f}  {}\n", kernels[i].name, seconds * 1e3, rate * 1e-9, rate / copied, name);
    json.push_back(fmt::format(
        R"({{"kernel": "{}", "bytes": {:.0f}, "seconds": {:.6g}, "bytes_per_second": {:.5g}, "copy_bytes_per_second": {:.5g}, "implementation": "{}", "machine": "{}", "library": "{}"}})",
        kernels[i].name, bytes, seconds, rate, copied, name, backend.model(), backend.library()));
  }
}

void gpu_kernels(Backend& backend, const std::vector<Index>& batches, bool quick, std::vector<std::string>& json) {
  FirstOnly first(backend);
  const KernelTimingOptions options{.budget_seconds = 1e4, .most_rounds = quick ? 3 : 9};
  for (const std::string net : {"paper_mnist", "paper_cifar", "vgg11"})
    for (const Index batch : batches) {
      const auto kernels = convolutions_of(net, batch);
      std::vector<KernelSpec> specs;
      for (const auto& [spec, count] : kernels) specs.push_back(spec);
      const Measurement plain = measure_kernels(first, 0, specs, options), chosen = measure_kernels(backend, 0, specs, options);
      fmt::print("\n{} batch {}: the vendor's first, the fastest of several\n{:>9} {:>9} {:>6} {:>8}  implementation, kernel\n",
                 net, batch, "first ms", "chosen ms", "gain", "TFLOP/s");
      double sums[2] = {0, 0};
      for (std::size_t i = 0; i < specs.size(); i++) {
        const double before = plain.points[i].seconds.min, after = chosen.points[i].seconds.min;
        const KernelPoint& p = chosen.points[i];
        sums[0] += before * kernels[i].second;
        sums[1] += after * kernels[i].second;
        fmt::print("{:9.4f} {:9.4f} {:6.3f} {:8.2f}  {} of {}, {}\n", before * 1e3, after * 1e3, before / after,
                   flops(specs[i]) / after * 1e-12, p.implementation, p.choices, summary(specs[i]));
        json.push_back(fmt::format(
            R"({{"net": "{}", "batch": {}, "spec": {}, "first_seconds": {:.6g}, "chosen_seconds": {:.6g}, "implementation": "{}", "choices": {}, "machine": "{}", "library": "{}"}})",
            net, batch, to_json(specs[i]), before, after, p.implementation, p.choices, backend.model(), backend.library()));
      }
      fmt::print("{:9.4f} {:9.4f} {:6.3f}           all convolutions of a step\n", sums[0] * 1e3, sums[1] * 1e3, sums[0] / sums[1]);
    }
}

}  // namespace motley::bench
