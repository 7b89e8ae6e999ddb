// SPDX-License-Identifier: Apache-2.0
// Support vector machines: the same iterations as plain loops on any number of ranks, the same optimum with any elimination, and a
// certificate that holds when it is computed again.
#include <fmt/format.h>
#include <motley/error.h>
#include <motley/svm.h>

#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "base/npy.h"
#include "kernels/loops/this_cpu.h"
#include "svm/kernel_function.h"
#include "svm/shares.h"
#include "tests/support/directory.h"
#include "tests/support/fake_device.h"
#include "tests/support/named_mesh.h"
#include "tests/support/plain_smo.h"

using namespace motley;
using testing::PlainSvm;

namespace {

// Two noisy classes (or more) of samples whose features are not 0 with this probability.
svm::Data random_samples(Index samples, Index features, double density, int classes = 2, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  svm::Data out;
  out.features = features;
  for (Index s = 0; s < samples; s++) {
    double sum = 0;
    for (Index c = 0; c < features; c++) {
      if (uniform() >= density) continue;
      const double value = 2 * uniform() - 1;
      out.columns.push_back(static_cast<std::int32_t>(c));
      out.values.push_back(value);
      sum += c % 2 == 0 ? value : value * value - 0.3;
    }
    const double noisy = sum + 0.4 * uniform();
    out.labels.push_back(classes == 2 ? (noisy > 0.1 ? 1 : -1) : std::clamp(std::floor(noisy + classes / 2.0), 0.0, classes - 1.0));
    out.offsets.push_back(static_cast<Index>(out.values.size()));
  }
  return out;
}

svm::Result trained(const svm::Data& data, const svm::Options& options, int ranks) {
  const Mesh mesh = named_mesh({{"all", ranks}});
  std::vector<svm::Result> out(static_cast<std::size_t>(ranks));
  run_ranks_in_memory(ranks, [&](Runtime& rt) { out[static_cast<std::size_t>(rt.rank())] = svm::train(rt, mesh, data, options); });
  for (const svm::Result& its : out) CHECK(its.model.text() == out.front().model.text());
  return out.front();
}

// Ranks of as many hosts: nothing is shared, all of it is sent.
class Apart final : public Transport {
 public:
  explicit Apart(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {
    for (int r = 0; r < inner_->size(); r++) hosts_.push_back(r);
  }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Ticket send(int to, int tag, std::span<const std::byte> bytes) override { return inner_->send(to, tag, bytes); }
  Ticket receive(int from, int tag, std::span<std::byte> bytes) override { return inner_->receive(from, tag, bytes); }
  bool test(Ticket ticket) override { return inner_->test(ticket); }
  int peer(Ticket ticket) const override { return inner_->peer(ticket); }
  bool idle() const override { return inner_->idle(); }
  std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> mine) override { return inner_->gather_all(mine); }
  HeldBytes allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  std::vector<HeldBytes> share(const HeldBytes&) override { throw InternalError("no rank is on this one's host"); }
  Ticket await(const std::atomic<std::uint64_t>&, std::uint64_t, int, std::int64_t) override {
    throw InternalError("no rank is on this one's host");
  }
  void abort(const Error& error) noexcept override { inner_->abort(error); }

 private:
  std::unique_ptr<Transport> inner_;
};

// The coefficients by sample, of a model of two classes, found again by the samples' values.
std::vector<double> alphas(const svm::Data& data, const svm::Model& model) {
  const auto row = [](const svm::Data& of, std::size_t s) {
    std::vector<std::pair<std::int32_t, double>> out;
    for (auto e = static_cast<std::size_t>(of.offsets[s]); e < static_cast<std::size_t>(of.offsets[s + 1]); e++)
      out.emplace_back(of.columns[e], of.values[e]);
    return out;
  };
  std::map<std::vector<std::pair<std::int32_t, double>>, double> found;
  for (std::size_t v = 0; v < model.coefficients.size(); v++) found[row(model.vectors, v)] = std::abs(model.coefficients[v]);
  std::vector<double> out;
  for (std::size_t s = 0; s < data.labels.size(); s++) {
    const auto its = found.find(row(data, s));
    out.push_back(its == found.end() ? 0 : its->second);
  }
  return out;
}

struct Case {
  svm::KernelFunction kernel;
  double density;
};
const std::vector<Case> kCases{{{svm::KernelKind::rbf, 0.7, 0, 3}, 1.0},
                               {{svm::KernelKind::linear, 1, 0, 3}, 1.0},
                               {{svm::KernelKind::polynomial, 0.5, 1, 2}, 1.0},
                               {{svm::KernelKind::rbf, 0.7, 0, 3}, 0.2},
                               {{svm::KernelKind::linear, 1, 0, 3}, 0.2}};

}  // namespace

TEST_CASE("f64: the iterations of plain loops, on any number of ranks") {
  for (const Case& c : kCases) {
    const svm::Data data = random_samples(90, 12, c.density);
    PlainSvm plain(data, 1, c.kernel, 2);
    plain.solve(0.9e-4);
    for (const int ranks : {1, 2, 3}) {
      const svm::Options options{.kernel = c.kernel, .c = 2, .epsilon = 1e-4, .shrink = svm::Shrink::never, .dtype = DType::f64};
      const svm::Result result = trained(data, options, ranks);
      INFO("kernel " << static_cast<int>(c.kernel.kind) << ", density " << c.density << ", ranks " << ranks);
      CHECK(result.machines.front().iterations == plain.iterations);
      const std::vector<double> alpha = alphas(data, result.model);
      for (std::size_t s = 0; s < alpha.size(); s++) CHECK(alpha[s] == Approx(plain.alpha[s]).margin(1e-12));
      CHECK(result.machines.front().objective == Approx(plain.objective()).epsilon(1e-12));
    }
  }
}

TEST_CASE("f64: the same bits on one, two and three ranks, with elimination") {
  const svm::Data data = random_samples(400, 10, 1.0);
  for (const svm::Shrink shrink : {svm::Shrink::adaptive, svm::Shrink::early, svm::Shrink::lazy}) {
    const svm::Options options{.kernel = {.gamma = 0.2}, .epsilon = 1e-5, .shrink = shrink, .dtype = DType::f64};
    const svm::Result one = trained(data, options, 1);
    for (const int ranks : {2, 3}) {
      const svm::Result more = trained(data, options, ranks);
      CHECK(more.machines.front().iterations == one.machines.front().iterations);
      CHECK(more.model.text() == one.model.text());
    }
  }
}

TEST_CASE("ranks of two hosts do the same iterations as those of one") {
  const svm::Data data = random_samples(120, 6, 1.0);
  const svm::Options options{.kernel = {.gamma = 0.2}, .dtype = DType::f64};
  const Mesh mesh = named_mesh({{"all", 2}});
  std::vector<std::unique_ptr<Transport>> transports;
  for (auto& inner : in_memory(2)) transports.push_back(std::make_unique<Apart>(std::move(inner)));
  const std::string one = trained(data, options, 1).model.text();
  std::array<std::string, 2> apart;
  run_ranks(std::move(transports),
            [&](Runtime& rt) { apart[static_cast<std::size_t>(rt.rank())] = svm::train(rt, mesh, data, options).model.text(); });
  CHECK(apart == std::array{one, one});
}

TEST_CASE("every elimination reaches the same optimum, and its certificate holds when computed again") {
  constexpr Index kSamples = 200;
  constexpr double kBound = 3;
  for (const Case& c : kCases) {
    const svm::Data data = random_samples(kSamples, 9, c.density);
    PlainSvm best(data, 1, c.kernel, kBound);
    best.solve(1e-5);
    for (const DType dtype : {DType::f32, DType::f64})
      for (const svm::Shrink shrink : {svm::Shrink::never, svm::Shrink::adaptive, svm::Shrink::early, svm::Shrink::lazy})
        for (const int ranks : {1, 3}) {
          svm::Options options{.kernel = c.kernel, .c = kBound, .epsilon = 1e-5, .shrink = shrink, .dtype = dtype};
          if (ranks > 1) options.cache_bytes = 1;  // the fewest rows, which replace each other
          const svm::Result result = trained(data, options, ranks);
          const svm::Machine& m = result.machines.front();
          PlainSvm plain(data, m.positive, c.kernel, kBound);
          plain.alpha = alphas(data, result.model);
          const std::vector<double> gradient = plain.gradient();
          INFO("kernel " << static_cast<int>(c.kernel.kind) << ", density " << c.density << ", shrink " << static_cast<int>(shrink)
                         << ", f64 " << (dtype == DType::f64) << ", ranks " << ranks);
          CHECK(m.converged);
          CHECK(plain.gap_of(gradient) <= 1e-5 + 1e-10);
          CHECK(m.gap == Approx(plain.gap_of(gradient)).margin(1e-10));
          double balance = 0, objective = 0;
          for (std::size_t s = 0; s < plain.y.size(); s++) {
            balance += plain.y[s] * plain.alpha[s];
            objective += plain.alpha[s] * (plain.y[s] * gradient[s] - 1) / 2;
          }
          CHECK(std::abs(balance) <= 1e-12 * kBound * kSamples);
          CHECK(m.objective == Approx(objective).epsilon(1e-10));
          CHECK(m.objective == Approx(best.objective()).epsilon(1e-6));
        }
  }
}

TEST_CASE("elimination computes fewer kernel values") {
  const svm::Data data = random_samples(2000, 6, 1.0);
  const svm::Options never{.kernel = {.gamma = 0.3}, .c = 10, .shrink = svm::Shrink::never, .dtype = DType::f64, .cache_bytes = 1};
  for (const svm::Shrink shrink : {svm::Shrink::adaptive, svm::Shrink::early, svm::Shrink::lazy}) {
    svm::Options its = never;
    its.shrink = shrink;
    const svm::Machine with = trained(data, its, 1).machines.front(), without = trained(data, never, 1).machines.front();
    CHECK(with.kernel_values < without.kernel_values);
    CHECK(with.least_active < 2000);
  }
}

TEST_CASE("f32: columns far from 0 beside others, with rbf") {
  svm::Data data = random_samples(300, 6, 1.0);
  const svm::Options options{.kernel = {.gamma = 0.3}, .c = 1, .epsilon = 1e-4, .dtype = DType::f32};
  const svm::Machine near = trained(data, options, 1).machines.front();
  for (std::size_t e = 0; e < data.values.size(); e++)
    if (data.columns[e] % 2 == 0) data.values[e] += 10000;
  for (const int ranks : {1, 2}) {
    const svm::Machine far = trained(data, options, ranks).machines.front();
    CHECK(far.converged);
    CHECK(far.objective == Approx(near.objective).epsilon(1e-4));
  }
}

// More of the shorter rows fit: as many as the memory holds.
TEST_CASE("a cache that does not hold all rows, before and after samples are eliminated") {
  const svm::Data data = random_samples(2500, 6, 1.0);
  for (const svm::Shrink shrink : {svm::Shrink::early, svm::Shrink::adaptive}) {
    svm::Options its{.kernel = {.gamma = 0.3}, .c = 10, .shrink = shrink, .dtype = DType::f64};
    const svm::Machine whole = trained(data, its, 1).machines.front();
    for (const int ranks : {1, 2, 3}) {
      its.cache_bytes = 1 << 20;
      const svm::Machine part = trained(data, its, ranks).machines.front();
      CHECK(part.converged);
      CHECK(part.objective == whole.objective);
      CHECK(part.iterations == whole.iterations);
    }
  }
}

TEST_CASE("several classes, one against one: predictions of the model that was written and read") {
  const svm::Data data = random_samples(240, 8, 1.0, 4), other = random_samples(50, 8, 0.5, 4, 7);
  const svm::Options options{.kernel = {.gamma = 0.4}, .c = 5};
  const svm::Result result = trained(data, options, 2);
  CHECK(result.machines.size() == 6);
  const svm::Model read = svm::Model::parse("model", result.model.text());
  CHECK(read.text() == result.model.text());
  const Mesh mesh = named_mesh({{"all", 2}});
  std::array<std::vector<double>, 2> predicted;
  run_ranks_in_memory(2,
                      [&](Runtime& rt) { predicted[static_cast<std::size_t>(rt.rank())] = svm::predict(rt, mesh, read, other); });
  for (const std::vector<double>& labels : predicted) {
    REQUIRE(labels.size() == 50);
    // By definition.
    for (std::size_t s = 0; s < labels.size(); s++) {
      PlainSvm both(other, 0, read.kernel, 1);
      std::vector<int> votes(4);
      std::size_t p = 0;
      for (std::size_t a = 0; a < 4; a++)
        for (std::size_t b = a + 1; b < 4; b++, p++) {
          double sum = -read.rho[p];
          std::size_t v = 0;
          for (std::size_t own = 0; own < 4; own++)
            for (Index i = 0; i < read.counts[own]; i++, v++) {
              if (own != a && own != b) continue;
              std::vector<double> x(8);
              for (auto e = static_cast<std::size_t>(read.vectors.offsets[v]);
                   e < static_cast<std::size_t>(read.vectors.offsets[v + 1]); e++)
                x[static_cast<std::size_t>(read.vectors.columns[e])] = read.vectors.values[e];
              double distance = 0;
              for (std::size_t c = 0; c < 8; c++) distance += (x[c] - both.x[s][c]) * (x[c] - both.x[s][c]);
              sum += read.coefficients[v * 3 + (own == a ? b - 1 : a)] * std::exp(-read.kernel.gamma * distance);
            }
          votes[sum > 0 ? a : b]++;
        }
      CHECK(labels[s] == read.labels[static_cast<std::size_t>(std::max_element(votes.begin(), votes.end()) - votes.begin())]);
    }
  }
}

TEST_CASE("more ranks than samples of a class") {
  const svm::Data data = svm::Data::parse("data", "1 1:1\n-1 1:-1\n1 1:2\n");
  for (const int ranks : {1, 4})
    for (const DType dtype : {DType::f32, DType::f64}) {
      const svm::Result result = trained(data, {.kernel = {svm::KernelKind::linear}, .c = 10, .dtype = dtype}, ranks);
      CHECK(result.machines.front().objective == Approx(-0.5));  // x = 1 and x = -1 at a distance of 1
      CHECK(result.machines.front().support_vectors == 2);
    }
}

TEST_CASE("damaged files are refused with line and column") {
  const auto said = [](const auto& work) -> std::string {
    try {
      work();
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::data);
      return e.what();
    }
    return "";
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"1 1:1\n-1 3:1 2:1\n", "d:2:8: error: the index 2 follows 3: indices must ascend within a line"},
      {"1 1:1\n1:1 2:1\n", "d:2:1: error: no label; expected LABEL INDEX:VALUE ..."},
      {"1 1:1\n\n1 1:1\n", "d:2:1: error: no label; expected LABEL INDEX:VALUE ..."},
      {"1 1:nan\n", "d:1:5: error: the value nan is not finite"},
      {"1 1:1e999\n", "d:1:5: error: expected a number, found \"1e999\""},
      {"1 1099511627776:1\n", "d:1:3: error: the index 1099511627776 is too large: at most 2147483647"},
      {"1 99999999999999999999999:1\n", "d:1:3: error: the index 99999999999999999999999 is too large: at most 2147483647"},
      {"1 0:1\n", "d:1:3: error: the index 0 is less than 1: indices begin at 1"},
      {"1 1:1 x\n", "d:1:7: error: expected INDEX:VALUE, found \"x\""},
      {"1 1:1 2:y\n", "d:1:9: error: expected a number, found \"y\""},
      {"a 1:1\n", "d:1:1: error: expected a label (an integer that names the class), found \"a\""},
      {"1.5 1:1\n", "d:1:1: error: expected a label (an integer that names the class), found \"1.5\""},
      {"", "d: no samples; expected lines LABEL INDEX:VALUE ..."}};
  for (const auto& [text, expected] : cases) CHECK(said([&t = text] { static_cast<void>(svm::Data::parse("d", t)); }) == expected);
  CHECK(svm::Data::parse("d", "+1 1:+2 3:0 7:1e-3 \r\n-1\n").features == 7);
  CHECK(said([] { trained(svm::Data::parse("d", "1 1:1\n1 1:2\n"), {}, 1); }) ==
        "all samples are of one class, 1; expected two or more");
  const std::string model =
      "svm_type c_svc\nkernel_type rbf\ngamma 1\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 1 -1\nnr_sv 1 1\nSV\n1 1:1\n-1 1:2\n";
  CHECK(svm::Model::parse("m", model).text() ==
        "svm_type c_svc\nkernel_type rbf\ngamma 1\nnr_class 2\ntotal_sv 2\nrho 0\nlabel 1 -1\nnr_sv 1 1\nSV\n1 1:1 \n-1 1:2 \n");
  const auto damaged = [&](const std::string& from, const std::string& to) {
    std::string text = model;
    text.replace(text.find(from), from.size(), to);
    return said([&] { static_cast<void>(svm::Model::parse("m", text)); });
  };
  CHECK(damaged("c_svc", "nu_svr") == "m:9:1: error: svm_type is not c_svc: only classifiers are read");
  CHECK(damaged("SV\n1", "SV\nx").starts_with("m:10:1: error: expected 1 coefficients"));
  CHECK(damaged("total_sv 2", "total_sv 3") == "m:9:1: error: the counts of nr_sv do not add up to total_sv");
  CHECK(damaged("nr_sv 1 1", "nr_sv -3 5") == "m:9:1: error: -3 of \"nr_sv\" is not a count");
  CHECK(damaged("nr_sv 1 1", "nr_sv 1.5 0.5") == "m:9:1: error: 1.5 of \"nr_sv\" is not a count");
  CHECK(damaged("label 1 -1", "label 1.5 -1") == "m:9:1: error: the label 1.5 is not an integer");
  CHECK(damaged("\nSV\n", "\n").ends_with("not a libsvm model file: there is no line \"SV\""));
  CHECK(damaged("-1 1:2\n", "") == "m:10:1: error: expected 2 support vectors, found 1");
}

TEST_CASE("samples in .npy arrays") {
  const testing::Directory directory;
  const auto x = directory.path / "x.npy", y = directory.path / "y.npy";
  write_npy(x, {2, 3}, std::vector<float>{1, 0, 2, 0, 0, -1});
  write_npy(y, {2}, std::vector<std::int32_t>{7, -1});
  const svm::Data data = svm::Data::load_npy(x, y);
  CHECK(data.features == 3);
  CHECK(data.labels == std::vector<double>{7, -1});
  CHECK(data.offsets == std::vector<Index>{0, 2, 3});
  CHECK(data.columns == std::vector<std::int32_t>{0, 2, 2});
  CHECK(data.values == std::vector<double>{1, 2, -1});
  CHECK(svm::Data::load_npy(x).labels == std::vector<double>{0, 0});
  write_npy(y, {3}, std::vector<std::int32_t>{1, 2, 3});
  CHECK_THROWS_WITH(svm::Data::load_npy(x, y), Catch::Contains("labels of shape [3]; expected [2]"));
  write_npy(y, {2}, std::vector<float>{1, 0.5});
  CHECK_THROWS_WITH(svm::Data::load_npy(x, y), Catch::Contains("the label of sample 1 is 0.5; expected an integer"));
  CHECK_THROWS_WITH(svm::Data::load_npy(y), Catch::Contains("an array of shape [2]; expected [samples, features]"));
  write_npy(x, {1, 2}, std::vector<float>{1, NAN});
  CHECK_THROWS_WITH(svm::Data::load_npy(x), Catch::Contains("the value [0, 1] is not finite"));
}

TEST_CASE("rows of a device with its own memory, of several samples at once") {
  const svm::Data data = random_samples(150, 11, 0.8);
  for (const svm::KernelFunction& kernel :
       {svm::KernelFunction{svm::KernelKind::rbf, 0.3}, {svm::KernelKind::linear}, {svm::KernelKind::polynomial, 0.5, 1, 3}}) {
    const svm::Samples samples(data, kernel);
    const auto device = testing::fake_device(reference_backend(), 5);
    const auto source = svm::dense_rows(samples, *device);
    for (const Index n : {100, 30, 150}) {
      std::vector<Index> used;
      for (Index k = 0; k < n; k++) used.push_back(data.samples() - n + k);
      source->use(used);
      const std::vector<Index> of{3, 149, 77};
      std::vector<std::vector<float>> rows(3, std::vector<float>(static_cast<std::size_t>(svm::padded(n))));
      std::vector<float*> out;
      for (auto& row : rows) out.push_back(row.data());
      source->rows(of, out);
      const PlainSvm plain(data, 1, kernel, 1);
      for (std::size_t q = 0; q < 3; q++)
        for (std::size_t k = 0; k < used.size(); k++)
          CHECK(rows[q][k] ==
                Approx(plain.value(static_cast<std::size_t>(of[q]), static_cast<std::size_t>(used[k]))).epsilon(1e-5).margin(1e-6));
    }
  }
}

TEST_CASE("options out of range are refused") {
  const svm::Data data = random_samples(10, 3, 1.0);
  for (const auto& options : std::vector<svm::Options>{
           {.kernel = {.gamma = -1}}, {.c = 0}, {.epsilon = 0}, {.kernel = {svm::KernelKind::polynomial, 1, 0, 0}}})
    CHECK_THROWS_AS(trained(data, options, 1), UserError);
}

TEST_CASE("shares follow measured staircases; samples are dealt once each") {
  const svm::Staircase fast{{1000, 2000, 4000}, {1, 2, 4}}, slow{{1000, 2000, 4000}, {3, 6, 12}},
      steps{{1000, 2000, 4000}, {1, 1, 6}};
  CHECK(fast.at(0) == 0);
  CHECK(fast.at(3000) == Approx(3));
  CHECK(fast.at(8000) == Approx(8));
  CHECK(svm::balanced({fast, slow}, 4096).sizes() == std::vector<Index>{3072, 1024});
  CHECK(svm::balanced({steps, slow}, 3000).sizes()[0] >= 2000);  // at least to the end of its step
  CHECK(svm::balanced({fast, slow}, 100).sizes() == std::vector<Index>{50, 50});
  for (const Index size : {0, 1, 7, 1000}) {
    const svm::Shares shares = svm::dealt(size, Partition::of(std::vector<Index>{30, 0, 70}));
    std::vector<Index> all;
    for (const auto& its : shares) {
      CHECK(std::is_sorted(its.begin(), its.end()));
      all.insert(all.end(), its.begin(), its.end());
    }
    std::sort(all.begin(), all.end());
    REQUIRE(static_cast<Index>(all.size()) == size);
    for (Index k = 0; k < size; k++) CHECK(all[static_cast<std::size_t>(k)] == k);
  }
}

TEST_CASE("the loops have the same bits on every ISA") {
  std::mt19937_64 random(3);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53 - 0.5; };
  constexpr Index kN = 96, kFeatures = 37;
  std::vector<double> f(kN), up(kN), low(kN), diagonal(kN), block(kFeatures * 8), vectors(kFeatures * 8);
  std::vector<float> a(kN), b(kN);
  for (std::size_t k = 0; k < kN; k++) {
    f[k] = std::round(uniform() * 16) / 16;  // with ties
    up[k] = uniform() > 0 ? 0 : HUGE_VAL;
    low[k] = uniform() > 0 ? 0 : -HUGE_VAL;
    diagonal[k] = 1;
    a[k] = static_cast<float>(std::round(uniform() * 8) / 8);
    b[k] = static_cast<float>(std::round(uniform() * 8) / 8);
  }
  for (double& v : block) v = uniform();
  for (double& v : vectors) v = uniform();
  const cpu::SmoLoops& plain = cpu::smo_loops_of(cpu::Simd::generic);
  for (const std::string& isa : isa_names()) {
    cpu::Simd simd{};
    try {
      simd = cpu::simd_within(isa);
    } catch (const DeviceError&) {
      continue;
    }
    const cpu::SmoLoops& loops = cpu::smo_loops_of(simd);
    std::vector<double> f1 = f, f2 = f, p1(64), p2(64);
    const cpu::Extremes e1 = plain.step_f32(f1.data(), a.data(), b.data(), 0.25, up.data(), low.data(), kN),
                        e2 = loops.step_f32(f2.data(), a.data(), b.data(), 0.25, up.data(), low.data(), kN);
    CHECK(f1 == f2);
    CHECK((e1.up.at == e2.up.at && e1.low.at == e2.low.at && e1.up.value == e2.up.value && e1.low.value == e2.low.value));
    for (Index k = 0; k < e2.up.at; k++) CHECK(!(f2[static_cast<std::size_t>(k)] + up[static_cast<std::size_t>(k)] <= e2.up.value));
    const cpu::Found g1 = plain.gain_f32(f1.data(), a.data(), diagonal.data(), low.data(), e1.up.value, 1, kN),
                     g2 = loops.gain_f32(f1.data(), a.data(), diagonal.data(), low.data(), e1.up.value, 1, kN);
    CHECK((g1.at == g2.at && g1.value == g2.value));
    plain.products(block.data(), vectors.data(), kFeatures, p1.data());
    loops.products(block.data(), vectors.data(), kFeatures, p2.data());
    CHECK(p1 == p2);
    double sum = 0;
    for (std::size_t c = 0; c < kFeatures; c++) sum += vectors[3 * kFeatures + c] * block[c * 8 + 5];
    CHECK(p1[3 * 8 + 5] == sum);
  }
}
