// SPDX-License-Identifier: Apache-2.0
#include "train/update.h"

#include <algorithm>
#include <cmath>

#include "base/at.h"
#include "graph/passes.h"
#include "mesh/control.h"

namespace motley {

ReadBox micro_batch_of(const ReadBox& all, Index micro_batch, Index size) {
  return [&all, first = micro_batch * size](const Box& box, std::span<std::byte> out) {
    Box there = box;
    if (first > 0) there.front() = {there.front().begin + first, there.front().end + first};  // an input may be a scalar
    all(there, out);
  };
}

const std::string& fed_from(const Passes& passes, const std::string& name) {
  const StepTensor& t = at(passes.tensors, passes.find(name));
  return t.fed_from < 0 ? t.name : at(passes.tensors, t.fed_from).name;
}

namespace {

Dim samples_of(const Passes& passes) {
  for (const StepTensor& t : passes.tensors)
    if ((t.role == TensorRole::input || t.role == TensorRole::label) && t.shape.rank() > 0) return t.shape[0];
  return {"", 1};
}

}  // namespace

ReadBox fed_by(const Passes& passes, const std::string& name, const ReadBox& all, Index micro_batch) {
  const StepTensor& t = at(passes.tensors, passes.find(name));
  // Keys of what has no samples, such as a learned constant, are the same in all micro-batches of a step.
  if (t.role == TensorRole::key && !t.shape.has(samples_of(passes).name)) return all;
  const Index size = micro_batch_size(passes);
  if (t.fed_from < 0) return micro_batch_of(all, micro_batch, size);
  return [&all, size](const Box& box, std::span<std::byte> out) {  // this part of each micro-batch
    const Box part(box.begin() + 1, box.end());
    const Range which = box.front();
    if (which.end <= which.begin) return;
    const std::size_t bytes = out.size() / static_cast<std::size_t>(which.end - which.begin);
    for (Index m = which.begin; m < which.end; m++)
      micro_batch_of(all, m, size)(part, out.subspan(static_cast<std::size_t>(m - which.begin) * bytes, bytes));
  };
}

Index micro_batch_size(const Passes& passes) {
  return samples_of(passes).size;
}

Update prepare_update(Executor& executor, const Step& step, Transport& transport) {
  Update out;
  out.ran = executor.run_combine();
  if (step.passes().clips) {
    const double mine = executor.squared_norm();
    double sum = 0;
    for (const double its : control::all_of(transport, mine)) sum += its;  // added in rank order
    out.gradient_norm = std::sqrt(sum);
    out.factor = std::min(1.0, step.scalars().clip_norm / (*out.gradient_norm + 1e-6));
  }
  return out;
}

}  // namespace motley
