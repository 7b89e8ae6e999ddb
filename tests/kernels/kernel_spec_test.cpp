// SPDX-License-Identifier: Apache-2.0
#include <motley/kernel_spec.h>

#include <array>
#include <catch2/catch.hpp>
#include <set>

#include "kernels/operands.h"
#include "tests/support/backend_law.h"
#include "tests/support/formulas.h"

using namespace motley;

namespace {

// The paper's second convolution: 60 -> 120 filters of 5x5, batch 32.
KernelSpec paper_conv() {
  KernelSpec spec;
  spec.roles = {.n = 32, .c = 60, .h = 28, .w = 28, .f = 120, .r = 5, .s = 5, .p = 24, .q = 24};
  spec.x_format = spec.w_format = spec.y_format = Format::channels_last;
  return spec;
}

}  // namespace

TEST_CASE("formats: strides") {
  const std::vector<Index> e{2, 10, 3, 4};
  CHECK(strides_of(Format::plain, e) == std::vector<Index>{120, 12, 4, 1});
  CHECK(strides_of(Format::channels_last, e) == std::vector<Index>{120, 1, 40, 10});
}

TEST_CASE("formats: fewer dims, and none") {
  CHECK(strides_of(Format::channels_last, {}).empty());
  CHECK(strides_of(Format::channels_last, {5}) == std::vector<Index>{1});
  CHECK(strides_of(Format::channels_last, {5, 3}) == std::vector<Index>{3, 1});
  CHECK(strides_of(Format::channels_last, {5, 3, 2}) == std::vector<Index>{6, 1, 3});
}

TEST_CASE("formats: an extent of 0 makes no stride 0") {
  CHECK(strides_of(Format::plain, {4, 0, 3}) == std::vector<Index>{3, 3, 1});
}

TEST_CASE("spec: work and bytes of the paper's convolution") {
  const KernelSpec spec = paper_conv();
  CHECK(flops(spec) == 2.0 * 32 * 120 * 24 * 24 * 60 * 25);
  CHECK(bytes_touched(spec) == 4 * (32 * 60 * 28 * 28 + 120 * 60 * 25 + 32 * 120 * 24 * 24));
  CHECK(operand_count(spec) == 3);
  CHECK(summary(spec) == "conv2d forward n32 c60 28x28 -> f120 5x5 channels_last");
}

TEST_CASE("spec: work, bytes and operands by groups and by batch") {
  KernelSpec spec = paper_conv();
  spec.roles.g = 4;
  spec.bias = true;
  CHECK(flops(spec) == 4 * 2.0 * 32 * 120 * 24 * 24 * 60 * 25);
  CHECK(bytes_touched(spec) == 4 * (32 * 240 * 28 * 28 + 480 * 60 * 25 + 480 + 32 * 480 * 24 * 24));
  CHECK(summary(spec) == "conv2d forward g4 n32 c60 28x28 -> f120 5x5 channels_last bias");
  spec = {};
  spec.op = KernelOp::dense;
  spec.roles = {.n = 3, .c = 5, .f = 7, .g = 2};
  CHECK(flops(spec) == 2.0 * 2 * 3 * 5 * 7);
  CHECK(bytes_touched(spec) == 4 * 2 * (15 + 35 + 21));
  CHECK(summary(spec) == "dense forward g2 n3 c5 -> f7");
}

TEST_CASE("spec: work, bytes and operands of the others") {
  KernelSpec spec = testing::map_of(formula({operand(0) * (operand(1) + 0.5), 2.0 * operand(2)}), {10}, {{0}, {1}, {1}, {1}, {1}});
  spec.operands[0].dtype = DType::f64;
  CHECK(operand_count(spec) == 5);
  CHECK(flops(spec) == 50);
  CHECK(bytes_touched(spec) == 8 + 4 * 40);  // a scalar, two read, two written
  CHECK(summary(spec) == "map 8 instructions, 10");
  spec = {};
  spec.op = KernelOp::max_pool2d;
  spec.pass = PassKind::backward_data;
  spec.roles = {.n = 2, .c = 3, .h = 6, .w = 6, .r = 2, .s = 2, .p = 3, .q = 3};
  spec.stride = {2, 2};
  CHECK(operand_count(spec) == 3);
  CHECK(flops(spec) == 2 * 3 * 9 * 4);
  CHECK(bytes_touched(spec) == 4 * 6 * (9 + 36 + 36));
  CHECK(summary(spec) == "max_pool2d backward_data n2 c3 6x6 -> 2x2 stride 2x2");
  spec.halo = {1, 0, 0, 2};
  CHECK(bytes_touched(spec) == 4 * 6 * (9 + 7 * 8 + 36));
  CHECK(summary(spec) == "max_pool2d backward_data n2 c3 6x6 -> 2x2 stride 2x2 halo 1,0,0,2");
  spec.op = KernelOp::avg_pool2d;
  CHECK(operand_count(spec) == 2);
  spec = {};
  spec.op = KernelOp::dense;
  spec.roles = {.n = 4, .c = 10, .f = 3};
  spec.bias = true;
  spec.epilogue = formula({2.0 * operand(0)});
  CHECK(operand_count(spec) == 4);
  CHECK(flops(spec) == 240);
  CHECK(summary(spec) == "dense forward n4 c10 -> f3 bias then 2 * t0");
  spec = {};
  spec.op = KernelOp::map;
  spec.combine = Combine::add;
  spec.extents = {5, 7};
  spec.operands = {{DType::f32, {7, 1}}, {DType::f32, {0, 1}}};
  CHECK(operand_count(spec) == 2);
  CHECK(flops(spec) == 70);
  CHECK(bytes_touched(spec) == 4 * (35 + 7));
  CHECK(summary(spec) == "map copy, 5x7 -> add 7");
}

TEST_CASE("spec: attention") {
  KernelSpec spec;
  spec.op = KernelOp::attention;
  spec.roles = {.n = 3, .c = 4, .f = 5, .g = 6};
  spec.made = kMakesOutput | kMakesLogSum;
  CHECK(operand_count(spec) == 5);
  CHECK(flops(spec) == 2 * 6 * 3 * 5 * 4 * 2);
  CHECK(bytes_touched(spec) == 4 * 6 * (12 + 20 + 20 + 12 + 3));
  CHECK(summary(spec) == "attention forward g6 n3 x f5 c4 -> y lse");
  spec.dtype = spec.result = DType::bf16;
  CHECK(bytes_touched(spec) == 6 * (2 * (12 + 20 + 20 + 12) + 4 * 3));
  spec.dtype = spec.result = DType::f32;
  spec.pass = PassKind::backward_data;
  spec.made = kMakesQuery | kMakesValue;
  spec.share = 2;
  spec.causal = true;
  spec.origin = {2, 1};  // 2, 3 and 4 keys count
  CHECK(operand_count(spec) == 9);
  CHECK(operands_of(spec)[6].elements == 15);
  CHECK(operands_of(spec)[7].extents == std::vector<Index>{18, 4});
  CHECK(operands_of(spec)[8].extents == std::vector<Index>{30, 4});
  CHECK(flops(spec) == 2 * 6 * (2 + 3 + 4) * 4 * 4);
  CHECK(summary(spec) == "attention backward_data g6 n3 x f5 c4 causal from 2,1 masked -> dq dv");
  for (const std::array<Index, 2>& origin : {std::array<Index, 2>{0, 0}, {0, 2}, {0, 9}, {3, 0}, {9, 0}, {1, 2}}) {
    spec.origin = {origin[0], origin[1]};
    double pairs = 0;
    for (Index i = 0; i < spec.roles.n; i++) pairs += static_cast<double>(keys_of(spec, i));
    CHECK(flops(spec) == 2 * 6 * pairs * 4 * 4);
  }
}

TEST_CASE("spec: operands of strided maps") {
  KernelSpec spec;
  spec.op = KernelOp::map;
  spec.formula = testing::softmax_formula("pick_label");
  spec.extents = {4, 3};
  spec.operands = {{DType::f32, {10, 2}}, {DType::i32, {1, 0}}, {DType::f32, {3, 1}}};
  const std::vector<OperandUse> uses = operands_of(spec);
  CHECK(uses[0].elements == 35);
  CHECK(uses[0].touched == 12);
  CHECK(uses[1].bytes() == 16);
  CHECK(uses[2].elements == 12);
  CHECK((uses[2].written && !uses[2].read));
}

TEST_CASE("spec: equal specs have equal hashes, others others") {
  CHECK(hash_of(paper_conv()) == hash_of(paper_conv()));
  std::vector<KernelSpec> specs;
  std::set<std::size_t> hashes;
  for (int i = 0; i < 2000; i++) {
    KernelSpec spec = testing::law_case(9, i, testing::LawMode::tolerance).spec;
    if (std::find(specs.begin(), specs.end(), spec) != specs.end()) continue;
    hashes.insert(hash_of(spec));
    specs.push_back(std::move(spec));
  }
  CHECK(specs.size() > 1500);
  CHECK(hashes.size() == specs.size());
}
