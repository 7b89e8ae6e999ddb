// SPDX-License-Identifier: Apache-2.0
#include "bench/support/memory_bound.h"

#include <utility>

#include "graph/optimizers.h"
#include "kernels/kernel_names.h"
#include "tests/support/formulas.h"

namespace motley::bench {

using testing::copy_of;
using testing::forward_of;
using testing::gradient_of;
using testing::map_of;
using testing::sum_of;

namespace {

KernelSpec pool_of(KernelOp op, PassKind pass, Format format, Index batch, Index channels = 64) {
  KernelSpec spec;
  spec.op = op;
  spec.pass = pass;
  spec.roles = {batch, channels, 32, 32, 1, 2, 2, 16, 16};
  spec.stride = {2, 2};
  spec.x_format = spec.y_format = format;
  return spec;
}

KernelSpec then(KernelSpec spec, const Formula& formula) {
  spec.formula = formula;
  return spec;
}

}  // namespace

std::vector<MemoryBound> memory_bound(Index batch) {
  const Index n = batch * 32 * 32, c = 64, all = n * c;
  const std::vector<Index> rows{c, 1};
  std::vector<MemoryBound> list;
  list.push_back({"copy", copy_of({all}, {{1}, {1}})});
  list.push_back({"copy, strided rows of 48 of 64", copy_of({n, 48}, {rows, {48, 1}})});
  list.push_back({"copy, rows of 3", copy_of({n, 3}, {{4, 1}, {3, 1}})});
  list.push_back({"copy, plain to channels_last", copy_of({batch, 64, 1024}, {{65536, 1024, 1}, {65536, 1, 64}})});
  list.push_back({"copy, channels_last to plain", copy_of({batch, 64, 1024}, {{65536, 1, 64}, {65536, 1024, 1}})});
  list.push_back({"add 2 terms", sum_of({all}, {{1}, {1}, {1}})});
  list.push_back({"add 4 terms", sum_of({all}, {{1}, {1}, {1}, {1}, {1}})});
  list.push_back({"add bias, relu", then(sum_of({n, c}, {rows, {0, 1}, rows}), forward_of("relu"))});
  list.push_back({"relu gradient", map_of(gradient_of("relu"), {all}, {{1}, {1}, {1}})});
  list.push_back({"tanh", map_of(forward_of("tanh"), {all}, {{1}, {1}})});
  KernelSpec db = copy_of({n, c}, {rows, {0, 1}});
  db.combine = Combine::add;
  list.push_back({"bias gradient, channels_last", db});
  KernelSpec plain = copy_of({batch, 64, 1024}, {{65536, 1024, 1}, {0, 1, 0}});
  plain.combine = Combine::add;
  list.push_back({"bias gradient, plain", plain});
  for (const KernelOp op : {KernelOp::max_pool2d, KernelOp::avg_pool2d})
    for (const PassKind pass : {PassKind::forward, PassKind::backward_data})
      for (const Format format : {Format::channels_last, Format::plain})
        list.push_back({name_of(op) + " " + name_of(pass) + " " + to_string(format), pool_of(op, pass, format, batch)});
  for (const Index channels : {40, 26, 14, 3})  // an uneven cut leaves any number
    for (const KernelOp op : {KernelOp::max_pool2d, KernelOp::avg_pool2d})
      for (const PassKind pass : {PassKind::forward, PassKind::backward_data})
        list.push_back({name_of(op) + " " + name_of(pass) + ", " + std::to_string(channels) + " channels",
                        pool_of(op, pass, Format::channels_last, batch, channels)});
  KernelSpec sgd = map_of(Optimizer(Sgd{.momentum = 0.9}).update, {all}, {{0}, {0}, {0}, {1}, {1}, {1}, {1}, {1}});
  for (std::size_t k = 0; k < 3; k++) sgd.operands[k].dtype = DType::f64;
  list.push_back({"sgd", sgd});
  return list;
}

}  // namespace motley::bench
