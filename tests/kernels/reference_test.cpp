// SPDX-License-Identifier: Apache-2.0
// Examples worked by hand for every op and pass of the reference.
#include <catch2/catch.hpp>
#include <cmath>

#include "graph/optimizers.h"
#include "kernels/one_hot.h"
#include "kernels/operands.h"
#include "tests/support/formulas.h"
#include "tests/support/kernel_runner.h"

using namespace motley;
using namespace motley::testing;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Image run(const KernelSpec& spec, std::vector<Image> images) {
  const auto backend = reference_backend();
  return result_of(*backend, spec, std::move(images));
}

// x[1 1 3 3] = 1..9 under w[1 1 2 2] = 1 2 3 4, no padding: y[1 1 2 2].
KernelSpec conv_3x3_by_2x2() {
  KernelSpec spec;
  spec.roles = {.h = 3, .w = 3, .r = 2, .s = 2, .p = 2, .q = 2};
  return spec;
}
const Image kOneToNine{1, 2, 3, 4, 5, 6, 7, 8, 9};
const Image kOneToFour{1, 2, 3, 4};

KernelSpec pool(KernelOp op, PassKind pass, const Roles& roles) {
  KernelSpec spec;
  spec.op = op;
  spec.pass = pass;
  spec.roles = roles;
  return spec;
}

}  // namespace

TEST_CASE("conv2d forward by hand") {
  KernelSpec spec = conv_3x3_by_2x2();
  // 1*1 + 2*2 + 4*3 + 5*4 = 37, then one column and one row on: + (1+2+3+4), + 3*(1+2+3+4)
  CHECK(run(spec, {kOneToNine, kOneToFour}) == Image{37, 47, 67, 77});
  spec.bias = true;
  spec.epilogue = forward_of("relu");
  CHECK(run(spec, {kOneToNine, kOneToFour, {-50}}) == Image{0, 0, 17, 27});
}

TEST_CASE("conv2d with stride, dilation and uneven padding by hand") {
  KernelSpec spec = conv_3x3_by_2x2();
  spec.roles.p = 1;
  spec.roles.q = 1;
  spec.dilation = {2, 2};  // reads the four corners
  CHECK(run(spec, {kOneToNine, kOneToFour}) == Image{1 * 1 + 3 * 2 + 7 * 3 + 9 * 4});
  spec = conv_3x3_by_2x2();
  spec.stride = {2, 2};
  spec.padding = {1, 0, 0, 1};  // a row of zeros above, a column of zeros at the right
  // y[0 0]: rows -1, 0, cols 0, 1; y[0 1]: cols 2, 3; y[1 0]: rows 1, 2
  CHECK(run(spec, {kOneToNine, kOneToFour}) == Image{1 * 3 + 2 * 4, 3 * 3, 4 * 1 + 5 * 2 + 7 * 3 + 8 * 4, 6 * 1 + 9 * 3});
}

TEST_CASE("conv2d with negative padding leaves rows of x out") {
  KernelSpec spec = conv_3x3_by_2x2();
  spec.roles.p = 1;
  spec.padding = {-1, 0, 0, 0};
  CHECK(run(spec, {kOneToNine, kOneToFour}) == Image{67, 77});
  spec.pass = PassKind::backward_data;
  CHECK(run(spec, {{1, 1}, kOneToFour}) == Image{0, 0, 0, 1, 3, 2, 3, 7, 4});
}

TEST_CASE("conv2d over two channels and two filters by hand") {
  KernelSpec spec;
  spec.roles = {.n = 2, .c = 2, .w = 2, .f = 2, .q = 2};  // 1x1 window over 1x2
  // x[n c w]; w[f c] = {1 10; 100 1000}
  const Image x{1, 2, 3, 4, 5, 6, 7, 8}, w{1, 10, 100, 1000};
  const Image y{31, 42, 3100, 4200, 75, 86, 7500, 8600};
  CHECK(run(spec, {x, w}) == y);
  spec.x_format = spec.y_format = Format::channels_last;
  CHECK(run(spec, {{1, 3, 2, 4, 5, 7, 6, 8}, w}) == Image{31, 3100, 42, 4200, 75, 7500, 86, 8600});
}

TEST_CASE("conv2d gradients by hand") {
  KernelSpec spec = conv_3x3_by_2x2();
  spec.pass = PassKind::backward_data;
  // each dy adds dy * w at its window
  CHECK(run(spec, {{1, 10, 100, 1000}, kOneToFour}) == Image{1, 12, 20, 103, 1234, 2040, 300, 3400, 4000});
  spec.pass = PassKind::backward_filter;
  // dw[r s] = sum over p q of x[p+r q+s] dy[p q]
  CHECK(run(spec, {kOneToNine, {1, 10, 100, 1000}}) == Image{5421, 6532, 8754, 9865});
}

TEST_CASE("dense by hand") {
  KernelSpec spec;
  spec.op = KernelOp::dense;
  spec.roles = {.n = 2, .c = 3, .f = 2};
  const Image x{1, 2, 3, 4, 5, 6}, w{1, 0, -1, 2, 1, 0};
  CHECK(run(spec, {x, w}) == Image{-2, 4, -2, 13});
  spec.bias = true;
  spec.epilogue = forward_of("relu");
  CHECK(run(spec, {x, w, {1, -5}}) == Image{0, 0, 0, 8});
  spec.bias = false;
  spec.epilogue = {};
  spec.pass = PassKind::backward_data;
  CHECK(run(spec, {{1, 10, 100, 1000}, w}) == Image{21, 10, -1, 2100, 1000, -100});
  spec.pass = PassKind::backward_filter;
  CHECK(run(spec, {x, {1, 10, 100, 1000}}) == Image{401, 502, 603, 4010, 5020, 6030});
}

TEST_CASE("max_pool2d by hand: overlapping windows, padding never wins, the first wins a tie") {
  const Roles roles{.h = 3, .w = 3, .r = 2, .s = 2, .p = 2, .q = 2};
  KernelSpec spec = pool(KernelOp::max_pool2d, PassKind::forward, roles);
  const Image x{-1, -2, -3, -4, -5, -6, -7, -8, -9};
  CHECK(run(spec, {x}) == Image{-1, -2, -4, -5});
  spec.padding = {1, 0, 1, 0};
  CHECK(run(spec, {x}) == Image{-1, -1, -1, -1});
  spec.pass = PassKind::backward_data;
  CHECK(run(spec, {{1, 10, 100, 1000}, x}) == Image{1111, 0, 0, 0, 0, 0, 0, 0, 0});
  const Image equal(9, 5.0);
  spec.padding = {0, 0, 0, 0};
  CHECK(run(spec, {{1, 10, 100, 1000}, equal}) == Image{1, 10, 0, 100, 1000, 0, 0, 0, 0});
}

TEST_CASE("avg_pool2d by hand: padding does not count") {
  const Roles roles{.h = 3, .w = 3, .r = 2, .s = 2, .p = 2, .q = 2};
  KernelSpec spec = pool(KernelOp::avg_pool2d, PassKind::forward, roles);
  CHECK(run(spec, {kOneToNine}) == Image{3, 4, 6, 7});
  spec.padding = {1, 0, 1, 0};
  CHECK(run(spec, {kOneToNine}) == Image{1, 1.5, 2.5, 3});
  spec.pass = PassKind::backward_data;
  CHECK(run(spec, {{4, 8, 16, 32}}) == Image{4 + 4 + 8 + 8, 4 + 8, 0, 8 + 8, 8, 0, 0, 0, 0});
}

TEST_CASE("pools: a window with no real element gives 0, and takes no gradient") {
  for (const KernelOp op : {KernelOp::max_pool2d, KernelOp::avg_pool2d}) {
    KernelSpec spec = pool(op, PassKind::forward, {.h = 1, .w = 1, .r = 2, .s = 1, .p = 3, .q = 1});
    spec.stride = {2, 1};
    spec.padding = {2, 3, 0, 0};  // rows -2 -1 | 0 1 | 2 3: only the middle window sees x
    CHECK(run(spec, {{-7}}) == Image{0, -7, 0});
    spec.pass = PassKind::backward_data;
    CHECK(run(spec, op == KernelOp::max_pool2d ? std::vector<Image>{{1, 10, 100}, {-7}} : std::vector<Image>{{1, 10, 100}}) ==
          Image{10});
  }
}

TEST_CASE("pools of a slice: the halo is not a border") {
  // Column x of 4 rows [1 4 | 3 2], windows of 3 at stride 1, padding 1: outputs 4. Rows 0-1 are this slice, rows 2-3 the other.
  KernelSpec upper = pool(KernelOp::avg_pool2d, PassKind::forward, {.h = 2, .w = 1, .r = 3, .s = 1, .p = 3, .q = 1}), lower = upper;
  upper.padding = {1, 2, 0, 0};  // outputs 0-2
  upper.halo = {0, 2, 0, 0};     // the last of them reads rows 1-3
  lower.padding = {2, 1, 0, 0};  // outputs 1-3 read rows 0-3
  lower.halo = {2, 0, 0, 0};
  const Image first{12, 48}, second{36, 24};
  CHECK(run(upper, {first}) == Image{30, 20, 16});  // 60/2, 60/3 of 96/3, 48/3 of 108/3
  CHECK(run(lower, {second}) == Image{12, 20, 30});
  upper.op = lower.op = KernelOp::max_pool2d;
  upper.roles.p = 4;
  upper.padding[1] = 3;  // the last window is beyond
  CHECK(run(upper, {first}) == Image{48, 48, 48, -INFINITY});
  upper.roles.p = 3;
  upper.padding[1] = 2;
  upper.pass = lower.pass = PassKind::backward_data;
  const Image all{12, 48, 36, 24};
  CHECK(run(upper, {{1, 10, 100}, all}) == Image{0, 111});
  CHECK(run(lower, {{10, 100, 1000}, all}) == Image{1000, 0});
  upper.op = lower.op = KernelOp::avg_pool2d;
  CHECK(run(upper, {{2, 3, 6}}) == Image{2, 4});
  CHECK(run(lower, {{3, 6, 2}}) == Image{4, 3});
}

TEST_CASE("attention by hand: equal scores, later keys, keys that the mask leaves out") {
  KernelSpec spec;
  spec.op = KernelOp::attention;
  spec.dtype = DType::f64;
  spec.roles = {.n = 3, .c = 1, .f = 3, .g = 1};
  spec.made = kMakesOutput | kMakesLogSum;
  const Image q{0, 0, 0}, k{5, 6, 7}, v{3, 6, 12};
  const auto both = [&](std::vector<Image> in) {
    in.resize(in.size() + 2);
    const std::vector<Image> all = testing::run_kernel(*reference_backend(), spec, in);
    return std::vector<Image>(all.end() - 2, all.end());
  };
  CHECK(both({q, k, v}) == std::vector<Image>{{7, 7, 7}, {std::log(3), std::log(3), std::log(3)}});
  spec.causal = true;
  spec.origin = {0, 1};  // the first query is before all keys
  CHECK(both({q, k, v}) == std::vector<Image>{{0, 3, 4.5}, {kNoKey, 0, std::log(2)}});
  spec.share = 1;
  CHECK(both({q, k, v, {0, 1, 1}}) == std::vector<Image>{{0, 0, 6}, {kNoKey, kNoKey, 0}});
}

TEST_CASE("a one-hot map over no rows reads none of the indices that it has for each row") {
  KernelSpec spec;
  spec.op = KernelOp::map;
  spec.combine = Combine::add;
  spec.origin = {0, 0};
  spec.formula = formula({select(matches(position(1), integer(0)), operand(1), 0.0)});
  spec.operands = {{DType::i32, {1, 1}}, {DType::f32, {1, 0}}, {DType::f32, {1, 0}}};
  spec.extents = {5, 1};
  CHECK(one_hot_of(spec));
  spec.extents = {5, 0};
  CHECK(!one_hot_of(spec));
  CHECK(run(spec, {{}, {1, 1, 1, 1, 1}}) == Image(5, 0));
}

TEST_CASE("extents of 0") {
  KernelSpec spec = conv_3x3_by_2x2();
  spec.roles.c = 0;
  spec.bias = true;
  spec.epilogue = forward_of("relu");
  CHECK(run(spec, {{}, {}, {3}}) == Image{3, 3, 3, 3});
  CHECK(run(spec, {{}, {}, {-3}}) == Image{0, 0, 0, 0});
  spec.bias = false;
  spec.epilogue = {};
  spec.pass = PassKind::backward_filter;
  CHECK(run(spec, {{}, {1, 2, 3, 4}}).empty());
  spec = conv_3x3_by_2x2();
  spec.roles.n = 0;
  CHECK(run(spec, {{}, kOneToFour}).empty());
  spec.pass = PassKind::backward_filter;
  CHECK(run(spec, {{}, {}}) == Image{0, 0, 0, 0});
  spec = conv_3x3_by_2x2();
  spec.roles.f = 0;
  spec.pass = PassKind::backward_data;
  CHECK(run(spec, {{}, {}}) == Image(9, 0.0));
  KernelSpec dense;
  dense.op = KernelOp::dense;
  dense.roles = {.n = 1, .c = 0, .f = 2};
  dense.bias = true;
  CHECK(run(dense, {{}, {}, {3, 4}}) == Image{3, 4});
}

TEST_CASE("map: copies, broadcasts, transposes, scales") {
  CHECK(run(copy_of({2, 3}, {{3, 1}, {1, 2}}), {{1, 2, 3, 4, 5, 6}}) == Image{1, 4, 2, 5, 3, 6});
  KernelSpec spec = copy_of({2, 3}, {{0, 1}, {3, 1}});
  spec.scale = -2;
  CHECK(run(spec, {{1, 2, 3}}) == Image{-2, -4, -6, -2, -4, -6});
  CHECK(run(copy_of({}, {{}, {}}), {{8}}) == Image{8});
  // into a wider slice: what is between is left alone
  const Image wide = run(copy_of({2, 2}, {{2, 1}, {3, 1}}), {{1, 2, 3, 4}});
  CHECK((wide.size() == 5 && wide[0] == 1 && wide[1] == 2 && std::isnan(wide[2]) && wide[3] == 3 && wide[4] == 4));
}

TEST_CASE("map: reductions") {
  KernelSpec spec = copy_of({2, 3}, {{3, 1}, {1, 0}});
  spec.combine = Combine::add;
  CHECK(run(spec, {{1, 2, 3, 4, 5, 6}}) == Image{6, 15});
  spec.scale = 0.5;
  CHECK(run(spec, {{1, 2, 3, 4, 5, 6}}) == Image{3, 7.5});
  spec.combine = Combine::max;
  spec.scale = -1;
  CHECK(run(spec, {{1, 2, 3, 4, 5, 6}}) == Image{-3, -6});  // the largest, then scaled
  spec.extents = {2, 0};
  CHECK(run(spec, {{}}) == Image{kInfinity, kInfinity});
  spec.combine = Combine::add;
  CHECK(run(spec, {{}}) == Image{0, 0});
  spec.extents = {0, 3};
  CHECK(run(spec, {{}}).empty());
  // 2^24 + 1 - 2^24: the sum runs in f64
  spec = copy_of({3}, {{1}, {0}});
  spec.combine = Combine::add;
  CHECK(run(spec, {{0x1p24, 1, -0x1p24}}) == Image{1});
}

TEST_CASE("map: a sum takes any number of operands, and a formula after it") {
  KernelSpec spec = sum_of({2}, {{1}, {1}, {0}, {1}});
  spec.formula = forward_of("relu");
  CHECK(run(spec, {{1, -2}, {10, -20}, {5}}) == Image{16, 0});
  CHECK(run(sum_of({2}, {{1}, {1}}), {{1, -2}}) == Image{1, -2});
  CHECK(run(sum_of({2}, {{1}}), {}) == Image{0, 0});
}

TEST_CASE("map: in place") {
  const auto backend = reference_backend();
  const KernelSpec spec = sum_of({3}, {{1}, {1}, {1}});
  const auto images = run_kernel(*backend, spec, {{1, 2, 3}, {10, 20, 30}}, {.alias = 1});
  CHECK(images[0] == Image{1, 2, 3});
  CHECK(images[1] == Image{11, 22, 33});
}

TEST_CASE("map: pointwise ops and their gradients at known points") {
  const Image x{-1, 0, 1};
  const double e = std::exp(1.0);
  const auto gives = [&](const std::string& op, const std::vector<double>& expected) {
    INFO(op);
    const Image y = run(in_f64(map_of(forward_of(op), {3}, {{1}, {1}})), {x});
    for (std::size_t i = 0; i < 3; i++) CHECK(y[i] == Approx(expected[i]).margin(1e-15));
  };
  gives("relu", {0, 0, 1});
  gives("sigmoid", {1 / (1 + e), 0.5, e / (1 + e)});
  gives("tanh", {-(e - 1 / e) / (e + 1 / e), 0, (e - 1 / e) / (e + 1 / e)});
  gives("elu", {1 / e - 1, 0, 1});
  gives("gelu", {-0.15865525393145707, 0, 0.8413447460685429});  // -1 and 1 times the normal distribution's values there
  gives("silu", {-1 / (1 + e), 0, e / (1 + e)});
  const auto gradient = [&](const std::string& op, const Image& y) {
    return run(in_f64(map_of(gradient_of(op), {3}, {{1}, {1}, {1}})), {{2, 2, 2}, y});
  };
  CHECK(gradient("relu", {-1, 0, 1}) == Image{0, 0, 2});
  CHECK(gradient("sigmoid", {0.25, 0.5, 0.75}) == Image{0.375, 0.5, 0.375});
  CHECK(gradient("tanh", {-0.5, 0, 0.5}) == Image{1.5, 2, 1.5});
  CHECK(gradient("elu", {-0.5, 0, 1}) == Image{1, 2, 2});
}

TEST_CASE("map: pointwise ops and their gradients are finite for every number, and 0 where they end") {
  const Image x{-1e38, -1e20, -1e10, -100, 100, 1e10, 1e20, 1e38};
  const auto length = static_cast<Index>(x.size());
  for (const std::string& op : Pointwise::names()) {
    INFO(op);
    const Image y = run(map_of(forward_of(op), {length}, {{1}, {1}}), {x});
    const Image g =
        run(map_of(gradient_of(op), {length}, {{1}, {1}, {1}}), {Image(x.size(), 1.0), Pointwise::find(op)->from_y() ? y : x});
    for (std::size_t i = 0; i < x.size(); i++) CHECK((std::isfinite(y[i]) && std::isfinite(g[i])));
    if (op != "silu" && op != "gelu" && op != "gelu_tanh") continue;
    for (std::size_t i = 0; i < x.size(); i++) {
      CHECK(y[i] == Approx(x[i] < 0 ? 0 : x[i]));
      CHECK(g[i] == (x[i] < 0 ? 0 : 1));
    }
  }
}

TEST_CASE("map: softmax's parts by hand") {
  // two rows of three classes, this slice holds classes 4, 5, 6
  const Image l{0, std::log(2.0), std::log(5.0), 0, 0, 0};
  const auto part = [](const std::string& what, std::vector<Index> extents, std::vector<std::vector<Index>> strides, int label) {
    KernelSpec spec = in_f64(map_of(softmax_formula(what), std::move(extents), strides));
    if (label >= 0) {
      spec.operands[static_cast<std::size_t>(label)].dtype = DType::i32;
      spec.origin = {0, 4};
    }
    return spec;
  };
  KernelSpec sum = part("sum_exp", {2, 3}, {{3, 1}, {1, 0}, {1, 0}, {1, 0}}, 2);
  sum.combine = Combine::add;
  const Image s = run(sum, {l, {0, 0}, {5, 9}});  // 9 is another rank's class
  CHECK(s[0] == Approx(6));
  CHECK(s[1] == Approx(3));
  KernelSpec pick = part("pick_label", {2, 3}, {{3, 1}, {1, 0}, {1, 0}}, 1);
  pick.combine = Combine::add;
  const Image h = run(pick, {l, {5, 9}});
  CHECK(h == Image{std::log(2.0), 0});
  const Image loss = run(part("forward", {2}, {{1}, {1}, {1}, {1}}, -1), {{0, 0}, {6, 3}, h});
  CHECK(loss[0] == Approx(std::log(4.0)));
  CHECK(loss[1] == Approx(std::log(4.0)));
  KernelSpec in_f32 = part("forward", {2}, {{1}, {1}, {1}, {1}}, -1);
  for (MapOperand& operand : in_f32.operands) operand.dtype = DType::f32;
  const Image offset = run(in_f32, {{1e4, 1e6}, {3, 3}, {1e4, 1e6}});  // the logits' common part cancels before it rounds the loss
  for (const double one : offset) CHECK(one == Approx(std::log(4.0)).epsilon(1e-6));
  const KernelSpec gradient = part("backward_data", {2, 3}, {{3, 1}, {1, 0}, {1, 0}, {1, 0}, {1, 0}, {0, 0}, {3, 1}}, 4);
  const Image dl = run(gradient, {l, {0, 0}, {6, 3}, h, {5, 9}, {24}});
  const double expected[] = {3, 6 - 24, 15, 6, 6, 6};
  for (std::size_t i = 0; i < 6; i++) CHECK(dl[i] == Approx(expected[i]));
}

TEST_CASE("map: labels are copied as they are") {
  KernelSpec spec = copy_of({2}, {{2}, {1}});
  spec.operands[0].dtype = spec.operands[1].dtype = DType::i32;
  CHECK(run(spec, {{16777217, 5, -3}}) == Image{16777217, -3});
}

TEST_CASE("sgd by hand") {
  KernelSpec spec = map_of(Optimizer(Sgd{.momentum = 0.25}).update, {2}, {{0}, {0}, {0}, {1}, {1}, {1}, {1}, {1}});
  for (std::size_t k = 0; k < 3; k++) spec.operands[k].dtype = DType::f64;
  const auto backend = reference_backend();
  const auto images = run_kernel(*backend, spec, {{0.5}, {2}, {0.125}, {0.5, -1}, {4, 8}, {8, 16}, {}, {}});
  CHECK(images[3] == Image{0.5, -1});
  CHECK(images[6] == Image{3, 2});     // 0.25*4 + (2*0.5 + 0.125*8), 0.25*8 + (2*-1 + 0.125*16)
  CHECK(images[7] == Image{6.5, 15});  // 8 - 0.5*3, 16 - 0.5*2
}
