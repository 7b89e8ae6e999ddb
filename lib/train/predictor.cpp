// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>
#include <motley/predictor.h>

#include <algorithm>

#include "base/at.h"
#include "graph/update_form.h"
#include "plan/plan_data.h"
#include "run/agreed.h"
#include "run/gather.h"
#include "run/planned.h"
#include "train/plan_on_rank.h"

namespace motley {

struct Predictor::Impl {
  Runtime& rt;
  const PlanOnRank on_rank;
  Executor executor;
  bool has_run = false;

  Impl(Runtime& runtime, const Plan& plan, State& state, PredictedWeights weights)
      : rt(runtime),
        on_rank((agreed(runtime.transport(), [&] { refuse_training(plan); }), runtime), plan, Parameters::there),
        executor((refuse_state(state), on_rank.program), on_rank.backend(), runtime.transport(), state,
                 weights == PredictedWeights::averaged ? kAverage : "") {
    same_settings(rt.transport(), "predicts", {weights == PredictedWeights::averaged ? "averaged weights" : "current weights"});
  }

  // Collective: on all ranks, where one of them stores other boxes.
  void refuse_state(const State& state) const {
    const Program& program = on_rank.program;
    agreed(rt.transport(), [&] {
      for (const Slice& s : program.slices) static_cast<void>(state.address(s.name, "", at(program.buffers, s.value)));
    });
  }

  // make(): the feeds, by the inputs' names. Collective.
  template <class Make>
  Ran run(Make&& make) {
    agreed(rt.transport(), [&] {
      const std::map<std::string, ReadBox>& feeds = make();
      on_rank.check_feeds(feeds);
      on_rank.feed(executor, feeds);
    });
    const Ran ran = executor.run();
    has_run = true;
    return ran;
  }

  static void refuse_training(const Plan& plan) {
    if (plan.data().passes.trains)
      throw UserError("a Predictor runs a step made by inference(outputs), this one trains; run it with a Trainer");
  }
};

Predictor::Predictor(Runtime& rt, const Plan& plan, State& state, PredictedWeights weights)
    : impl_(new Impl(rt, plan, state, weights)) {}
Predictor::~Predictor() = default;

Ran Predictor::run(std::initializer_list<Feed> feeds) {
  return run(std::vector<Feed>(feeds));
}

Ran Predictor::run(const std::vector<Feed>& feeds) {
  return impl_->run([&] { return impl_->on_rank.by_name(feeds); });
}

Ran Predictor::run_named(const std::map<std::string, ReadBox>& feeds) {
  return impl_->run([&]() -> const std::map<std::string, ReadBox>& { return feeds; });
}

std::vector<double> Predictor::get(const std::string& output) const {
  const PlanData& data = plan().data();
  const auto& outputs = data.passes.outputs;
  const int tensor = data.passes.find(output);
  if (std::find(outputs.begin(), outputs.end(), tensor) == outputs.end())
    throw UserError("\"" + output + "\" is not an output of this step; name it in inference()");
  if (!impl_->has_run) throw UserError("\"" + output + "\" has no values before the first run()");
  return gather_output(plan(), impl_->on_rank.program, impl_->executor, impl_->rt.transport(), tensor).values;
}

Index Predictor::memory_bytes() const {
  const Program& program = impl_->on_rank.program;
  return impl_->executor.memory_bytes() + memory_of(program, 0, Parameters::there) - memory_of(program, 0);
}

const Plan& Predictor::plan() const {
  return impl_->on_rank.plan;
}

}  // namespace motley
