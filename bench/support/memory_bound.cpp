// SPDX-License-Identifier: Apache-2.0
#include "bench/support/memory_bound.h"

#include <utility>

#include "kernels/kernel_names.h"

namespace motley::bench {

namespace {

FoldOperand whole(const std::vector<Index>& strides, DType dtype = DType::f32) {
  return {dtype, strides};
}

KernelSpec fold_of(FoldKind kind, std::vector<Index> extents, std::vector<FoldOperand> operands,
                   Activation activation = Activation::none) {
  KernelSpec spec;
  spec.op = KernelOp::fold;
  spec.fold = kind;
  spec.fold_extents = std::move(extents);
  spec.operands = std::move(operands);
  spec.activation = activation;
  return spec;
}

KernelSpec pool_of(KernelOp op, PassKind pass, Format format, Index batch, Index channels = 64) {
  KernelSpec spec;
  spec.op = op;
  spec.pass = pass;
  spec.roles = {batch, channels, 32, 32, 1, 2, 2, 16, 16};
  spec.stride = {2, 2};
  spec.x_format = spec.y_format = format;
  return spec;
}

}  // namespace

std::vector<MemoryBound> memory_bound(Index batch) {
  const Index n = batch * 32 * 32, c = 64, all = n * c;
  const std::vector<Index> rows{c, 1};
  std::vector<MemoryBound> list;
  list.push_back({"copy", fold_of(FoldKind::copy, {all}, {whole({1}), whole({1})})});
  list.push_back({"copy, strided rows of 48 of 64", fold_of(FoldKind::copy, {n, 48}, {whole(rows), whole({48, 1})})});
  list.push_back({"copy, rows of 3", fold_of(FoldKind::copy, {n, 3}, {whole({4, 1}), whole({3, 1})})});
  list.push_back({"copy, plain to channels_last",
                  fold_of(FoldKind::copy, {batch, 64, 1024}, {whole({65536, 1024, 1}), whole({65536, 1, 64})})});
  list.push_back({"copy, channels_last to plain",
                  fold_of(FoldKind::copy, {batch, 64, 1024}, {whole({65536, 1, 64}), whole({65536, 1024, 1})})});
  list.push_back({"add 2 terms", fold_of(FoldKind::add, {all}, {whole({1}), whole({1}), whole({1})})});
  list.push_back({"add 4 terms", fold_of(FoldKind::add, {all}, {whole({1}), whole({1}), whole({1}), whole({1}), whole({1})})});
  list.push_back({"add bias, relu", fold_of(FoldKind::add, {n, c}, {whole(rows), whole({0, 1}), whole(rows)}, Activation::relu)});
  list.push_back(
      {"relu gradient", fold_of(FoldKind::activation_gradient, {all}, {whole({1}), whole({1}), whole({1})}, Activation::relu)});
  list.push_back({"tanh", fold_of(FoldKind::activation, {all}, {whole({1}), whole({1})}, Activation::tanh)});
  KernelSpec db = fold_of(FoldKind::copy, {n, c}, {whole(rows), whole({0, 1})});
  db.combine = Combine::add;
  list.push_back({"bias gradient, channels_last", db});
  KernelSpec plain = fold_of(FoldKind::copy, {batch, 64, 1024}, {whole({65536, 1024, 1}), whole({0, 1, 0})});
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
  KernelSpec sgd;
  sgd.op = KernelOp::sgd;
  sgd.roles.n = all;
  sgd.momentum = 0.9, sgd.weight_decay = 1e-4;
  list.push_back({"sgd", sgd});
  return list;
}

}  // namespace motley::bench
