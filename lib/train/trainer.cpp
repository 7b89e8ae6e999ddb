// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <motley/error.h>
#include <motley/trainer.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>

#include "base/at.h"
#include "base/clock.h"
#include "base/hash.h"
#include "mesh/control.h"
#include "plan/plan_fields.h"
#include "run/copies.h"
#include "run/fits_hosts.h"
#include "run/step_trace.h"
#include "train/update.h"

namespace motley {

namespace {

// Every rank's value of a plain struct, on every rank.
template <class T>
std::vector<T> exchange(Transport& transport, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> out;
  for (const auto& bytes : transport.gather_all(std::as_bytes(std::span(&mine, 1)))) {
    check(bytes.size() == sizeof(T), "all ranks send the same control message");
    std::memcpy(&out.emplace_back(), bytes.data(), sizeof(T));
  }
  return out;
}

// Where a tensor stands in the order of a step: inputs and parameters first, then as the passes write them.
int order_of(const Passes& passes, int tensor) {
  const auto writers = passes.writers_of(tensor);
  return writers.empty() ? -1 : writers.front();
}

void compare_plans(const Runtime& rt, Transport& transport, const Plan& plan) {
  if (plan.mesh().ranks() != rt.ranks())
    throw UserError("the plan is for " + std::to_string(plan.mesh().ranks()) + " ranks, but " + std::to_string(rt.ranks()) +
                    " run");
  struct Hashes {
    std::uint64_t problem, plan;
  };
  const auto all = exchange(transport, Hashes{plan.hash(), hash_of(plan.data())});
  for (std::size_t r = 1; r < all.size(); r++) {
    const std::string who = "rank " + std::to_string(r);
    if (all[r].problem != all[0].problem)
      throw UserError(who + " has another step, mesh or layout than rank 0; give every rank the same files");
    if (all[r].plan != all[0].plan) throw UserError(who + " planned otherwise than rank 0; give every rank the same profile");
  }
}

}  // namespace

std::string StepReport::line() const {
  const std::string out = fmt::format("step {}  loss {:.4f}  {:.1f} ms", step, loss, 1e3 * measured_seconds);
  return predicted_seconds ? out + fmt::format(" (predicted {:.1f} ms)", 1e3 * *predicted_seconds) : out;
}

struct Trainer::Impl {
  Runtime& rt;
  const Plan plan;
  const Program program;
  const std::unique_ptr<Backend> reference;  // f64 plans run on it
  Backend& backend;
  State state;
  StepTrace trace;
  Executor executor;
  Copies copies;
  const Index compare_every;
  const Index samples = micro_batch_size(plan.data().passes);  // of a micro-batch
  Index step = 0, finite = 0;                                  // finite: the last one before which parameters were seen to be so
  bool wants_stop = false, stopped = false;

  Impl(Runtime& runtime, const Plan& p, const TrainerOptions& options)
      : rt(runtime),
        plan((compare_plans(runtime, runtime.transport(), p), p)),
        program(fits_hosts(runtime.transport(), plan, compile(plan, runtime.rank(), {.hosts = runtime.transport().hosts()}))),
        reference(plan.data().dtype == DType::f64 ? reference_backend() : nullptr),
        backend(reference ? *reference : runtime.backend(plan.mesh())),
        state(plan, program.rank, options.seed, backend.device_memory()),
        trace(program.steps.size()),
        executor(program, backend, runtime.transport(), state),
        copies(plan, program, executor, runtime.transport()),
        compare_every(options.compare_copies_every) {
    if (!plan.data().passes.trains)
      throw UserError("a Trainer runs a step made by training(loss, optimizer), this one is inference");
    executor.record_into(&trace);
  }

  // Of one micro-batch.
  void feed(const std::map<std::string, ReadBox>& feeds, Index micro_batch) {
    for (const auto& [name, read] : feeds) {
      const int tensor = plan.data().passes.find(name);
      const TensorRole role = tensor < 0 ? TensorRole::activation : at(plan.data().passes.tensors, tensor).role;
      if (role != TensorRole::input && role != TensorRole::label)
        throw UserError("\"" + name + "\" is fed, but it is not an input of this step");
    }
    executor.feed([&](const std::string& name, const Box& box, std::span<std::byte> out) {
      const auto found = feeds.find(name);
      if (found == feeds.end()) throw UserError("input \"" + name + "\" is not fed; name it in Trainer::step");
      micro_batch_of(found->second, micro_batch, samples)(box, out);
    });
  }

  struct Loss {
    double value = 0;
    std::int32_t here = 0;
  };
  // Adds a micro-batch's, on the rank that has it. After run_forward().
  void add_loss(Loss& sum) const {
    const int loss = plan.data().passes.loss;
    for (const Shard& h : at(plan.data().tensors, loss).owners)
      if (h.rank == rt.rank()) sum = {sum.value + executor.read(at(program.main_buffer, loss), h.box).front(), 1};
  }
  static double loss_of(const std::vector<control::Gathering::Frame>& all) {
    for (const control::Gathering::Frame& frame : all) {
      Loss its;
      std::memcpy(&its, frame.bytes.data(), sizeof its);
      if (its.here != 0) return its.value;
    }
    throw InternalError("no rank holds the loss");
  }

  // Collective; throws on all ranks. The weights are still those before the step.
  [[noreturn]] void refuse_loss(const std::map<std::string, ReadBox>& feeds) {
    int first = -1;
    for (Index m = 0; m < program.micro_batches; m++) {
      feed(feeds, m);
      const int its = executor.first_not_finite();
      if (first < 0) first = its;
    }
    refuse_values("loss", exchange(rt.transport(), first));
  }

  // Collective; throws on all ranks where an owner has a value that is not finite.
  void refuse_parameters() {
    const auto all = exchange(rt.transport(), executor.first_parameter_not_finite());
    if (std::any_of(all.begin(), all.end(), [](int tensor) { return tensor >= 0; }))
      refuse_values("parameters", all, " (finite at step " + std::to_string(finite) + ")");
    finite = step;
  }

  // all: by rank, the first tensor that is not finite there; -1: none.
  [[noreturn]] void refuse_values(const std::string& what, const std::vector<int>& all, const std::string& since = "") {
    const Passes& passes = plan.data().passes;
    int first = -1, rank = 0;
    for (std::size_t r = 0; r < all.size(); r++) {
      if (all[r] < 0 || (first >= 0 && order_of(passes, all[r]) >= order_of(passes, first))) continue;
      first = all[r];
      rank = static_cast<int>(r);
    }
    const std::string name = first < 0 ? "unknown" : "\"" + at(passes.tensors, first).name + "\" on rank " + std::to_string(rank);
    throw LossNotFinite(what + " not finite at step " + std::to_string(step) + since + "; first bad tensor: " + name +
                            "; try a smaller learning rate, or look for bad values in the data",
                        rank);
  }

  // Throws on all ranks where some copies differ.
  void refuse_copies(const std::vector<CopyDifference>& differences) const {
    if (differences.empty()) return;
    std::vector<std::string> names;
    for (const CopyDifference& d : differences)
      if (const std::string& name = at(plan.data().passes.tensors, d.tensor).name; names.empty() || names.back() != name)
        names.push_back(name);
    throw CopiesDiffer("copies differ at step " + std::to_string(step) + ": " + to_text(differences, plan) +
                           "; every copy has its owner's bits, so memory, a link or a kernel is damaged: results since the last "
                           "comparison are not to be trusted",
                       differences.front().reader, std::move(names));
  }

  void compare_copies() {
    rt.phase("comparing copies");
    refuse_parameters();
    executor.run_forward([this](int i) { copies.after_step(i); });
    refuse_copies(copies.compare());
  }

  StepReport run(const std::map<std::string, ReadBox>& feeds) {
    if (stopped) throw Stopped("stopped on request after step " + std::to_string(step));
    step++;
    rt.phase("step " + std::to_string(step));
    trace.begin(step);
    const double begin = seconds_now();
    double feeding = 0;
    Ran all;
    Loss sum;
    std::optional<control::Gathering> losses;  // the sum goes to all ranks while the last micro-batch's gradients are computed
    for (Index m = 0; m < program.micro_batches; m++) {
      const double start = seconds_now();
      feed(feeds, m);
      const double fed = seconds_now();
      feeding += fed - start;
      trace.part(TracePart::feed, start, fed);
      const bool compares = m == 0 && compare_every > 0 && step % compare_every == 0;
      all += compares ? executor.run_forward([this](int i) { copies.after_step(i); }) : executor.run_forward();
      if (compares) {
        refuse_parameters();
        refuse_copies(copies.compare());
      }
      add_loss(sum);
      if (m + 1 == program.micro_batches)
        losses.emplace(rt.transport(), control::kVerdict, std::as_bytes(std::span(&sum, 1)), sizeof sum);
      all += executor.run_backward();
    }
    const double gradients = seconds_now();
    StepReport report;
    report.loss = loss_of(losses->finish("the loss"));
    if (!std::isfinite(report.loss)) refuse_loss(feeds);
    const Update update = prepare_update(executor, plan.step(), rt.transport(), step);
    if (update.gradient_norm && !std::isfinite(*update.gradient_norm))
      refuse_values("norm of the gradients", exchange(rt.transport(), executor.first_gradient_not_finite()));
    const double agreed = seconds_now();
    trace.part(TracePart::loss, gradients, agreed);
    all += update.ran;
    all += executor.run_update();
    const double end = seconds_now();
    report_all(report, {.seconds = end - begin - feeding,
                        .busy_seconds = all.busy_seconds,
                        .waiting_seconds = all.waiting_seconds + agreed - gradients - update.ran.seconds,
                        .feed_seconds = feeding,
                        .bytes_received = all.bytes_received});
    report.learning_rate = update.learning_rate;
    report.gradient_norm = update.gradient_norm;
    trace.part(TracePart::figures, end, seconds_now());
    trace.end();
    stopped = report.stop;
    report.step = step;
    report.predicted_seconds = plan.data().step_seconds;
    return report;
  }

  // Every rank's figures of the step, on every rank.
  void report_all(StepReport& report, const RankStep& did) {
    struct End {
      RankStep did;
      std::int32_t stop;
    };
    const End mine{did, rt.stop_requested() || wants_stop};
    for (const End& end : exchange(rt.transport(), mine)) {
      report.measured_seconds = std::max(report.measured_seconds, end.did.seconds);
      report.bytes_received += end.did.bytes_received;
      report.stop = report.stop || end.stop != 0;
      report.ranks.push_back(end.did);
    }
    for (RankStep& each : report.ranks) each.waiting_seconds += report.measured_seconds - each.seconds;  // for the slowest
  }
};

Trainer::Trainer(Runtime& rt, const Plan& plan, const TrainerOptions& options) : impl_(new Impl(rt, plan, options)) {}
Trainer::~Trainer() = default;

StepReport Trainer::step(std::initializer_list<Feed> feeds) {
  return step(std::vector<Feed>(feeds));
}

StepReport Trainer::step(const std::vector<Feed>& feeds) {
  std::map<std::string, ReadBox> named;
  for (const Feed& f : feeds)
    if (!named.emplace(f.tensor.name(), f.data).second) throw UserError("\"" + f.tensor.name() + "\" is fed twice");
  return step_named(named);
}

StepReport Trainer::step_named(const std::map<std::string, ReadBox>& feeds) {
  return impl_->run(feeds);
}
void Trainer::compare_copies() {
  impl_->compare_copies();
}
void Trainer::ask_to_stop() {
  impl_->wants_stop = true;
}
Executor& Trainer::executor() {
  return impl_->executor;
}
State& Trainer::state() {
  return impl_->state;
}
const Program& Trainer::program() const {
  return impl_->program;
}
const StepTrace& Trainer::trace() const {
  return impl_->trace;
}

}  // namespace motley
