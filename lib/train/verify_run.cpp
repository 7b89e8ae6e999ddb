// SPDX-License-Identifier: Apache-2.0
#include "train/verify_run.h"

#include <motley/error.h>
#include <motley/executor.h>
#include <motley/state.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/at.h"
#include "base/box_rows.h"
#include "base/copy_box.h"
#include "graph/magnitudes.h"
#include "graph/update_form.h"
#include "kernels/operands.h"
#include "plan/plan_data.h"
#include "plan/planner.h"
#include "run/fits_hosts.h"
#include "train/keys.h"
#include "train/update.h"

namespace motley {

std::vector<double> nudged(std::vector<double> values, double by) {
  for (std::size_t i = 0; i < values.size(); i++) values[i] *= 1 + (i % 3 == 0 ? -by : by);
  return values;
}

Batch first_batch(const VerifyInput& in, Index batch) {
  return batch_of(in.data, Order(in.data->samples(), batch, in.seed).batch_of(0), 0, 0);
}

namespace {

// Operands that a gradient's formula compares to choose a value: it may jump there.
std::vector<int> jumps_of(const Formula& f) {
  std::vector<int> out;
  for (const Instruction& s : f.code) {
    if (s.op != Opcode::select) continue;
    const Instruction& condition = at(f.code, s.a);
    if (condition.op != Opcode::less && condition.op != Opcode::less_equal) continue;
    for (const int r : {condition.a, condition.b})
      if (at(f.code, r).op == Opcode::operand) out.push_back(at(f.code, r).a);
  }
  return out;
}

// Tensors at whose values gradients jump: what relu makes, what max_pool2d reads.
std::set<int> deciding_tensors(const Passes& passes) {
  std::set<int> out;
  const auto decides = [&](int tensor) {
    if (at(passes.tensors, tensor).role == TensorRole::activation) out.insert(tensor);
  };
  for (const Pass& p : passes.passes) {
    if (at(passes.tensors, p.writes.tensor).role == TensorRole::gradient)
      for (const int k : jumps_of(p.formula)) decides(at(p.reads, k).tensor);
    if (p.op == KernelOp::max_pool2d && p.kind == PassKind::forward) decides(p.reads[0].tensor);
  }
  return out;
}

// Takes over the other run's values where they agree within so much of the largest. A row that no one reads is in neither.
void take_decisions(Executor& executor, const Program& program, int buffer, const WholeTensor& other, double within) {
  const Box box = at(program.buffers, buffer).box;
  std::vector<double> values = executor.read(buffer, box);
  double most = 0;
  for (double v : values) most = std::max(most, std::abs(v));
  const Box all = whole(other.shape);
  const std::vector<Index> strides = row_major(all);
  const double* const theirs = other.values.data() + item_of(all, strides, box);
  for_each_row(extents_of(box), row_major(box), strides, [&](const BoxRow& row) {
    for (Index i = 0; i < row.length; i++) {
      double& v = values[static_cast<std::size_t>(row.a + i * row.a_step)];
      if (const double its = theirs[row.b + i * row.b_step]; std::abs(v - its) <= within * most) v = its;
    }
  });
  executor.write(buffer, box, values);
}

// Micro-batches one after another: along the dim that counts the samples, the first of `samples`.
void append(WholeTensor& all, WholeTensor one, const Shape& samples) {
  if (all.values.empty() || samples.rank() == 0) {
    all.shape = one.shape;
    all.name = one.name;
    all.values.insert(all.values.end(), one.values.begin(), one.values.end());
    return;
  }
  const std::size_t over = one.shape.position(samples[0].name);
  std::size_t inner = 1, outer = 1;
  for (std::size_t d = 0; d < one.shape.rank(); d++) (d < over ? outer : inner) *= static_cast<std::size_t>(one.shape[d].size);
  const std::size_t before = all.values.size() / outer;
  std::vector<double> values;
  for (std::size_t k = 0; k < outer; k++) {
    auto take = [&](const std::vector<double>& from, std::size_t count) {
      values.insert(values.end(), from.begin() + static_cast<std::ptrdiff_t>(k * count),
                    from.begin() + static_cast<std::ptrdiff_t>((k + 1) * count));
    };
    take(all.values, before);
    take(one.values, inner);
  }
  std::vector<Dim> dims = all.shape.dims();
  dims[over].size += one.shape[over].size;
  all.shape = Shape(dims);
  all.values = std::move(values);
}

// Micro-batch m of step s.
void feed(Executor& executor, const Passes& passes, const VerifyInput& in, const std::map<std::string, ReadBox>& feeds, Index s,
          Index m) {
  executor.feed([&](const std::string& name, const Box& box, std::span<std::byte> to) {
    const auto its = feeds.find(fed_from(passes, name));
    fed_by(passes, name, its != feeds.end() ? its->second : random_keys(in.seed, name, s + 1), m)(box, to);
  });
}

}  // namespace

void nudge_stored(Executor& executor, const Program& program, int step, double by) {
  const auto* run = std::get_if<RunKernel>(&at(program.steps, step).what);
  if (run == nullptr || run->purpose != Purpose::pass) return;
  for (std::size_t k = run->operands.size() - result_count(run->spec); k < run->operands.size(); k++) {
    const int buffer = run->operands[k].buffer;
    const Buffer& b = at(program.buffers, buffer);
    if (b.dtype == DType::f32 || b.dtype == DType::bf16) executor.write(buffer, b.box, nudged(executor.read(buffer, b.box), by));
  }
}

std::map<std::string, RunRecord::Summed> summed_magnitudes(const Plan& plan, Backend& backend, const VerifyInput& in,
                                                           const std::function<void(const char*)>& before) {
  const Magnitudes with = with_magnitudes(plan.data().passes);
  const Plan all = plan_from(plan.step(), plan.mesh(), plan_with(with.passes, plan.mesh(), {}, {}, DType::f64));
  const Passes& passes = all.data().passes;
  const auto transport = std::move(in_memory(1).front());
  const Program program = compile(all, 0, {.fuse = false, .fuse_maps = false});
  State state(all, 0, in.seed, backend.device_memory());
  Executor executor(program, backend, *transport, state);
  executor.on_step(before);
  const auto feeds = feeds_from(first_batch(in, micro_batch_size(passes) * passes.accumulate), in.names, passes);
  std::map<std::string, std::vector<double>> added;
  for (Index m = 0; m < passes.accumulate; m++) {
    feed(executor, passes, in, feeds, 0, m);
    executor.run_forward();
    executor.run_backward();
    for (const auto& [gradient, sums] : with.sums_of) {
      const WholeTensor its = gather_output(all, program, executor, *transport, sums.tensor, Gathered::on_rank_0);
      std::vector<double>& sum = added[at(passes.tensors, at(passes.tensors, gradient).of).name];
      sum.resize(its.values.size());
      for (std::size_t i = 0; i < sum.size(); i++) sum[i] += its.values[i];
    }
  }
  executor.drop_micro_batches();
  std::map<std::string, RunRecord::Summed> out;
  for (const auto& [gradient, sums] : with.sums_of) {
    const std::string& name = at(passes.tensors, at(passes.tensors, gradient).of).name;
    for (const double sum : added[name]) out[name].most = std::max(out[name].most, sum);
    out[name].complete = sums.complete;
  }
  return out;
}

Program compiled(const Plan& plan, const Transport& transport, Recorded record, Kernels kernels) {
  const Passes& passes = plan.data().passes;
  CompileOptions options{.keep_gradients = true, .keep = {passes.logits()}, .hosts = transport.hosts()};
  options.fuse = options.fuse_maps = kernels == Kernels::fused;
  if (record == Recorded::decisions)
    for (const int tensor : deciding_tensors(passes)) options.keep.push_back(tensor);
  return compile(plan, transport.rank(), options);
}

RunRecord run_steps(const Plan& plan, Backend& backend, Transport& transport, const VerifyInput& in,
                    const std::function<void(const char*)>& before, Recorded record, const RunRecord* like, const Nudge& nudge,
                    Kernels kernels) {
  const Passes& passes = plan.data().passes;
  const std::set<int> deciding = deciding_tensors(passes);
  const double like_within = stores_bf16(*in.step) ? kBf16Decisions : kF32Values;
  const int logits_tensor = passes.logits();
  const Program program = fits_hosts(transport, plan, compiled(plan, transport, record, kernels));
  State state(plan, program.rank, in.seed, backend.device_memory());
  Executor executor(program, backend, transport, state);
  executor.on_step(before);
  for (const Slice& s : program.slices) {
    if (nudge.parameters == 0) break;
    executor.write(s.value, s.box, nudged(executor.read(s.value, s.box), nudge.parameters));
  }
  auto parameters = [&](Part part) {
    std::map<std::string, WholeTensor> out;
    for (int p : passes.parameters) {
      if (part == Part::gradient && !passes.is_trained(p)) continue;
      WholeTensor whole = gather_parameter(plan, program, executor, transport, p, part, Gathered::on_rank_0);
      out.emplace(whole.name, std::move(whole));
    }
    return out;
  };
  RunRecord out;
  const std::vector<std::string>& slots = passes.optimizer.slots;
  out.moves_by_rounding = std::find(slots.begin(), slots.end(), "square") != slots.end();
  out.weights_before = parameters(Part::value);
  const Shape& labels = at(passes.tensors, passes.find(in.names.label)).shape;
  const Index samples = micro_batch_size(passes);
  const auto feeds = feeds_from(first_batch(in, samples * passes.accumulate), in.names, passes);
  for (Index s = 0; s < in.steps; s++) {
    WholeTensor loss, logits;
    for (Index m = 0; m < passes.accumulate; m++) {
      feed(executor, passes, in, feeds, s, m);
      const std::size_t number = static_cast<std::size_t>(s * passes.accumulate + m);  // of this micro-batch
      executor.run_forward([&](int step) {
        if (nudge.stored != 0) nudge_stored(executor, program, step, nudge.stored);
        const auto* run = std::get_if<RunKernel>(&at(program.steps, step).what);
        if (like == nullptr || run == nullptr) return;
        for (int t : deciding) {
          const int buffer = run->operands.back().buffer;
          const std::vector<Stored>& stored = at(program.stored, t);
          const auto other = at(like->decided, number).find(at(passes.tensors, t).name);
          if (std::any_of(stored.begin(), stored.end(), [&](const Stored& of) { return of.buffer == buffer; }) &&
              other != at(like->decided, number).end())
            take_decisions(executor, program, buffer, other->second, like_within);
        }
      });
      if (record == Recorded::decisions) {
        out.decided.emplace_back();
        for (int t : deciding) {
          WholeTensor whole = gather_output(plan, program, executor, transport, t, Gathered::on_rank_0);
          out.decided.back().emplace(whole.name, std::move(whole));
        }
      }
      append(loss, gather_output(plan, program, executor, transport, passes.outputs.front(), Gathered::on_rank_0), {});
      if (s == 0) append(logits, gather_output(plan, program, executor, transport, logits_tensor, Gathered::on_rank_0), labels);
      executor.run_backward([&](int step) {
        if (nudge.stored != 0) nudge_stored(executor, program, step, nudge.stored);
      });
    }
    const UpdateScalars& scalars = plan.step().scalars();
    const double factor = prepare_update(executor, plan.step(), transport).factor;
    executor.set_update(scalars.schedule.at(scalars.learning_rate, s + 1), factor, s + 1);
    if (s == 0) out.gradients = parameters(Part::gradient);
    executor.run_update();
    out.losses.push_back(std::accumulate(loss.values.begin(), loss.values.end(), 0.0));
    if (s > 0) continue;
    loss.values = {out.losses.front()};
    out.loss = std::move(loss);
    out.logits = std::move(logits);
  }
  out.weights_after = parameters(Part::value);
  for (const StateEntry& e : state.entries())
    if (e.slot == kAverage)
      out.averages_after[e.name] = {e.name, e.shape,
                                    put_together(e.shape, state.shard(e.name, kAverage), transport, Gathered::on_rank_0)};
  return out;
}

}  // namespace motley
