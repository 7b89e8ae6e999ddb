// SPDX-License-Identifier: Apache-2.0
// Measuring with synthetic devices that take the time they are set to: no assertion on the speed of this machine.
#include <motley/error.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "../support/threads.h"
#include "base/clock.h"
#include "kernels/operands.h"
#include "profiler/halved.h"
#include "profiler/measure_kernels.h"
#include "profiler/measure_links.h"
#include "profiler/steady.h"
#include "run/kernel_timer.h"
#include "tests/support/fake_device.h"

using namespace motley;

namespace {

struct Seen {
  std::vector<int> order{};  // filters of each run
  std::map<int, std::set<std::vector<void*>>> operands{};
  bool normal = true;  // every input is a normal number
  int compiled = 0;
};

// Takes microseconds(filters); f counts in steps of 16.
class SpinKernel : public Kernel {
 public:
  SpinKernel(const KernelSpec& spec, Seen& seen, double microseconds, std::string name)
      : spec_(spec), seen_(seen), microseconds_(microseconds), name_(std::move(name)) {}
  std::size_t workspace_bytes() const override { return 1000; }
  std::string implementation() const override { return name_; }
  void run(std::span<void* const> operands, void* workspace) override {
    const double until = seconds_now() + 1e-6 * microseconds_ * std::ceil(static_cast<double>(spec_.roles.f) / 16);
    seen_.order.push_back(static_cast<int>(spec_.roles.f));
    seen_.operands[seen_.order.back()].insert({operands.begin(), operands.end()});
    const auto uses = operands_of(spec_);
    for (std::size_t i = 0; i < uses.size(); i++) {
      auto* v = static_cast<float*>(operands[i]);
      for (Index k : {Index{0}, uses[i].elements - 1}) {
        if (uses[i].written)
          v[k] = 0;
        else
          seen_.normal = seen_.normal && std::isnormal(v[k]);
      }
    }
    static_cast<char*>(workspace)[999] = 1;
    while (seconds_now() < until) {
    }
  }

 private:
  KernelSpec spec_;
  Seen& seen_;
  double microseconds_;
  std::string name_;
};

class SpinBackend : public Backend {
 public:
  explicit SpinBackend(double microseconds) : microseconds_(microseconds) {}
  bool supports(const KernelSpec& spec) const override { return spec.op != KernelOp::dense || spec.roles.n != unsupported; }
  Index unsupported = -1;  // samples of a dense layer that it cannot compute
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override { return compile_as(spec, "spin"); }
  std::vector<std::string> implementations(const KernelSpec& spec) override {
    return spec.bias ? std::vector<std::string>{"spin", "slower", "a tenth", "half"} : std::vector<std::string>{};
  }
  std::unique_ptr<Kernel> compile_as(const KernelSpec& spec, const std::string& name) override {
    seen.compiled++;
    return std::make_unique<SpinKernel>(spec, seen,
                                        microseconds_ * (name == "a tenth"  ? 0.1
                                                         : name == "half"   ? 0.5
                                                         : name == "slower" ? 3
                                                                            : 1),
                                        name);
  }
  std::string model() const override { return "synthetic"; }
  std::string isa() const override { return "none"; }
  std::string library() const override { return "spin 1"; }
  int threads() const override { return 1; }
  Index memory_bytes() const override { return Index{1} << 26; }
  Seen seen{};

 private:
  double microseconds_;
};

std::vector<KernelSpec> dense_of(const std::vector<Index>& filters) {
  std::vector<KernelSpec> out;
  for (Index f : filters) {
    KernelSpec s;
    s.op = KernelOp::dense;
    s.roles.n = 4;
    s.roles.c = 8;
    s.roles.f = f;
    out.push_back(s);
  }
  return out;
}

std::vector<int> without_repeats(std::vector<int> order) {
  order.erase(std::unique(order.begin(), order.end()), order.end());
  return order;
}

}  // namespace

TEST_CASE("what a device does not support is a point without seconds", "[measure]") {
  SpinBackend backend(50);
  backend.unsupported = 4;
  std::vector<KernelSpec> specs = dense_of({8, 16, 32});
  specs[1].roles.n = 5;
  for (const bool any : {true, false}) {
    if (!any) specs.erase(specs.begin() + 1);
    const Measurement m = measure_kernels(backend, 0, specs, {.least_rounds = 2, .most_rounds = 2});
    REQUIRE(m.fits);
    REQUIRE(m.points.size() == specs.size());
    for (std::size_t i = 0; i < specs.size(); i++) {
      CHECK(m.points[i].spec == specs[i]);
      CHECK(m.points[i].supported == (specs[i].roles.n == 5));
      CHECK((m.points[i].seconds.min > 0) == m.points[i].supported);
    }
  }
}

TEST_CASE("kernels are measured in shuffled rounds, each once per round, with fixed operands", "[measure]") {
  SpinBackend backend(50);
  const auto specs = dense_of({8, 16, 32, 48, 16});  // one twice
  const Measurement m = measure_kernels(backend, 3, specs, {.least_rounds = 4, .most_rounds = 4});
  REQUIRE(m.fits);
  CHECK(m.rounds == 4);
  CHECK(backend.seen.compiled == 4);
  REQUIRE(m.points.size() == 4);
  for (std::size_t i = 0; i < 4; i++) {
    const KernelPoint& p = m.points[i];
    const double set = 50e-6 * std::ceil(static_cast<double>(p.spec.roles.f) / 16);
    CHECK(p.spec == specs[i]);
    CHECK(p.device == 3);
    CHECK(p.implementation == "spin");
    CHECK(p.seconds.n == 4);
    CHECK(p.seconds.min >= set);
    CHECK(p.seconds.min <= p.seconds.q25);
    CHECK(p.seconds.q25 <= p.seconds.median);
  }
  CHECK(backend.seen.normal);
  for (const auto& [f, at] : backend.seen.operands) CHECK(at.size() == 1);
  // Per kernel 2 runs to warm up, then 3 x 2 of the reference and 2 of each per round; more where a run lost its core.
  CHECK(backend.seen.order.size() >= 4 * 2 + 4 * (6 + 8));
  CHECK(backend.seen.order.size() % 2 == 0);
  SpinBackend same(50);
  CHECK(measure_kernels(same, 3, specs, {.least_rounds = 4, .most_rounds = 4, .seed = 2}).fits);
  CHECK(without_repeats(same.seen.order) != without_repeats(backend.seen.order));
  CHECK(m.needed_seconds > 0);
}

TEST_CASE("where a device has a choice, each implementation is timed and the fastest is named", "[measure]") {
  SpinBackend backend(500);
  std::vector<KernelSpec> specs = dense_of({16, 32});
  specs[1].bias = true;
  const Measurement m = measure_kernels(backend, 0, specs, {.least_rounds = 3, .most_rounds = 3});
  CHECK(backend.seen.compiled == 5);
  REQUIRE(m.points.size() == 2);
  CHECK(m.points[0].implementation == "spin");
  CHECK(m.points[0].choices == 1);
  CHECK(m.points[1].implementation == "a tenth");  // 0.1 ms beside 0.5 ms at least
  CHECK(m.points[1].choices == 4);
  CHECK(m.points[1].spec == specs[1]);
}

TEST_CASE("short kernels are repeated within one timing", "[measure]") {
  SpinBackend backend(1);
  const Measurement m = measure_kernels(backend, 0, dense_of({16}), {.least_rounds = 3, .most_rounds = 3});
  REQUIRE(m.points.size() == 1);
  CHECK(backend.seen.order.size() >= 2 + 3 * 4 * 2);
  CHECK(m.points[0].seconds.min >= 1e-6);
  CHECK(m.points[0].seconds.min < 20e-6);
}

TEST_CASE("a budget that three rounds do not fit is reported, not exceeded", "[measure]") {
  SpinBackend backend(2000);
  const double start = seconds_now();
  const Measurement m = measure_kernels(backend, 0, dense_of({16, 32, 64, 128, 256, 512}), {.budget_seconds = 0.02});
  CHECK_FALSE(m.fits);
  CHECK(m.points.empty());
  CHECK(m.rounds == 0);
  CHECK(m.needed_seconds > 0.5);  // 126 ms per run of all, eight runs of each
  CHECK(seconds_now() - start < 0.6);
  SpinBackend enough(100);
  int reports = 0;
  const Measurement fits =
      measure_kernels(enough, 0, dense_of({16, 32, 64, 128, 256, 512}),
                      {.budget_seconds = 0.7, .most_rounds = 1000, .settled = -1, .progress = [&](const MeasureProgress& p) {
                         reports++;
                         CHECK(p.done <= p.total);
                         CHECK(p.seconds_left.value_or(0) >= 0);
                       }});
  CHECK(fits.fits);
  CHECK(fits.rounds >= 3);
  CHECK(fits.rounds < 1000);
  CHECK(reports > 0);
}

TEST_CASE("ranks agree on the number of rounds, also a rank without kernels, and which do not count", "[measure]") {
  // Two ranks in turn on one thread would wait for ever: a barrier that stands for a rank which wishes two more rounds.
  SpinBackend backend(20);
  int calls = 0;
  auto other = [&](Wish mine) { return std::max(mine, ++calls <= 6 ? Wish::more : Wish::enough); };
  CHECK(measure_kernels(backend, 0, dense_of({16}), {.least_rounds = 3, .most_rounds = 3}, other).rounds == 6);
  calls = 0;
  const Measurement idle = measure_kernels(backend, 0, {}, {}, other);
  CHECK(idle.rounds == 6);
  CHECK(idle.points.empty());
  CHECK(idle.notes.empty());
  calls = 0;
  auto disturbed = [&](Wish mine) { return ++calls == 2 || calls == 3 || calls == 5 ? Wish::again : mine; };
  const Measurement quiet = measure_kernels(backend, 0, dense_of({16, 32}), {.least_rounds = 3, .most_rounds = 3}, disturbed);
  CHECK(quiet.rounds == 3);
  CHECK(quiet.points.front().seconds.n == 3);
  CHECK(quiet.waited_seconds > 0);
  auto slow = [](Wish) { return Wish::too_slow; };
  CHECK_FALSE(measure_kernels(backend, 0, dense_of({16}), {}, slow).fits);
}

TEST_CASE("of a kernel that is too large for the memory a part is timed, and its seconds are multiplied", "[measure]") {
  SpinBackend backend(20);
  std::vector<KernelSpec> specs = dense_of({16, 256});
  specs[1].roles.n = 64;
  const auto timed = [&](Index memory) {
    return measure_kernels(backend, 2, specs, {.least_rounds = 2, .most_rounds = 2, .memory_bytes = memory});
  };
  // A busy machine adds notes of its own.
  const auto said = [](const Measurement& its, const std::string& start) {
    for (const std::string& note : its.notes)
      if (note.starts_with(start)) return note;
    return std::string();
  };
  CHECK(said(timed(1 << 20), "device 2: scaled: ").empty());
  backend.seen = {};
  const Measurement made = timed(48000);  // 24000 for each: the second takes 8192 for its weights, and 1056 for each sample
  REQUIRE(made.points.size() == 2);
  for (std::size_t i = 0; i < specs.size(); i++) {
    CHECK(made.points[i].spec == specs[i]);
    CHECK(made.points[i].workspace_bytes == 1000);
  }
  CHECK(made.points[1].seconds.min > 4 * 16 * 20e-6);  // an eighth of the samples fits: eight times the seconds
  CHECK_THAT(said(made, "device 2: scaled: "), Catch::Contains("24000 bytes"));
  const Measurement none = timed(1000);
  CHECK(none.fits);
  CHECK(none.points.empty());
  CHECK(!said(none, "device 2: not timed: ").empty());
}

TEST_CASE("a smaller kernel has fewer samples, then fewer filters and channels; attention has whole samples", "[measure]") {
  KernelSpec spec = dense_of({3})[0];
  std::vector<std::array<Index, 3>> roles;
  for (std::optional<KernelSpec> next = spec; next; next = halved(*next))
    roles.push_back({next->roles.n, next->roles.f, next->roles.c});
  CHECK(roles == std::vector<std::array<Index, 3>>{{4, 3, 8}, {2, 3, 8}, {1, 3, 8}, {1, 1, 8}, {1, 1, 4}, {1, 1, 2}, {1, 1, 1}});
  spec.op = KernelOp::attention;
  spec.roles.g = 30;
  spec.heads = 2;
  spec.share = 3;
  const std::optional<KernelSpec> half = halved(spec);
  REQUIRE(half.has_value());
  CHECK(half->roles.g == 12);  // of samples with six heads
  CHECK(halved(*half)->roles.g == 6);
  CHECK_FALSE(halved(*halved(*half)).has_value());
  spec = {};
  spec.op = KernelOp::map;
  spec.extents = {2, 5, 1};
  CHECK(halved(spec)->extents == std::vector<Index>{2, 2, 1});
  spec.extents = {1, 1};
  CHECK_FALSE(halved(spec).has_value());
}

TEST_CASE("a profile of another device is refused with the reason", "[measure]") {
  SpinBackend backend(1);
  Device device;
  device.name = "left";
  const DeviceFacts here = facts_of(device, backend);
  CHECK(here == DeviceFacts{"left", "cpu", "synthetic", "none", "spin 1", "", 1});
  DeviceFacts profiled = here;
  profiled.name = "right";
  CHECK_NOTHROW(check_same_device(profiled, here, "p.json"));
  profiled.isa = "avx2";
  CHECK_THROWS_WITH(check_same_device(profiled, here, "p.json"), Catch::Contains("isa \"none\"") && Catch::Contains("avx2"));
}

TEST_CASE("a piecewise link is found again from its points", "[links]") {
  auto truth = [](double b) { return b <= 2048 ? 0.48e-6 + b / 3e9 : b <= 524288 ? 1.7e-6 + b / 7.6e9 : 100e-6 + b / 2.5e9; };
  std::vector<std::pair<Index, double>> points;
  for (Index b = 8; b <= Index{16} << 20; b *= 2) points.emplace_back(b, truth(static_cast<double>(b)));
  const std::vector<LinkSegment> fitted = fit_link(points);
  REQUIRE(fitted.size() == 4);
  Profile p;
  p.links.push_back({0, 1, fitted});
  for (std::size_t i = 1; i < fitted.size(); i++) CHECK(fitted[i].bytes_up_to > fitted[i - 1].bytes_up_to);
  for (Index b = 8; b <= Index{16} << 20; b *= 2)
    CHECK(p.seconds(0, 1, b).seconds == Approx(truth(static_cast<double>(b))).epsilon(1e-6));
  // A link that gets faster with size still has no negative line.
  for (const LinkSegment& s : fit_link({{8, 4e-6}, {64, 3e-6}, {512, 2e-6}, {4096, 1e-6}})) {
    CHECK(s.seconds >= 0);
    CHECK(s.bytes_per_second > 0);
  }
}

TEST_CASE("every rank knows all links, both ways", "[links]") {
  std::vector<std::vector<Link>> of(3);
  on_threads(3, [&](Transport& transport) {
    of[static_cast<std::size_t>(transport.rank())] =
        measure_links(transport, {.budget_seconds = 0.3, .most_bytes = 1 << 16, .most_rounds = 20});
  });
  for (const auto& links : of) {
    REQUIRE(links.size() == 6);
    for (std::size_t i = 0; i < 6; i++) {
      CHECK(links[i].from == of[0][i].from);
      CHECK(links[i].to == of[0][i].to);
      REQUIRE(links[i].segments.size() == 4);
      CHECK(links[i].segments.back().bytes_up_to == 1 << 16);
      for (std::size_t k = 0; k < 4; k++) {
        CHECK(links[i].segments[k].seconds == of[0][i].segments[k].seconds);
        CHECK(links[i].segments[k].seconds >= 0);
        CHECK(links[i].segments[k].bytes_per_second > 0);
      }
    }
  }
  on_threads(1, [](Transport& transport) { CHECK(measure_links(transport).empty()); });
}

TEST_CASE("of ranks that share memory it is measured what reading takes, and an exchange of nothing", "[links]") {
  on_threads(3, [&](Transport& transport) {
    std::vector<Link> links;
    for (int from = 0; from < 3; from++)
      for (int to = 0; to < 3; to++)
        if (from != to) links.push_back({from, to, {{1 << 20, 1e-6, 1e9}}});
    measure_reads(transport, links, {.most_bytes = 4096, .most_rounds = 5});
    for (const Link& link : links) {
      CHECK(!link.in_place.empty());
      REQUIRE(link.exchange_seconds);
      CHECK(*link.exchange_seconds > 0);
    }
  });
}

TEST_CASE("a device with memory of its own: its kernels are timed by its marks, its copies apart from its links", "[device]") {
  const auto device = testing::fake_device(reference_backend(), 5);
  KernelSpec conv, update;
  conv.roles = {2, 3, 6, 6, 4, 3, 3, 6, 6};
  conv.padding = {1, 1, 1, 1};
  update.op = KernelOp::map;
  update.extents = {100};
  update.operands.assign(2, {DType::f32, {1}});
  const std::vector<KernelSpec> specs{conv, update};
  const Measurement made = measure_kernels(*device, 0, specs, {.budget_seconds = 5, .most_rounds = 4});
  REQUIRE(made.points.size() == 2);
  for (const KernelPoint& p : made.points) CHECK(p.seconds.min > 0);
  CHECK(made.wall_over_cpu == 1);
  on_threads(2, [&](Transport& transport) {
    const auto own = testing::fake_device(reference_backend(), static_cast<std::uint64_t>(transport.rank()));
    DeviceMemory* memory = transport.rank() == 0 ? own->device_memory() : nullptr;
    const LinkOptions options{.budget_seconds = 0.2, .most_bytes = 1 << 12, .most_rounds = 5, .device = memory};
    const auto links = measure_links(transport, options);
    if (transport.rank() != 0) return;
    CHECK(links.size() == 2);
    const DeviceLink copies = measure_device_link(*memory, 3, options);
    CHECK(copies.device == 3);
    for (const auto* way : {&copies.to_device, &copies.from_device}) {
      REQUIRE(way->size() == 4);
      CHECK(way->back().bytes_up_to == 1 << 12);
      Profile p;
      p.device_links = {{0, *way, *way}};
      for (Index bytes = 8; bytes <= 1 << 12; bytes *= 2) CHECK(p.to_device_seconds(0, bytes) > 0);
    }
  });
}

// Parts of a batch of 8: at a quarter of the batch 1, 2 and 4 samples are all one sample.
TEST_CASE("kernels measured at a smaller batch keep the proportions of their samples", "[measure]") {
  std::vector<KernelSpec> full, smaller;
  std::vector<KernelPoint> made;
  const auto point = [](const KernelSpec& spec, double seconds) {
    return KernelPoint{.spec = spec, .seconds = {seconds, seconds, seconds, 3}};
  };
  for (const Index n : {1, 2, 4, 8})
    for (const Index filters : {16, 32}) {
      KernelSpec& s = full.emplace_back(dense_of({filters}).front());
      s.roles.n = n;
      smaller.push_back(s);
      smaller.back().roles.n = std::max<Index>(1, n / 4);
    }
  KernelSpec map;
  map.op = KernelOp::map;
  full.push_back(map), smaller.push_back(map);
  for (const KernelSpec& s : smaller)  // two samples take 1.6 times as long as one
    if (std::none_of(made.begin(), made.end(), [&](const KernelPoint& p) { return p.spec == s; }))
      made.push_back(point(s, (s.op == KernelOp::map ? 7.0 : static_cast<double>(s.roles.f)) * (s.roles.n == 2 ? 1.6 : 1)));
  const std::vector<KernelPoint> out = at_full_batch(made, smaller, full, {point(full[7], 32 * 1.6 * 4 * 1.25)});
  REQUIRE(out.size() == full.size());
  for (std::size_t i = 0; i < full.size(); i++) {
    CHECK(out[i].spec == full[i]);
    const KernelSpec& s = full[i];
    const double expected =
        s.op == KernelOp::map ? 7
                              : 1.25 * static_cast<double>(s.roles.f) * (s.roles.n == 8 ? 1.6 * 4 : static_cast<double>(s.roles.n));
    CHECK(out[i].seconds.median == Approx(expected));
  }
}

// Forty kernels of 1 to 40 units in shuffled rounds, on a machine that is 1.4 times slower for stretches of a third of a round.
// Then stretches of two rounds that take two thirds of the time: the times are those of the quiet rest.
TEST_CASE("interference is taken out of kernels' times") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> noise(0.99, 1.03);
  std::vector<TimedRun> runs;
  std::vector<std::size_t> order(40);
  std::iota(order.begin(), order.end(), std::size_t{0});
  bool slow = false;
  for (int round = 0; round < 9; round++) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i = 0; i < order.size(); i++) {
      if (random() % 14 == 0) slow = !slow;
      runs.push_back({order[i], static_cast<double>(order[i] + 1) * noise(random) * (slow ? 1.4 : 1)});
    }
  }
  const auto spread_of = [&](const std::vector<double>& seconds) {  // of the medians beside the true times
    std::vector<std::vector<double>> of(40);
    for (std::size_t i = 0; i < runs.size(); i++)
      of[runs[i].kernel].push_back(seconds[i] / static_cast<double>(runs[i].kernel + 1));
    std::vector<double> medians;
    for (auto& list : of) {
      std::sort(list.begin(), list.end());
      medians.push_back(list[list.size() / 2]);
    }
    const auto [low, high] = std::minmax_element(medians.begin(), medians.end());
    return *high / *low;
  };
  std::vector<double> raw;
  for (const TimedRun& r : runs) raw.push_back(r.seconds);
  const Steadied steady = without_drift(runs);
  CHECK(spread_of(raw) > 1.3);
  CHECK(spread_of(steady.seconds) < 1.1);
  CHECK(steady.slow / steady.fast > 1.3);
  runs.clear();
  for (int round = 0; round < 18; round++) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t k : order) runs.push_back({k, static_cast<double>(k + 1) * noise(random) * (round % 6 < 4 ? 1.3 : 1)});
  }
  const Steadied quiet = without_drift(runs);
  std::vector<double> over;  // the true times
  for (std::size_t i = 0; i < runs.size(); i++) over.push_back(quiet.seconds[i] / static_cast<double>(runs[i].kernel + 1));
  std::sort(over.begin(), over.end());
  CHECK(over[over.size() / 10] > 0.97);
  CHECK(over[over.size() * 9 / 10] < 1.06);
  CHECK(quiet.slow > 1.2);
  CHECK(quiet.fast < 1.1);
  const Steadied few = without_drift(std::vector<TimedRun>{{0, 1.0}, {1, 2.0}, {0, 1.5}});
  CHECK(few.seconds == std::vector<double>{1.0, 2.0, 1.5});
  CHECK(few.slow == 1);
}
