// SPDX-License-Identifier: Apache-2.0
#include "plan/formats.h"

#include <algorithm>
#include <numeric>

#include "base/at.h"
#include "kernels/operands.h"

namespace motley {

namespace {

// Sets of tensors.
class Sets {
 public:
  explicit Sets(std::size_t tensors) : parent_(tensors) { std::iota(parent_.begin(), parent_.end(), 0); }
  int of(int tensor) {
    int& parent = at(parent_, tensor);
    return parent == tensor ? tensor : parent = of(parent);
  }
  void join(int a, int b) { at(parent_, of(a)) = of(b); }

 private:
  std::vector<int> parent_;
};

// Four-dim tensors that a convolution or a pool reads or writes, and those that other passes read or write together with them.
std::vector<bool> pictures(const Passes& passes) {
  const auto count = passes.tensors.size();
  const auto four = [&](int t) { return at(passes.tensors, t).shape.rank() == 4 && at(passes.tensors, t).dtype != DType::i32; };
  Sets sets(count);
  std::vector<bool> windows(count, false), out = windows;
  for (const Pass& p : passes.passes) {
    std::vector<int> together;
    for (const PassOperand& o : p.reads)
      if (four(o.tensor)) together.push_back(o.tensor);
    if (four(p.writes.tensor)) together.push_back(p.writes.tensor);
    for (const int t : together) {
      if (p.op == KernelOp::conv2d || is_pool(p.op)) at(windows, t) = true;
      if (p.op != KernelOp::conv2d) sets.join(t, together.front());
    }
  }
  for (int t = 0; t < static_cast<int>(count); t++)
    if (at(windows, t)) at(out, sets.of(t)) = true;
  for (int t = 0; t < static_cast<int>(count); t++) at(out, t) = four(t) && at(out, sets.of(t));
  return out;
}

}  // namespace

std::vector<Format> common_formats(const Passes& passes, const Mesh& mesh, DType dtype) {
  std::vector<Format> formats(passes.tensors.size(), Format::plain);
  if (dtype == DType::f64) return formats;  // the reference reads plain faster
  const std::vector<bool> last = pictures(passes);
  for (std::size_t t = 0; t < last.size(); t++)
    if (last[t]) formats[t] = Format::channels_last;
  const bool gpu = std::any_of(mesh.devices().begin(), mesh.devices().end(), has_own_memory);
  for (const Pass& p : passes.passes)  // a convolution's weights: a CPU's kernels pack them
    if (!gpu && p.op == KernelOp::conv2d && p.kind != PassKind::backward_filter) {
      const int weight = p.reads[1].tensor, of = at(passes.tensors, weight).of;  // of a copy in bf16: its parameter
      at(formats, of >= 0 ? of : weight) = Format::plain;
    }
  for (std::size_t t = 0; t < passes.tensors.size(); t++)
    if (passes.tensors[t].of >= 0) formats[t] = at(formats, passes.tensors[t].of);
  return formats;
}

}  // namespace motley
