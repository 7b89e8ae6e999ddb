// SPDX-License-Identifier: Apache-2.0
// Whether the losses of micro-batches add up to the loss of their batch: decided tensor by tensor, from the inputs to the losses.
#include <algorithm>

#include "base/at.h"
#include "graph/layer_error.h"
#include "graph/micro_batches.h"
#include "kernels/value.h"

namespace motley {

namespace {

// What a tensor's values in the micro-batches are to those that it has in the batch.
enum class Values : std::uint8_t {
  unknown,    // not written yet
  same,       // equal in all of them: parameters, and what is made of them alone
  by_sample,  // those of a part of the samples
  summands,   // they add up to it: sums and means over samples, which divide by the complete batch
  other       // neither: a micro-batch's own
};

// Of a value that is linear in each of a and b.
Values of_product(Values a, Values b) {
  if (a == Values::same) return b;
  return b == Values::same ? a : Values::other;
}

// Of results without samples. Operands: by number.
Values of_formula(const Formula& formula, const std::vector<Values>& operands) {
  std::vector<Values> registers;
  const auto is_same = [&](int r) { return r < 0 || at(registers, r) == Values::same; };
  for (const Instruction& i : formula.code) {
    Values its = Values::same;
    if (i.op == Opcode::operand || i.op == Opcode::integer || i.op == Opcode::scalar) {
      its = at(operands, i.a);
    } else if (reads_registers(i.op) && !(is_same(i.a) && is_same(i.b) && is_same(i.c))) {
      its = Values::other;
      const Values a = at(registers, i.a);
      if ((i.op == Opcode::add || i.op == Opcode::sub) && a == at(registers, i.b)) its = a;
      if (i.op == Opcode::mul) its = of_product(a, at(registers, i.b));
      if (i.op == Opcode::div && at(registers, i.b) == Values::same) its = a;
      if (i.op == Opcode::select && a == Values::same && at(registers, i.b) == at(registers, i.c)) its = at(registers, i.b);
    }
    registers.push_back(its);
  }
  return formula.code.empty() ? operands.front() : at(registers, formula.results.front());
}

// Passes are visited in the order of a step that is not yet sorted: forward ones first, writers before readers.
class AddUp {
 public:
  AddUp(const Passes& passes, std::string batch)
      : all_(passes), batch_(std::move(batch)), values_(passes.tensors.size(), Values::unknown), needed_(values_.size(), false) {
    for (const int loss : all_.outputs) at(needed_, loss) = true;
    for (auto p = all_.passes.rbegin(); p != all_.passes.rend(); ++p)
      if (at(needed_, p->writes.tensor))
        for (const PassOperand& in : p->reads) at(needed_, in.tensor) = true;
    for (std::size_t t = 0; t < values_.size(); t++)
      if (all_.tensors[t].shape.has(batch_)) values_[t] = Values::by_sample;
  }

  void check() {
    for (const Pass& p : all_.passes) {
      if (!at(needed_, p.writes.tensor)) continue;
      const Values its = result_of(p);
      Values& all = at(values_, p.writes.tensor);
      all = all == Values::unknown || all == its ? its : Values::other;  // several writers are added
    }
    for (const int loss : all_.outputs) {
      if (at(values_, loss) == Values::summands) continue;
      const StepTensor& t = at(all_.tensors, loss);
      if (at(values_, loss) == Values::same)
        throw LayerError(t.layer, "accumulate: the loss \"" + t.name +
                                      "\" does not depend on the samples, so it would count once in every micro-batch; "
                                      "leave \"accumulate\" out, or use the optimizer's weight_decay as the penalty on weights");
      refuse(t.layer, "\"" + t.name + "\" is not a sum or a mean over samples");
    }
  }

 private:
  [[noreturn]] static void refuse(const std::string& layer, const std::string& why) {
    throw LayerError(layer, "accumulate: " + why + ", so micro-batches would train another network; leave \"accumulate\" out");
  }
  bool has_batch(const Pass& p, const PassOperand& o) const { return has_index(o, p.indices, batch_); }

  // A norm may use its micro-batch's statistics, so a layer's own tensors may be anything; what it reads from other layers may not.
  Values result_of(const Pass& p) const {
    if (p.all_samples) return Values::same;
    std::vector<Values> reads;
    bool samples = has_batch(p, p.writes);
    for (const PassOperand& in : p.reads) {
      samples = samples || has_batch(p, in);
      const Values its = at(values_, in.tensor);
      reads.push_back(its == Values::unknown ? Values::same : its);  // parameters, keys
    }
    for (std::size_t k = 0; k < reads.size(); k++) {
      const StepTensor& in = at(all_.tensors, p.reads[k].tensor);
      if (in.layer == p.layer || reads[k] == Values::same || reads[k] == Values::by_sample) continue;
      if (reads[k] == Values::other) refuse(in.layer, "\"" + in.name + "\" is not a sum or a mean over samples");
      if (samples)
        refuse(p.layer, "\"" + p.layer + "\" reads \"" + in.name + "\", a sum or a mean over all samples, beside each sample");
    }
    if (has_batch(p, p.writes)) return Values::by_sample;
    const bool adds = p.combine == Combine::add;
    if (samples) return adds ? Values::summands : Values::other;
    if (std::all_of(reads.begin(), reads.end(), [](Values v) { return v == Values::same; })) return Values::same;
    if (p.op == KernelOp::map && adds) return of_formula(p.formula, reads);
    if (p.op == KernelOp::conv2d || p.op == KernelOp::dense) return of_product(reads.front(), reads.back());
    return Values::other;
  }

  const Passes& all_;
  const std::string batch_;
  std::vector<Values> values_;  // of each tensor
  std::vector<bool> needed_;    // for the losses
};

}  // namespace

void check_losses_add_up(const Passes& passes, const std::string& batch) {
  AddUp(passes, batch).check();
}

}  // namespace motley
