// SPDX-License-Identifier: Apache-2.0
// Every backend against the reference, for every KernelSpec.
#include "tests/support/backend_law.h"

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <vector>

#include "kernels/eigen/products.h"
#include "kernels/emulated/emulated_backend.h"
#include "kernels/loops/this_cpu.h"
#include "kernels/wrapped_backend.h"
#include "tests/support/fake_device.h"
#include "tests/support/formulas.h"
#include "tests/support/random_network.h"

using namespace motley;
using namespace motley::testing;

TEST_CASE("backend law: the reference in f32") {
  const auto backend = reference_backend();
  CHECK(backend_law(*backend, 1, law::share_of(1500), LawMode::exact) == "");
  CHECK(backend_law(*backend, 2, law::share_of(1500), LawMode::tolerance) == "");
}

TEST_CASE("backend law: the reference in bf16") {
  const auto backend = reference_backend();
  CHECK(backend_law(*backend, 5, law::share_of(1000), LawMode::exact, DType::bf16) == "");
  CHECK(backend_law(*backend, 6, law::share_of(1000), LawMode::tolerance, DType::bf16) == "");
}

TEST_CASE("bf16: to nearest, ties to even; infinite stays infinite, NaN stays NaN") {
  CHECK(static_cast<float>(Bf16(1.0F)) == 1.0F);
  CHECK(static_cast<float>(Bf16(1.00390625F)) == 1.0F);       // halfway between 1 and 1 + 2^-7
  CHECK(static_cast<float>(Bf16(1.01171875F)) == 1.015625F);  // halfway, to even
  CHECK(static_cast<float>(Bf16(1.00390637F)) == 1.0078125F);
  CHECK(std::isinf(static_cast<float>(Bf16(3.4e38F))));
  CHECK(static_cast<float>(Bf16(-HUGE_VALF)) == -HUGE_VALF);
  CHECK(std::isnan(static_cast<float>(Bf16(std::bit_cast<float>(0x7f800001U)))));
}

TEST_CASE("backend law: the products of f64") {
  const auto backend = f64_backend();
  CHECK(backend_law(*backend, 11, law::share_of(1500), LawMode::exact, DType::f64) == "");
  CHECK(backend_law(*backend, 12, law::share_of(1500), LawMode::tolerance, DType::f64) == "");
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CHECK(backend_law(*backend, 13, law::share_of(700), LawMode::exact, dtype) == "");
    CHECK(backend_law(*backend, 14, law::share_of(700), LawMode::tolerance, dtype) == "");
  }
}

// Bits: both round each instruction to f64, and add in one order.
TEST_CASE("backend law: maps of f64 have the reference's bits") {
  const auto backend = f64_backend(), reference = reference_backend();
  int maps = 0;
  for (int number = 0; number < law::share_of(4000); number++) {
    LawCase one = law_case(15, number, LawMode::tolerance);
    if (one.spec.op != KernelOp::map) continue;
    maps++;
    INFO("case " << number << ": " << summary(one.spec));
    const std::vector<Image> got = run_kernel(*backend, one.spec, one.images, one.options),
                             expected = run_kernel(*reference, one.spec, one.images, one.options);
    bool same = got.size() == expected.size();
    for (std::size_t k = 0; k < got.size() && same; k++)
      same = std::equal(got[k].begin(), got[k].end(), expected[k].begin(), expected[k].end(),
                        [](double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); });
    CHECK(same);
  }
  CHECK(maps > law::share_of(1000));
  CHECK(sums_law(*backend, {0, 1, 2, 5, 70}) == "");  // strips of several lengths
}

namespace {

// c += a b in every order of the three matrices, with gaps between their rows (columns), against plain loops on small integers.
template <class T>
void check_products(const eigen::Products<T>& products, Index m, Index k, Index n) {
  const auto filled = [](Index rows, Index cols, bool in_rows, Index step) {
    constexpr Index kGap = 3;
    std::vector<T> out(static_cast<std::size_t>((rows + kGap) * (cols + kGap)), T{77});
    const eigen::Matrix<T> view{out.data(), rows, cols, in_rows ? cols + kGap : 1, in_rows ? 1 : rows + kGap};
    for (Index i = 0; i < rows; i++)
      for (Index j = 0; j < cols; j++)
        view.data[i * view.row_stride + j * view.col_stride] = static_cast<T>((i * 5 + j * step) % 11 - 5);
    return std::pair(std::move(out), view);
  };
  for (int orders = 0; orders < 8; orders++) {
    auto [a_memory, a] = filled(m, k, (orders & 1) != 0, 7);
    auto [b_memory, b] = filled(k, n, (orders & 2) != 0, 3);
    auto [c_memory, c] = filled(m, n, (orders & 4) != 0, 2);
    std::vector<T> expected = c_memory;
    for (Index i = 0; i < m; i++)
      for (Index j = 0; j < n; j++)
        for (Index l = 0; l < k; l++)
          expected[static_cast<std::size_t>(i * c.row_stride + j * c.col_stride)] +=
              a.data[i * a.row_stride + l * a.col_stride] * b.data[l * b.row_stride + j * b.col_stride];
    const eigen::Blocks blocks = products.blocks(c, k);
    std::vector<T> memory(static_cast<std::size_t>(products.packed(blocks)) + 64 / sizeof(T));
    const auto at = (reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64;
    products.add(a, b, c, blocks, reinterpret_cast<T*>(at));
    INFO("orders " << orders);
    CHECK(c_memory == expected);
  }
}

}  // namespace

TEST_CASE("backend law: Eigen's products on every ISA of this CPU") {
  for (const std::string& isa : isa_names()) {
    const cpu::Simd simd = cpu::simd_within(isa);
    if (cpu::isa_of(simd) != isa) continue;
    for (const auto& [m, k, n] : {std::array<Index, 3>{1, 1, 1}, {3, 40, 1}, {1, 7, 33}, {17, 0, 5}, {65, 700, 129}, {0, 3, 4}}) {
      INFO(isa << " " << m << " " << k << " " << n);
      check_products(eigen::products_of<float>(simd), m, k, n);
      check_products(eigen::products_of<double>(simd), m, k, n);
    }
  }
}

TEST_CASE("backend law: what a backend supports is what it compiles") {
  for (const auto& backend :
       {reference_backend(), f64_backend(), emulated_backend(reference_backend(), 2.5), fake_device(reference_backend(), 7)})
    CHECK(supports_law(*backend, 21, 1000) == "");
}

TEST_CASE("backend law: an emulated backend") {
  const auto backend = emulated_backend(reference_backend(), 2.5);
  CHECK(backend_law(*backend, 3, law::share_of(400), LawMode::exact) == "");
  CHECK(backend_law(*backend, 4, law::share_of(400), LawMode::tolerance) == "");
}

TEST_CASE("backend law: sums of any number of operands") {
  KernelSpec spec;  // the reference by hand: 2^24 and 300 ones, added in f64, rounded once
  spec.op = KernelOp::map;
  spec.summands = 301;
  spec.extents = {1};
  spec.operands.assign(302, {DType::f32, {1}});
  std::vector<Image> images(301, Image{1});
  images[0] = {0x1p24};
  images.emplace_back();
  CHECK(result_of(*reference_backend(), spec, images) == Image{0x1p24 + 300});
  CHECK(sums_law(*emulated_backend(reference_backend(), 2.5), {65}) == "");
}

TEST_CASE("backend law: a device with memory of its own") {
  const auto backend = fake_device(reference_backend(), 7);
  CHECK(backend_law(*backend, 8, law::share_of(60), LawMode::exact) == "");
}

TEST_CASE("backend law: the cases meet what they promise") {
  int negative = 0, empty = 0, even = 0, mixed = 0, reduced = 0, in_place = 0, scalar = 0, dilated = 0, outside = 0, many = 0;
  int grouped = 0, depthwise = 0, batched = 0, masked = 0, causal = 0;
  for (int i = 0; i < 2000; i++) {
    const LawCase one = law_case(5, i, LawMode::exact);
    const KernelSpec& s = one.spec;
    const Roles& e = s.roles;
    negative += s.padding[0] < 0 && e.p > 0 && e.n > 0;
    empty += e.n * e.c * e.h * e.w * e.f * e.p * e.q == 0;
    even += s.op == KernelOp::conv2d && e.r % 2 == 0 && e.r > 0;
    mixed += s.x_format != s.y_format;
    dilated += s.dilation[0] > 1 && e.r > 1;
    outside += s.padding[0] > (e.r - 1) * s.dilation[0] && e.p > 0 && e.h > 0;
    in_place += one.options.alias >= 0;
    grouped += s.op == KernelOp::conv2d && e.g > 1 && e.c > 1;
    depthwise += s.op == KernelOp::conv2d && e.g > 1 && e.c == 1;
    batched += s.op == KernelOp::dense && e.g > 1;
    if (s.op != KernelOp::map) continue;
    scalar += s.extents.empty();
    many += s.operands.size() > 65;
    for (std::size_t d = 0; d < s.extents.size(); d++) reduced += s.operands.back().strides[d] == 0;
  }
  for (int i = 0; i < 2000; i++) {
    const KernelSpec s = law_case(5, i, LawMode::tolerance).spec;
    masked += s.share > 0 && flops(s) > 0;
    causal += s.causal && flops(s) > 0;
  }
  CHECK(std::min(masked, causal) >= 20);
  for (const int count : {negative, empty, even, mixed, reduced, in_place, scalar, dilated, outside, grouped, depthwise, batched})
    CHECK(count >= 20);
  CHECK(many >= 5);
}

// The law must see what is wrong: the reference, given another spec than it was asked for.
namespace {

class Broken final : public WrappedBackend {
 public:
  explicit Broken(void (*change)(KernelSpec&), bool only_second = false)
      : WrappedBackend(reference_backend()), change_(change), only_second_(only_second) {}
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override {
    KernelSpec changed = spec;
    if (!only_second_) change_(changed);
    return inner().compile(changed);
  }
  std::vector<std::string> implementations(const KernelSpec&) override {
    return only_second_ ? std::vector<std::string>{"right", "wrong"} : std::vector<std::string>{};
  }
  std::unique_ptr<Kernel> compile_as(const KernelSpec& spec, const std::string& implementation) override {
    KernelSpec changed = spec;
    if (implementation == "wrong") change_(changed);
    return inner().compile(changed);
  }

 private:
  void (*change_)(KernelSpec&);
  bool only_second_;
};

}  // namespace

TEST_CASE("backend law: a wrong backend is found out") {
  Broken padding([](KernelSpec& s) { s.padding[0] += s.op == KernelOp::max_pool2d; });
  CHECK(backend_law(padding, 6, 200, LawMode::exact) != "");
  Broken activation([](KernelSpec& s) {
    if (s.epilogue == forward_of("elu")) s.epilogue = forward_of("tanh");
  });
  CHECK(backend_law(activation, 6, 200, LawMode::tolerance) != "");
  Broken later([](KernelSpec& s) {
    if (s.causal) s.origin[0]++;
  });
  CHECK(backend_law(later, 6, 400, LawMode::tolerance) != "");
  const auto stride = [](KernelSpec& s) { s.padding[0] += s.op == KernelOp::avg_pool2d; };
  Broken second(stride, true);
  CHECK(backend_law(second, 6, 200, LawMode::exact).find("wrong: ") != std::string::npos);
  Broken order([](KernelSpec& s) {
    if (s.operands.size() > 65) s.operands.erase(s.operands.begin()), s.summands--;
  });
  CHECK(sums_law(order, {64}) == "");
  CHECK(sums_law(order, {65}) != "");
  Broken refuses([](KernelSpec& s) { s.dtype = DType::i32; });
  CHECK(supports_law(refuses, 21, 100) != "");
  Broken none([](KernelSpec&) {});
  CHECK(backend_law(none, 6, 200, LawMode::tolerance) == "");
}
