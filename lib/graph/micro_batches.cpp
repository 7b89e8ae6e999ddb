// SPDX-License-Identifier: Apache-2.0
#include "graph/micro_batches.h"

#include <algorithm>

#include "base/at.h"
#include "graph/layer_error.h"

namespace motley {

namespace {

Dim batch_of(const Passes& passes) {
  Dim batch;
  for (const StepTensor& t : passes.tensors) {
    if (t.role != TensorRole::input && t.role != TensorRole::label) continue;
    if (t.shape.rank() == 0 || (!batch.name.empty() && t.shape[0].name != batch.name))
      throw UserError(
          "accumulate: micro-batches divide the first dim of every input, but that of \"" + t.name + "\" is " +
          (t.shape.rank() == 0 ? "missing" : "\"" + t.shape[0].name + "\", that of another one \"" + batch.name + "\""));
    batch = t.shape[0];
  }
  if (batch.name.empty()) throw UserError("accumulate: this step has no input");
  return batch;
}

std::vector<const PassOperand*> operands_of(const Pass& pass) {
  std::vector<const PassOperand*> out{&pass.writes};
  for (const PassOperand& o : pass.reads) out.push_back(&o);
  return out;
}

// Whether this pass uses the batch as anything but a count of samples.
bool changes(const Passes& passes, const Pass& pass, const std::string& batch) {
  auto is_batch = [&](int index) { return index >= 0 && at(pass.indices, index).name == batch; };
  for (const Window& w : pass.windows)
    if (is_batch(w.read) || is_batch(w.made) || is_batch(w.tap)) return true;
  for (const IndexMap& map : pass.index_maps) {
    if (map.made.empty() && map.offset == 0) continue;  // the first sample of a micro-batch is the first one of the batch
    if (std::any_of(map.read.begin(), map.read.end(), is_batch) || std::any_of(map.made.begin(), map.made.end(), is_batch))
      return true;
  }
  for (const PassOperand* o : operands_of(pass))  // another dim's index reads the batch, or the batch's index reads another dim
    for (std::size_t d = 0; d < o->indices.size(); d++)
      if ((at(passes.tensors, o->tensor).shape[d].name == batch) != is_batch(o->indices[d])) return true;
  for (std::size_t i = 0; i < pass.indices.size(); i++)
    if (is_batch(static_cast<int>(i)) && reads_position(pass.formula, static_cast<int>(i))) return true;
  return false;
}

// A pass over the samples of all micro-batches reads all their labels side by side, as one more input, fed from the same labels.
void read_all(Passes& passes, Pass& pass, const std::string& batch, Index parts) {
  const std::vector<PassIndex>& indices = pass.indices;
  if (has_index(pass.writes, indices, batch)) return;  // one result for each sample
  check(pass.reads.size() == 1, "what counts labels reads labels alone");
  const int label = pass.reads.front().tensor;
  StepTensor all = at(passes.tensors, label);
  all.name = "all of " + all.name;  // as no layer or input can be called
  all.fed_from = label;
  int here = passes.find(all.name);
  if (here < 0) {
    std::vector<Dim> dims{{kMicroBatches, parts}};
    dims.insert(dims.end(), all.shape.dims().begin(), all.shape.dims().end());
    all.shape = Shape(dims);
    here = static_cast<int>(passes.tensors.size());
    passes.tensors.push_back(std::move(all));
  }
  pass.reads.front().tensor = here;
  pass.reads.front().indices.insert(pass.reads.front().indices.begin(), static_cast<int>(indices.size()));
  pass.indices.push_back({kMicroBatches, parts});
}

}  // namespace

bool has_index(const PassOperand& o, const std::vector<PassIndex>& indices, const std::string& name) {
  return std::any_of(o.indices.begin(), o.indices.end(), [&](int i) { return i >= 0 && at(indices, i).name == name; });
}

void cut_batch(Passes& passes, Index parts) {
  passes.accumulate = parts;
  if (parts == 1) return;
  const Dim batch = batch_of(passes);
  if (batch.size % parts != 0)
    throw UserError("accumulate: " + std::to_string(batch.size) + " samples (\"" + batch.name + "\") cannot be divided into " +
                    std::to_string(parts) + " equal micro-batches");
  for (Pass& p : passes.passes) {
    if (changes(passes, p, batch.name))
      throw LayerError(p.layer, "accumulate: \"" + p.layer + "\" changes the dim \"" + batch.name +
                                    "\", which micro-batches divide; leave \"accumulate\" out");
    for (PassIndex& i : p.indices)
      if (i.name == batch.name) i.size = batch.size / parts;
  }
  check_losses_add_up(passes, batch.name);
  for (StepTensor& t : passes.tensors) {
    if (!t.shape.has(batch.name)) continue;
    if (t.role == TensorRole::parameter)
      throw LayerError(t.layer, "accumulate: the parameter \"" + t.name + "\" has the dim \"" + batch.name +
                                    "\", which micro-batches divide; leave \"accumulate\" out");
    std::vector<Dim> dims = t.shape.dims();
    for (Dim& d : dims)
      if (d.name == batch.name) d.size = batch.size / parts;
    t.shape = Shape(dims);
  }
  for (Pass& p : passes.passes)
    if (p.all_samples) read_all(passes, p, batch.name, parts);
}

std::string layer_across_samples(const Passes& passes, const std::string& batch) {
  for (const Pass& p : passes.passes) {
    const bool sums =
        !has_index(p.writes, p.indices, batch) &&
        std::any_of(p.reads.begin(), p.reads.end(), [&](const PassOperand& o) { return has_index(o, p.indices, batch); });
    if (sums || changes(passes, p, batch)) return p.layer;
  }
  return "";
}

}  // namespace motley
