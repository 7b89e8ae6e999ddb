// SPDX-License-Identifier: Apache-2.0
#include "train/real_steps.h"

#include <fmt/format.h>
#include <motley/error.h>
#include <motley/executor.h>
#include <motley/state.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <random>

#include "base/at.h"
#include "base/clock.h"
#include "base/core_use.h"
#include "base/quantile.h"
#include "mesh/control.h"
#include "plan/plan_data.h"
#include "program/memory.h"
#include "run/agreed.h"
#include "run/quiet.h"
#include "run/start.h"
#include "run/trace_summary.h"
#include "train/plan_on_rank.h"

namespace motley {

namespace {

constexpr int kLeastStepRounds = 3, kMostStepRounds = 12;
constexpr int kWarmUp = 1, kLeastSteps = 3, kMostSteps = 20;
constexpr double kStepsPatience = 3;   // times the limit: for other processes to leave the cores
constexpr double kOver = 1.2;          // times the limit: more is not begun
constexpr double kVisitSeconds = 0.3;  // of steps in one visit, where these are short

// Floats in [0, 1), numbers below the input's limit: whatever a loss reads, it is defined.
std::map<std::string, ReadBox> synthetic_inputs(const Passes& passes, DType dtype) {
  std::map<std::string, ReadBox> out;
  for (const StepTensor& t : passes.tensors) {
    if ((t.role != TensorRole::input && t.role != TensorRole::label) || t.fed_from >= 0) continue;
    out[t.name] = [type = dtype_of(t, dtype), below = std::max<Index>(t.below, 1)](const Box&, std::span<std::byte> to) {
      std::minstd_rand random;  // NOLINT: the same values each time
      std::uniform_real_distribution<double> uniform;
      const auto fill = [&]<class T>(T*, double most) {
        for (std::size_t k = 0; k + sizeof(T) <= to.size(); k += sizeof(T)) {
          const T value = static_cast<T>(most * uniform(random));
          std::memcpy(to.data() + k, &value, sizeof value);
        }
      };
      if (type == DType::i32) return fill(static_cast<std::int32_t*>(nullptr), static_cast<double>(below));
      if (type == DType::f64) return fill(static_cast<double*>(nullptr), 1);
      fill(static_cast<float*>(nullptr), 1);
    };
  }
  return out;
}

// A plan with parameters and inputs of its own. Collective.
class Visit {
 public:
  // AgreedError: it does not fit.
  Visit(Runtime& rt, const Plan& plan) : rt_(rt) {
    agreed(rt.transport(), [&] { on_rank_.emplace(rt, plan, Parameters::to_be_made); });
    Backend& backend = on_rank_->backend();
    agreed(rt.transport(), [&] {
      const Index needed = at(on_rank_->plan.data().predicted, rt.rank()).memory_bytes;
      if (backend.device_memory() != nullptr && needed > backend.memory_bytes())
        throw DeviceError(fmt::format("{} bytes are needed, {} are there", needed, backend.memory_bytes()));
      state_.emplace(on_rank_->plan, rt.rank(), 1, backend.device_memory());
    });
    executor_.emplace(on_rank_->program, backend, rt.transport(), *state_);
    inputs_ = synthetic_inputs(on_rank_->plan.data().passes, on_rank_->plan.data().dtype);
  }

  StepVisit run() {
    for (int s = 0; s < kWarmUp; s++) step();
    const double once = slowest(step());
    const int steps = std::clamp(static_cast<int>(std::ceil(kVisitSeconds / std::max(once, 1e-6))), kLeastSteps, kMostSteps);
    const CoreUse cores(allowed_cores());
    std::vector<double> all;
    for (int s = 0; s < steps; s++) all.push_back(step());
    const double others = cores.others_share().value_or(0);
    return {slowest(quantile(all, 0.5)), slowest(others) > kDisturbed};
  }

 private:
  double slowest(double mine) const {
    const auto all = control::all_of(rt_.transport(), mine);
    return *std::max_element(all.begin(), all.end());
  }
  // One step without its inputs.
  double step() {
    double out = 0;
    for (Index m = 0; m < on_rank_->program.micro_batches; m++) {
      on_rank_->feed(*executor_, inputs_, m);
      out += executor_->run_forward().seconds + executor_->run_backward().seconds;
    }
    return out + executor_->run_combine().seconds + executor_->run_update().seconds;
  }

  Runtime& rt_;
  std::optional<PlanOnRank> on_rank_{};
  std::optional<State> state_{};
  std::optional<Executor> executor_{};
  std::map<std::string, ReadBox> inputs_{};
};

class Rounds {
 public:
  Rounds(Runtime& rt, const std::vector<Plan>& plans, double seconds, const std::function<void(const std::string&)>& say)
      : rt_(rt), plans_(plans), limit_(seconds), say_(say), out_(plans.size()), cost_(plans.size(), 0.0) {}

  std::vector<StepRounds> run() {
    double each = 0;  // seconds of a round, with what binding takes
    for (std::size_t k = 0; k < plans_.size(); k++) {
      if (kLeastStepRounds * (each + each / std::max(ran_, 1)) > limit_) break;  // as long as those before it
      visit(k);
      if (k == 0 && out_[k].empty()) return out_;  // nothing to compare with
      if (kLeastStepRounds * (each + cost_[k]) > kOver * limit_) {
        ran_ -= out_[k].empty() ? 0 : 1;
        out_[k].clear();
        break;
      }
      each += cost_[k];
    }
    if (ran_ < 2) return std::vector<StepRounds>(plans_.size());
    for (int round = 1; round < kMostStepRounds && (round < kLeastStepRounds || used() + each <= limit_); round++)
      for (std::size_t k = 0; k < plans_.size(); k++) {
        const std::size_t turn = round % 2 == 0 ? k : plans_.size() - 1 - k;  // what a plan leaves in caches hits each neighbour
        if (!out_[turn].empty()) visit(turn);
      }
    return out_;
  }

 private:
  // The same on every rank, so that all take the same decisions.
  double used() const { return control::all_of(rt_.transport(), seconds_now() - start_ - waited_).front(); }
  bool has_patience() const { return own_cores_ && control::all_of(rt_.transport(), waited_).front() < kStepsPatience * limit_; }

  // A visit that other processes disturb is made again when they have left the ranks' cores, as long as there is patience.
  StepVisit quiet_visit(Visit& visit) {
    for (;;) {
      const double began = seconds_now();
      const StepVisit out = visit.run();
      if (!out.disturbed || !has_patience()) return out;
      if (say_) say_(kWaitsForOthers);
      wait_for_quiet(rt_.transport(), kStepsPatience * limit_ - waited_);
      waited_ += seconds_now() - began;
    }
  }

  void visit(std::size_t k) {
    if (say_) say_(fmt::format("running real steps of {} plans (budget {:.0f} s)", plans_.size(), limit_));
    const double before = used();
    try {
      Visit visit(rt_, plans_[k]);
      out_[k].push_back(quiet_visit(visit));
      ran_ += out_[k].size() == 1 ? 1 : 0;
    } catch (const AgreedError& e) {
      if (e.code() != Exit::device) throw;
    }
    cost_[k] = used() - before;
  }

  Runtime& rt_;
  const std::vector<Plan>& plans_;
  const double limit_;
  const std::function<void(const std::string&)>& say_;
  std::vector<StepRounds> out_;
  std::vector<double> cost_;
  int ran_ = 0;
  double waited_ = 0;  // seconds beside the limit
  const bool own_cores_ = has_own_cores(rt_.transport());
  const double start_ = seconds_now();
};

bool has_quiet(const StepRounds& rounds) {
  return std::count_if(rounds.begin(), rounds.end(), [](const StepVisit& v) { return !v.disturbed; }) >= 2;
}

}  // namespace

std::vector<double> counted_seconds(const StepRounds& rounds) {
  std::vector<double> out;
  for (const StepVisit& visit : rounds)
    if (!visit.disturbed || !has_quiet(rounds)) out.push_back(visit.seconds);
  return out;
}

std::vector<double> over_reference(const StepRounds& plan, const StepRounds& reference) {
  const bool all = !has_quiet(plan) || !has_quiet(reference);
  std::vector<double> counted = counted_seconds(reference), out;
  const double typical = quantile(counted, 0.5);
  for (std::size_t r = 0; r < plan.size(); r++)
    if (all || !plan[r].disturbed)
      out.push_back(plan[r].seconds / (r < reference.size() && (all || !reference[r].disturbed) ? reference[r].seconds : typical));
  return out;
}

std::vector<StepRounds> real_steps(Runtime& rt, const std::vector<Plan>& plans, double seconds,
                                   const std::function<void(const std::string&)>& say) {
  return Rounds(rt, plans, seconds, say).run();
}

}  // namespace motley
