// SPDX-License-Identifier: Apache-2.0
// The CPU backends against the reference: the library in MOTLEY_TEST_LIBRARY, capped to the ISA in MOTLEY_TEST_ISA (oneDNN has one
// per process: meson runs this once per library and ISA).
#include <motley/error.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "graph/compiled.h"
#include "kernels/open_cpu.h"
#include "kernels/operands.h"
#include "tests/support/backend_law.h"
#include "tests/support/formulas.h"
#include "tests/support/random_network.h"

using namespace motley;
using namespace motley::testing;

namespace {

Device named_device() {
  Device device;
  const char *isa = std::getenv("MOTLEY_TEST_ISA"), *library = std::getenv("MOTLEY_TEST_LIBRARY");
  device.isa = isa == nullptr ? "" : isa;
  device.library = library == nullptr ? "" : library;
  return device;
}

// Skipped (77) where this CPU does not have the ISA: what it has is tested by itself.
Device device(int threads) {
  Device device = named_device();
  device.threads = threads;
  if (static const std::string found = open_cpu(device)->isa(); !device.isa.empty() && found != device.isa) {
    std::printf("skipped: this CPU has %s, not %s\n", found.c_str(), device.isa.c_str());
    std::exit(77);
  }
  return device;
}

// The largest difference, beside 1 or the expected number; a NaN in one of the two, or other sizes, is infinitely far.
double apart(const Image& got, const Image& expected) {
  if (got.size() != expected.size()) return HUGE_VAL;
  double out = 0;
  for (std::size_t i = 0; i < got.size(); i++)
    if (const double here = std::abs(got[i] - expected[i]) / (1 + std::abs(expected[i])); !(here <= out))
      out = std::isnan(here) ? HUGE_VAL : here;
  return out;
}

// Integers for the operands that the kernel reads.
std::vector<Image> from_minus_5_to_5(const KernelSpec& spec) {
  std::vector<Image> images;
  for (const OperandUse& use : operands_of(spec)) {
    Image& image = images.emplace_back();
    for (Index i = 0; use.read && i < use.elements; i++) image.push_back(static_cast<double>(i * 7 % 11 - 5));
  }
  return images;
}

}  // namespace

TEST_CASE("CPU backend: an unknown ISA is refused") {
  Device wrong = named_device();  // the first to be opened
  wrong.isa = "avx3";
  CHECK_THROWS_WITH(open_cpu(wrong), Catch::Contains("\"avx3\" is unknown"));
}

TEST_CASE("CPU backend: the library is the one that is named, without a name the first that is built") {
  Device one = device(1);
  CHECK(open_cpu(one)->library().starts_with(one.library == "eigen" || cpu_libraries().front() == "eigen" ? "Eigen " : "oneDNN "));
  one.library = "mkl";
  CHECK_THROWS_WITH(open_cpu(one), Catch::Contains("library \"mkl\" is unknown"));
  if (cpu_libraries().front() == "onednn") return;
  one.library = "onednn";
  CHECK_THROWS_WITH(open_cpu(one), Catch::Contains("built without the library \"onednn\"; write \"library\": \"eigen\""));
}

TEST_CASE("CPU backend: no more than what is asked for is used, by the library and by our loops") {
  const auto backend = open_cpu(device(1));
  const auto place = [](const std::string& isa) {
    return std::find(isa_names().begin(), isa_names().end(), isa) - isa_names().begin();
  };
  if (!device(1).isa.empty()) CHECK(place(backend->isa()) <= place(device(1).isa));
  const KernelSpec spec = copy_of({1}, {{1}, {1}});
  const std::string loops = backend->isa().substr(0, backend->isa().find("_core"));
  if (!device(1).isa.empty()) CHECK(backend->compile(spec)->implementation() == "motley:" + loops);
}

TEST_CASE("CPU backend law: what it supports is what it compiles") {
  CHECK(supports_law(*open_cpu(device(1)), 23, law::share_of(600)) == "");
}

TEST_CASE("CPU backend law: exact") {
  const auto backend = open_cpu(device(1));
  CHECK(backend_law(*backend, 11, law::share_of(3000), LawMode::exact) == "");
}

TEST_CASE("CPU backend law: two threads") {
  const auto backend = open_cpu(device(2));
  CHECK(backend_law(*backend, 13, law::share_of(600), LawMode::exact) == "");
  CHECK(backend_law(*backend, 14, law::share_of(600), LawMode::tolerance) == "");
}

TEST_CASE("CPU backend law: tolerance") {
  const auto backend = open_cpu(device(1));
  CHECK(backend_law(*backend, 12, law::share_of(3000), LawMode::tolerance) == "");
}

// Rows of `features`, statistics of one value for each: loops of their own, with the bits of the others.
TEST_CASE("CPU backend law: formulas along rows") {
  const auto backend = open_cpu(device(1)), reference = reference_backend();
  int compared = 0;
  for (const CompiledFormula& one : compiled_formulas()) {
    if (one.still == 0) continue;
    for (const Index features : {5, 256, 700})
      for (const auto& [combine, read] :
           {std::pair{Combine::set, DType::f32}, {Combine::add, DType::f32}, {Combine::add, DType::bf16}}) {
        KernelSpec spec;
        spec.op = KernelOp::map;
        spec.formula = one.formula;
        spec.combine = combine;
        const bool deep = reads_position(one.formula, 2);  // the class is the third index: 3 x 3 rows
        spec.extents = deep ? std::vector<Index>{3, 3, features} : std::vector<Index>{9, features};
        const std::vector<Index> of_row = deep ? std::vector<Index>{3, 1, 0} : std::vector<Index>{1, 0},
                                 along = deep ? std::vector<Index>{3 * features, features, 1} : std::vector<Index>{features, 1};
        std::vector<Image> images;
        for (int k = 0; k < operand_count(one.formula); k++) {
          const bool still = (one.still >> k & 1) != 0, whole = is_integer_operand(one.formula, k);
          const DType real = (one.wide >> k & 1) != 0 ? DType::f64 : still ? DType::f32 : read;
          spec.operands.push_back({whole ? DType::i32 : real, still ? of_row : along});
          Image& image = images.emplace_back(static_cast<std::size_t>(still ? 9 : 9 * features));
          for (std::size_t i = 0; i < image.size(); i++)
            image[i] = whole ? static_cast<double>(i % 5)
                             : 0.25 + static_cast<double>((i * 131 + static_cast<std::size_t>(k)) % 1009) / 512;
        }
        for (int k = 0; k < result_count(one.formula); k++) {
          spec.operands.push_back({one.wide != 0 ? DType::f64 : DType::f32, combine == Combine::set ? along : of_row});
          images.emplace_back(static_cast<std::size_t>(combine == Combine::set ? 9 * features : 9));
        }
        if (reads_position(spec.formula, -1)) spec.origin.assign(spec.extents.size(), 0);
        const Image got = result_of(*backend, spec, images), expected = result_of(*reference, spec, images);
        INFO(to_text(one.formula) << " over rows of " << features << ", " << to_string(read));
        CHECK(apart(got, expected) < (one.wide != 0 ? 1e-13 : 2e-6));
        compared++;
      }
  }
  CHECK(compared > 50);
}

// A formula's operands over rows that begin `row` elements apart: whole ones, one value in a row, or, where `same`, one row for
// all.
static std::pair<std::vector<std::vector<Index>>, std::vector<Image>> over_rows(const CompiledFormula& one, Index rows,
                                                                                Index columns, Index row, bool same) {
  std::pair<std::vector<std::vector<Index>>, std::vector<Image>> out;
  for (int k = 0; k < operand_count(one.formula); k++) {
    const bool fixed = same && (one.fixed >> k & 1) != 0, still = (one.still >> k & 1) != 0;
    out.first.push_back(still ? std::vector<Index>{1, 0} : std::vector<Index>{fixed ? 0 : row, 1});
    Image& image = out.second.emplace_back(static_cast<std::size_t>(still ? rows : fixed ? columns : (rows - 1) * row + columns));
    for (std::size_t i = 0; i < image.size(); i++)
      image[i] = -0.75 + static_cast<double>((i * 131 + static_cast<std::size_t>(k) * 57) % 1009) / 512;
  }
  return out;
}

// Operands that are the same in each row are read once for four, where these are short, by a loop that has so many rows left.
TEST_CASE("CPU backend law: operands that are the same in each row") {
  const auto backend = open_cpu(device(1)), reference = reference_backend();
  int compared = 0;
  for (const CompiledFormula& one : compiled_formulas()) {
    if (one.fixed == 0 || one.wide != 0) continue;
    const int inputs = operand_count(one.formula), results = result_count(one.formula);
    for (const Index columns : {8, 24, 37, 64, 65})
      for (const Index rows : {1, 3, 4, 11})
        for (const Index gap : {0, 3}) {
          const Index row = columns + gap;
          auto [strides, images] = over_rows(one, rows, columns, row, true);
          const auto all = static_cast<std::size_t>((rows - 1) * row + columns);
          for (int k = 0; k < results; k++) strides.push_back({row, 1}), images.emplace_back(all);
          const KernelSpec spec = map_of(one.formula, {rows, columns}, strides);
          const std::vector<Image> expected = run_kernel(*reference, spec, images);
          for (const int alias : {-1, 0}) {
            if (alias == 0 && (results > 1 || ((one.fixed | one.still) & 1) != 0)) continue;
            const std::vector<Image> got = run_kernel(*backend, spec, images, {.alias = alias});
            INFO(to_text(one.formula) << " over " << rows << " rows of " << columns << " and " << gap << ", onto operand "
                                      << alias);
            for (int k = 0; k < results; k++) {
              const Image &its = got[static_cast<std::size_t>(alias == 0 ? 0 : inputs + k)],
                          &right = expected[static_cast<std::size_t>(inputs + k)];
              double most = 0;
              for (Index r = 0; r < rows; r++)
                for (Index c = 0; c < columns; c++)
                  most = std::max(
                      most, std::abs(its[static_cast<std::size_t>(r * row + c)] - right[static_cast<std::size_t>(r * row + c)]));
              CHECK(most < 1e-5);
            }
            compared++;
          }
        }
  }
  CHECK(compared > 500);
}

// Columns' sums: loops over four rows and single ones. Some operands are the same in each row, some are one value in a row.
TEST_CASE("CPU backend law: sums across rows") {
  const auto backend = open_cpu(device(1)), reference = reference_backend();
  int compared = 0;
  for (const CompiledFormula& one : compiled_formulas()) {
    const auto reads_other = [](const Instruction& i) {  // than floats
      return i.op == Opcode::scalar || i.op == Opcode::integer || i.op == Opcode::position;
    };
    if (!one.summed || std::any_of(one.formula.code.begin(), one.formula.code.end(), reads_other)) continue;
    for (const Index columns : {3, 8, 24, 96, 550})
      for (const Index rows : {1, 4, 7, 50})
        for (const auto& [same, read] : {std::pair{true, DType::f32}, {false, DType::f32}, {true, DType::bf16}}) {
          auto [strides, images] = over_rows(one, rows, columns, columns, same);
          for (int k = 0; k < result_count(one.formula); k++) strides.push_back({0, 1});
          KernelSpec spec = map_of(one.formula, {rows, columns}, strides);
          spec.combine = Combine::add;
          for (int k = 0; k < operand_count(one.formula); k++)
            if (((one.fixed | one.still) >> k & 1) == 0) spec.operands[static_cast<std::size_t>(k)].dtype = read;
          for (std::size_t k = 0; k < strides.size() && one.wide != 0; k++)
            if (k >= images.size() || (one.wide >> k & 1) != 0) spec.operands[k].dtype = DType::f64;
          images.resize(strides.size(), Image(static_cast<std::size_t>(columns)));
          const std::vector<Image> got = run_kernel(*backend, spec, images), expected = run_kernel(*reference, spec, images);
          INFO(to_text(one.formula) << " over " << rows << " rows of " << columns << (same ? "" : ", all operands of each row")
                                    << ", " << to_string(read));
          for (std::size_t k = static_cast<std::size_t>(operand_count(one.formula)); k < got.size(); k++)
            CHECK(apart(got[k], expected[k]) < (one.wide != 0 ? 1e-13 : 2e-6));
          compared++;
        }
  }
  CHECK(compared > 1000);
}

// Results so large that they are written around the caches, from places within a line of them, of rows that are next to each other
// and not; onto an operand too, which is written as ever.
TEST_CASE("CPU backend law: large results") {
  const auto backend = open_cpu(device(2)), reference = reference_backend();
  for (const auto& [rows, columns, gap] : {std::tuple{70001, 61, 3}, {1, 4300003, 0}, {4200, 1031, 5}}) {
    const Index row = columns + gap;
    const std::vector<Index> all{row, 1};
    const std::size_t elements = static_cast<std::size_t>((rows - 1) * row + columns);
    KernelSpec spec = map_of(gradient_of("relu6"), {rows, columns}, {all, all, all});
    std::vector<Image> images(3, Image(elements));
    for (std::size_t k = 0; k < 2; k++)
      for (std::size_t i = 0; i < elements; i++) images[k][i] = static_cast<double>((i * 131 + 7 * k) % 1009) / 64 - 4;
    const std::vector<Image> expected = run_kernel(*reference, spec, images);
    for (const int alias : {-1, 0}) {
      const std::vector<Image> got = run_kernel(*backend, spec, images, {.alias = alias, .offset = alias < 0 ? 3 : 0});
      INFO(rows << " x " << columns << " and " << gap << ", onto operand " << alias);
      const Image& result = got[alias < 0 ? 2 : 0];
      std::size_t apart = 0;
      for (Index r = 0; r < rows; r++)
        for (Index c = 0; c < columns; c++) {
          const auto i = static_cast<std::size_t>(r * row + c);
          apart += result[i] == expected[2][i] ? 0 : 1;
        }
      CHECK(apart == 0);
    }
  }
}

// Rows that are interpreted in one piece, in several and with a rest; where operands come from memory the pieces are shorter.
TEST_CASE("CPU backend law: interpreted formulas over long rows") {
  const auto backend = open_cpu(device(1)), reference = reference_backend();
  const auto instruction = [](Opcode op, int a = -1, int b = -1, int c = -1, double value = 0) {
    return Instruction{op, a, b, c, value};
  };
  using enum Opcode;
  const std::vector<Formula> formulas{
      // Registers that are used again, a condition, numbers for all elements.
      {{instruction(operand, 0), instruction(operand, 1), instruction(mul, 0, 0), instruction(mul, 1, 1), instruction(add, 2, 3),
        instruction(constant, -1, -1, -1, 0.5), instruction(less, 4, 5), instruction(sub, 4, 5), instruction(sqrt, 2),
        instruction(select, 6, 8, 7)},
       {9}},
      // Several results, one of them an operand.
      {{instruction(operand, 0), instruction(operand, 1), instruction(sub, 0, 1), instruction(exp, 2), instruction(mul, 3, 1)},
       {4, 0, 2}},
      // Numbered elements.
      {{instruction(operand, 0), instruction(operand, 1), instruction(position, 0), instruction(whole, -1, -1, -1, 7),
        instruction(mix, 2, 3), instruction(uniform, 4), instruction(mul, 5, 0), instruction(add, 6, 1)},
       {7}}};
  for (const Formula& formula : formulas)
    for (const Index n : {1, 511, 512, 513, 2047, 2049, 5000, 1100000}) {
      const int results = result_count(formula);
      KernelSpec spec = map_of(formula, {n}, std::vector<std::vector<Index>>(static_cast<std::size_t>(2 + results), {1}));
      if (reads_position(formula, -1)) spec.origin = {3};
      std::vector<Image> images(static_cast<std::size_t>(2 + results));
      for (std::size_t k = 0; k < 2; k++)
        for (Index i = 0; i < n; i++)
          images[k].push_back(0.25 + static_cast<double>((i * 131 + 7 * static_cast<Index>(k)) % 1009) / 1024);
      const std::vector<Image> expected = run_kernel(*reference, spec, images);
      for (const int alias : {-1, 0, 1}) {
        std::vector<Image> got = run_kernel(*backend, spec, images, {.alias = alias});
        if (alias >= 0) got.back() = got[static_cast<std::size_t>(alias)];
        double apart = 0;
        for (std::size_t k = 2; k < got.size(); k++)
          for (std::size_t i = 0; i < got[k].size(); i++)
            if (const double here = std::abs(got[k][i] - expected[k][i]); !(here <= apart))
              apart = std::isnan(here) ? HUGE_VAL : here;
        INFO(to_text(formula) << " over " << n << " elements, onto operand " << alias);
        CHECK(apart < 1e-6);
      }
    }
}

TEST_CASE("CPU backend law: bf16") {
  for (const int threads : {1, 2}) {
    const auto backend = open_cpu(device(threads));
    const int cases = threads == 1 ? 1200 : 200;
    CHECK(backend_law(*backend, 15, cases, LawMode::exact, DType::bf16) == "");
    CHECK(backend_law(*backend, 16, cases, LawMode::tolerance, DType::bf16) == "");
  }
}

// Wider than the law's images: oneDNN's own bf16 gradients are wrong in some of these.
TEST_CASE("CPU backend: bf16 convolutions of wide images, with dilated windows and odd numbers of filters, are exact") {
  const auto backend = open_cpu(device(1)), reference = reference_backend();
  for (const PassKind pass : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter})
    for (const Index groups : {1, 3})
      for (const Index filters : {8, 9, 29})
        for (const Index window : {1, 3})
          for (const Index dilation : {1, 2})
            for (const Index cols : {10, 30, 41}) {
              KernelSpec spec;
              spec.pass = pass;
              spec.dtype = DType::bf16;
              spec.roles = {
                  .n = 2, .c = 5, .h = 6, .w = cols, .f = filters, .r = window, .s = window, .p = 6, .q = cols, .g = groups};
              spec.dilation = {dilation, 1};
              const Index around = window / 2;
              spec.padding = {around * dilation, around * dilation, around, around};
              spec.x_format = spec.y_format = Format::channels_last;
              INFO(summary(spec) << " by " << backend->compile(spec)->implementation());
              const std::vector<Image> images = from_minus_5_to_5(spec);
              CHECK(result_of(*backend, spec, images) == result_of(*reference, spec, images));
            }
}

TEST_CASE("CPU backend: convolutions whose windows reach far beyond the image are exact") {
  const auto backend = open_cpu(device(1)), reference = reference_backend();
  const auto is_exact = [&](KernelSpec spec) {
    const std::vector<Image> images = from_minus_5_to_5(spec);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      spec.dtype = dtype;
      INFO(summary(spec) << ", padded by " << spec.padding[2] << " and " << spec.padding[3]);
      CHECK(result_of(*backend, spec, images) == result_of(*reference, spec, images));
    }
  };
  KernelSpec spec;
  spec.op = KernelOp::conv2d;
  spec.x_format = spec.y_format = Format::channels_last;
  for (const Index columns : {6, 7, 13, 30, 39})
    for (const Index window : {5, 7, 9, 11})
      for (const Index filters : {48, 64, 96})
        for (const Index before : {Index{0}, window / 2}) {
          const Index after = window / 2;
          spec.roles = {1, 3, 5, columns, filters, 3, window, 5, columns + before + after - window + 1};
          spec.padding = {1, 1, before, after};
          if (spec.roles.q > 0) is_exact(spec);
        }
  spec.roles = {1, 3, 10, 7, 64, 9, 9, 10, 7};
  spec.padding = {4, 4, 4, 4};
  is_exact(spec);
  spec.roles = {1, 2, 9, 13, 96, 2, 9, 9, 11};
  spec.padding = {1, 0, 0, 6};
  is_exact(spec);
  spec.roles = {1, 16, 1, 30, 32, 2, 3, 1, 30};  // no window reads a row of x
  spec.padding = {1, 1, 1, 1};
  spec.dilation = {2, 1};
  spec.bias = spec.accumulate = true;
  is_exact(spec);
  spec.bias = false;
  spec.epilogue = forward_of("relu");
  is_exact(spec);
  // The bytes after x count in oneDNN's brgconv, where its channels are read in pairs.
  spec = {.op = KernelOp::conv2d, .dtype = DType::bf16};
  spec.x_format = spec.y_format = Format::channels_last;
  spec.roles = {1, 333, 9, 9, 28, 7, 7, 9, 9};
  spec.padding = {3, 3, 3, 3};
  CHECK(backend->compile(spec)->implementation().rfind("brgconv:avx512_core_bf16", 0) == std::string::npos);
  is_exact(spec);
  spec = {.op = KernelOp::conv2d, .pass = PassKind::backward_filter, .stride = {2, 2}, .dilation = {1, 3}};
  spec.x_format = spec.y_format = Format::channels_last;
  spec.roles = {2, 1, 15, 40, 64, 2, 9, 7, 29};
  spec.padding = {0, 0, 21, 21};
  is_exact(spec);
}

TEST_CASE("CPU backend law: sums of any number of operands") {
  for (const int threads : {1, 2}) CHECK(sums_law(*open_cpu(device(threads)), {1, 2, 3, 63, 64, 65, 130, 1000}) == "");
}

// With relu inside, oneDNN's generated code gives 0 (kernels/cpu/dnnl_compat.h).
TEST_CASE("CPU backend law: a NaN survives convolutions (oneDNN: without relu inside), and relu by our own loops") {
  const auto backend = open_cpu(device(1));
  if (backend->library().starts_with("oneDNN"))
    CHECK(nan_law(*backend, {Formula{}}) == "");
  else
    CHECK(nan_law(*backend) == "");
  for (const Index summands : {1, 2}) {
    KernelSpec spec = map_of(forward_of("relu"), {37}, {{1}, {1}});
    spec.summands = summands;
    spec.operands.resize(static_cast<std::size_t>(summands) + 1, {DType::f32, {1}});
    std::vector<Image> images(spec.operands.size() - 1, Image(37, -1.0));
    for (const std::size_t at : {3U, 20U, 36U}) {  // in a vector, and after the last whole one
      images[0] = Image(37, -1.0);
      images[0][at] = kNothing;
      const Image found = result_of(*backend, spec, images);
      for (std::size_t i = 0; i < found.size(); i++) CHECK((i == at ? std::isnan(found[i]) : found[i] == 0));
    }
  }
}

TEST_CASE("CPU backend law: a NaN wins a maximum, wherever it is in the window, and takes the gradient") {
  const auto cpu = open_cpu(device(1)), reference = reference_backend();
  for (Backend* backend : {cpu.get(), reference.get()})
    for (const Index channels : {1, 3, 20})
      for (Index at = 0; at < 6; at++) {
        KernelSpec spec;
        spec.op = KernelOp::max_pool2d;
        spec.roles = {.n = 1, .c = channels, .h = 2, .w = 3, .r = 2, .s = 3, .p = 1, .q = 1};
        spec.x_format = spec.y_format = Format::channels_last;
        INFO(channels << " channels, the NaN is element " << at << ", " << backend->compile(spec)->implementation());
        Image x;  // channels last
        for (Index tap = 0; tap < 6; tap++)
          for (Index c = 0; c < channels; c++) x.push_back(tap == at ? kNothing : static_cast<double>(tap * 5 % 4));
        for (const double value : result_of(*backend, spec, {x})) CHECK(std::isnan(value));
        spec.pass = PassKind::backward_data;
        const Image dx = result_of(*backend, spec, {Image(static_cast<std::size_t>(channels), 2.0), x});
        for (std::size_t i = 0; i < dx.size(); i++) CHECK(dx[i] == (static_cast<Index>(i) / channels == at ? 2 : 0));
      }
}

// Large enough that x and y are staged in other formats where that is faster.
TEST_CASE("CPU backend: convolutions of many channels are exact in every format") {
  const auto backend = open_cpu(device(1));
  const auto reference = reference_backend();
  for (const Index size : {2, 4, 6})
    for (const PassKind pass : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter})
      for (const Format format : {Format::plain, Format::channels_last}) {
        KernelSpec spec;
        spec.pass = pass;
        spec.roles = {3, 72, size, size, 80, 3, 3, size, size};
        spec.padding = {1, 1, 1, 1};
        spec.x_format = spec.y_format = format;
        spec.w_format = size == 4 ? Format::plain : Format::channels_last;
        const std::vector<Image> images = from_minus_5_to_5(spec);
        KernelSpec truth = spec;
        truth.dtype = DType::f64;
        INFO(summary(spec) << " by " << backend->compile(spec)->implementation());
        CHECK(result_of(*backend, spec, images) == result_of(*reference, truth, images));
      }
}

// Large enough for our own loops on every library and ISA: rows with and without padding, phases of strides, windows of more taps
// than are added at once, rows of more columns than are added at once, channels that fill no vector.
TEST_CASE("CPU backend: depthwise convolutions are exact, and by our own loops the same bits for any number of threads") {
  const auto one = open_cpu(device(1)), three = open_cpu(device(3));
  const auto reference = reference_backend();
  int own = 0;
  for (const Index window : {3, 4, 7})
    for (const Index stride : {1, 2, 3})
      for (const Index channels : {2, 21, 40})
        for (const PassKind pass : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter}) {
          KernelSpec spec;
          spec.pass = pass;
          spec.roles = {.n = 2, .c = 1, .h = 20, .w = 71, .f = 1, .r = window, .s = window, .g = channels};
          spec.stride = {stride, stride == 3 ? 1 : stride};
          spec.dilation = {1, channels == 21 ? 2 : 1};
          spec.padding = {1, window, 3, -2};  // a row of windows below x, two columns that no window covers
          const auto outputs = [&](std::size_t i, Index extent, Index taps) {
            return (extent + spec.padding[2 * i] + spec.padding[2 * i + 1] - (taps - 1) * spec.dilation[i] - 1) / spec.stride[i] +
                   1;
          };
          spec.roles.p = outputs(0, spec.roles.h, window), spec.roles.q = outputs(1, spec.roles.w, window);
          spec.x_format = spec.y_format = Format::channels_last;
          spec.bias = pass == PassKind::forward && channels == 21;
          spec.accumulate = pass == PassKind::forward && stride == 2;
          if (pass == PassKind::forward && stride == 1) spec.epilogue = formula({select(operand(0) < 0.0, 0.0, operand(0))});
          std::vector<Image> images = from_minus_5_to_5(spec);
          KernelSpec truth = spec;
          truth.dtype = DType::f64;
          const std::string by = one->compile(spec)->implementation();
          INFO(summary(spec) << " by " << by);
          CHECK(result_of(*one, spec, images) == result_of(*reference, truth, images));
          if (!by.starts_with("motley:")) continue;
          own++;
          for (Image& image : images)
            for (double& value : image) value /= 7;
          CHECK(result_of(*one, spec, images) == result_of(*three, spec, images));
        }
  CHECK(own >= (device(1).library == "eigen" ? 81 : 27));
}

TEST_CASE("attention: a mask does not hide a query that is not finite") {
  KernelSpec spec;
  spec.op = KernelOp::attention;
  spec.roles = {.n = 2, .c = 2, .f = 3, .g = 1};
  spec.made = kMakesOutput | kMakesLogSum;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Index masks : {0, 1})
      for (const double value : {std::nan(""), -HUGE_VAL}) {
        spec.dtype = dtype;
        spec.share = masks;
        std::vector<Image> images{{value, 1, 1, 1}, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}};
        if (masks == 1) images.push_back({1, 1, 0});
        images.resize(images.size() + 2);
        for (const auto& backend : {dtype == DType::f32 ? open_cpu(device(1)) : f64_backend(), reference_backend()}) {
          INFO(summary(spec) << " of " << value << " by " << backend->compile(spec)->implementation());
          const std::vector<Image> all = run_kernel(*backend, spec, images);
          const Image &y = all[all.size() - 2], &lse = all.back();
          CHECK((std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(lse[0])));
          CHECK((std::isfinite(y[2]) && std::isfinite(y[3]) && std::isfinite(lse[1]) && lse[1] != kNoKey));
        }
      }
}

TEST_CASE("CPU backend: a sum of two whose formula does not need one of its operands") {
  const auto backend = open_cpu(device(1));
  KernelSpec spec;
  spec.op = KernelOp::map;
  spec.summands = 2;
  spec.extents = {4};
  spec.formula = formula_from("operand 0; operand 1; constant 2; mul 0 2 -> 3");
  spec.operands.assign(4, {DType::f32, {1}});
  CHECK(run_kernel(*backend, spec, {{1, 2, 3, 4}, {10, 20, 30, 40}, {5, 5, 5, 5}, {}}) ==
        std::vector<Image>{{1, 2, 3, 4}, {10, 20, 30, 40}, {5, 5, 5, 5}, {22, 44, 66, 88}});
}

TEST_CASE("CPU backend: attention has no memory for all scores, and the same bits for any number of threads") {
  const auto one = open_cpu(device(1)), three = open_cpu(device(3));
  for (const PassKind pass : {PassKind::forward, PassKind::backward_data}) {
    KernelSpec spec;
    spec.op = KernelOp::attention;
    spec.pass = pass;
    spec.roles = {.n = 100, .c = 24, .f = 100, .g = 5};
    spec.scale = 0.2;
    spec.causal = true;
    spec.origin = {0, 0};
    spec.made = pass == PassKind::forward ? 3 : 7;
    std::vector<Image> images = from_minus_5_to_5(spec);
    for (Image& image : images)
      for (double& value : image) value /= 8;
    CHECK(run_kernel(*one, spec, images) == run_kernel(*three, spec, images));
    const auto workspace = [&](Index positions) {
      spec.roles.n = spec.roles.f = positions;
      return one->compile(spec)->workspace_bytes();
    };
    CHECK(workspace(8192) <= 2 * workspace(4096));
    CHECK(workspace(8192) < 8192 * 8192 * sizeof(float) / 16);
  }
}
