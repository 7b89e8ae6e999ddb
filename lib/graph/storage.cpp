// SPDX-License-Identifier: Apache-2.0
#include "graph/storage.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/at.h"
#include "kernels/operands.h"
#include "kernels/value.h"

namespace motley {

namespace {

bool multiplies(const Pass& p) {
  return p.op == KernelOp::conv2d || p.op == KernelOp::dense || p.op == KernelOp::attention;
}
// Attention's mask, its log-sum-exp and what is computed from that (one number per query) stay f32.
bool narrows_read(const Pass& p, std::size_t k) {
  return p.op != KernelOp::attention || k < (p.kind == PassKind::forward ? 3U : 4U);
}
bool narrows_result(const Pass& p) {
  return p.op != KernelOp::attention || p.kind != PassKind::forward || p.made != kMakesLogSum;
}

class Storage {
 public:
  explicit Storage(Passes& passes) : all_(passes), fixed_(passes.tensors.size(), false) {}

  void choose() {
    fix();
    std::set<int> chosen;
    const auto choose = [&](int t) { return !at(fixed_, t) && at(all_.tensors, t).of < 0 && chosen.insert(t).second; };
    for (const Pass& p : all_.passes)
      if (p.op != KernelOp::map) {
        if (narrows_result(p)) choose(p.writes.tensor);
        for (std::size_t k = 0; k < p.reads.size(); k++)
          if (narrows_read(p, k)) choose(p.reads[k].tensor);
      }
    for (bool more = true; more;) {
      more = false;
      for (const Pass& p : all_.passes)
        if (p.op == KernelOp::map && keeps_elements(p, chosen)) more = choose(p.writes.tensor) || more;
    }
    for (const int t : chosen) at(all_.tensors, t).dtype = DType::bf16;
    for (std::size_t g = 0; g < all_.tensors.size(); g++)  // a gradient has its tensor's type
      if (const int of = all_.tensors[g].of; of >= 0 && !fixed_[g] && chosen.contains(of)) all_.tensors[g].dtype = DType::bf16;
  }

  // Converts what contractions read; for pools and changes of shape, whose operands have one type, operands of another type than
  // the result.
  void convert() {
    std::vector<Pass> passes;
    for (Pass& p : all_.passes) {
      if (p.op != KernelOp::map || !p.index_maps.empty()) {
        const DType wanted = multiplies(p) ? DType::bf16 : at(all_.tensors, p.writes.tensor).dtype;
        for (std::size_t k = 0; k < p.reads.size(); k++)
          if (PassOperand& in = p.reads[k]; narrows_read(p, k) && at(all_.tensors, in.tensor).dtype != wanted)
            in.tensor = copy_of(in.tensor, wanted, p, passes);
      }
      passes.push_back(std::move(p));
    }
    all_.passes = std::move(passes);
  }

 private:
  // Marks the tensors that stay as they are.
  void fix() {
    const auto fix = [&](int t) { at(fixed_, t) = true; };
    for (std::size_t t = 0; t < fixed_.size(); t++) {
      const TensorRole role = all_.tensors[t].role;
      fixed_[t] = all_.tensors[t].dtype != DType::f32 || (role != TensorRole::activation && role != TensorRole::gradient);
    }
    for (const int t : all_.outputs) fix(t);
    for (const Pass& p : all_.passes) {
      const bool numbered = std::any_of(p.reads.begin(), p.reads.end(), [&](const PassOperand& in) {
        const StepTensor& t = at(all_.tensors, in.tensor);
        return t.role == TensorRole::label || (t.dtype == DType::i32 && t.role == TensorRole::input);
      });
      if (!numbered) continue;
      fix(p.writes.tensor);
      for (const PassOperand& in : p.reads) fix(in.tensor);
    }
    for (std::size_t g = 0; g < fixed_.size(); g++)
      if (const int of = all_.tensors[g].of; of >= 0 && at(fixed_, of)) fixed_[g] = true;
  }

  // Whether each written element is made of one element of a chosen tensor.
  bool keeps_elements(const Pass& p, const std::set<int>& chosen) const {
    if (!p.index_maps.empty()) return chosen.contains(p.reads.front().tensor);
    if (p.writes.indices.size() != p.indices.size()) return false;
    if (is_plain_map(p)) return chosen.contains(p.reads.front().tensor);  // repeated elements too
    return std::any_of(p.reads.begin(), p.reads.end(),
                       [&](const PassOperand& in) { return in.indices.size() == p.indices.size() && chosen.contains(in.tensor); });
  }

  // A copy of the tensor; the pass that makes it comes before `reader`.
  int copy_of(int tensor, DType dtype, const Pass& reader, std::vector<Pass>& passes) {
    const auto [here, fresh] = copies_.emplace(std::pair(tensor, dtype), static_cast<int>(all_.tensors.size()));
    if (!fresh) return here->second;
    StepTensor copy = at(all_.tensors, tensor);
    const bool of_parameter = copy.role == TensorRole::parameter;
    copy = {
        copy.name + " in " + to_string(dtype), copy.shape, dtype, TensorRole::activation, copy.layer, of_parameter ? tensor : -1};
    if (copy.layer.empty()) copy.layer = reader.layer;
    copy.copy_of = at(all_.tensors, tensor).name;
    Pass pass;
    pass.name = copy.name;
    pass.layer = of_parameter ? copy.layer : reader.layer;
    for (const Dim& d : copy.shape.dims()) {
      pass.writes.indices.push_back(static_cast<int>(pass.indices.size()));
      pass.indices.push_back({d.name, d.size});
    }
    pass.reads = {{tensor, pass.writes.indices}};
    pass.writes.tensor = here->second;
    pass.formula = converted();
    all_.tensors.push_back(std::move(copy));
    passes.push_back(std::move(pass));
    return here->second;
  }

  Passes& all_;
  std::vector<bool> fixed_;
  std::map<std::pair<int, DType>, int> copies_{};
};

}  // namespace

void store_in_bf16(Passes& passes) {
  Storage storage(passes);
  storage.choose();
  storage.convert();
}

}  // namespace motley
