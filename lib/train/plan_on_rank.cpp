// SPDX-License-Identifier: Apache-2.0
#include "train/plan_on_rank.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/error.h>

#include <algorithm>
#include <cstring>

#include "base/at.h"
#include "base/hash.h"
#include "mesh/control.h"
#include "plan/plan_fields.h"
#include "run/agreed.h"
#include "run/planned.h"
#include "train/batch_reader.h"
#include "train/keys.h"
#include "train/update.h"

namespace motley {

namespace {

// Rank 0's plan, if ranks on different hosts have computed different ones.
Plan of_all(const Runtime& rt, Transport& transport, const Plan& plan) {
  agreed(transport, [&] {
    if (plan.mesh().ranks() != rt.ranks())
      throw UserError("the plan is for " + std::to_string(plan.mesh().ranks()) + " ranks, but " + std::to_string(rt.ranks()) +
                      " run");
  });
  same_everywhere(transport, plan.hash(), "another step, mesh or layout");
  const auto hashes = control::all_of(transport, hash_of(plan.data()));
  const bool same = std::all_of(hashes.begin(), hashes.end(), [&](auto hash) { return hash == hashes.front(); });
  return same ? plan : planned(transport, plan.step(), plan.mesh(), [&] { return plan; });
}

bool is_fed(const StepTensor& t) {
  return t.role == TensorRole::input || t.role == TensorRole::label;
}

// Checks that numbers that name rows or classes are below the number of these, or the ignored one. UserError (65).
void check_numbers(const StepTensor& tensor, std::span<const std::byte> out) {
  std::int32_t number = 0;
  for (std::size_t k = 0; tensor.below > 0 && k < out.size(); k += sizeof number) {
    std::memcpy(&number, out.data() + k, sizeof number);
    if ((number >= 0 && number < tensor.below) || (tensor.ignored && number == *tensor.ignored)) continue;
    throw UserError("\"" + tensor.name + "\" holds " + std::to_string(number) + "; expected " +
                        (tensor.role == TensorRole::label ? "classes" : "rows") + " 0 to " + std::to_string(tensor.below - 1) +
                        (tensor.ignored ? " or the ignored value " + std::to_string(*tensor.ignored) : ""),
                    Exit::data);
  }
}

}  // namespace

PlanOnRank::PlanOnRank(Runtime& rt, const Plan& p, Parameters parameters)
    : plan(of_all(rt, rt.transport(), p)),
      program(fits_hosts(rt.transport(), plan, compile(plan, rt.rank(), {.hosts = rt.transport().hosts()}), parameters)),
      f64_(plan.data().dtype == DType::f64 ? f64_backend() : nullptr),
      backend_(f64_ ? f64_.get() : &rt.backend(plan.mesh())) {}

std::map<std::string, ReadBox> PlanOnRank::by_name(const std::vector<Feed>& feeds) const {
  const Passes& passes = plan.data().passes;
  std::map<std::string, ReadBox> named;
  for (const Feed& f : feeds) {
    const std::string& name = f.tensor.name();
    if (!named.emplace(name, f.data).second) throw UserError("\"" + name + "\" is fed twice");
    const int tensor = passes.find(name);
    if (tensor < 0) continue;  // check_feeds() says so
    std::vector<Index> sizes, expected;
    for (const Dim& d : f.tensor.shape().dims()) sizes.push_back(d.size);
    for (const Dim& d : at(passes.tensors, tensor).shape.dims()) expected.push_back(d.size);
    if (!expected.empty()) expected.front() *= passes.accumulate;
    if (sizes != expected)
      throw UserError(fmt::format("\"{}\" is fed as a tensor of sizes [{}], the step's has [{}]; feed the tensor of its graph",
                                  name, fmt::join(sizes, ", "), fmt::join(expected, ", ")));
  }
  return named;
}

void PlanOnRank::check_feeds(const std::map<std::string, ReadBox>& feeds) const {
  const Passes& passes = plan.data().passes;
  for (const auto& [name, read] : feeds) {
    const int tensor = passes.find(name);
    if (tensor < 0 || !is_fed(at(passes.tensors, tensor)))
      throw UserError("\"" + name + "\" is fed, but it is not an input of this step");
    if (!read) throw UserError("input \"" + name + "\" is fed by an empty function");
    const StepTensor& its = at(passes.tensors, tensor);
    if (const auto* batch = read.target<BatchReader>(); batch != nullptr && its.shape.rank() > 0)
      batch->check_fits(its, its.shape[0].size * passes.accumulate);
  }
  for (const StepTensor& t : passes.tensors)
    if (is_fed(t) && t.fed_from < 0 && !feeds.contains(t.name)) throw UserError("input \"" + t.name + "\" is not fed");
}

std::map<std::string, ReadBox> PlanOnRank::zeros() const {
  std::map<std::string, ReadBox> out;
  for (const StepTensor& t : plan.data().passes.tensors)
    if (is_fed(t)) out[t.name] = [](const Box&, std::span<std::byte> to) { std::fill(to.begin(), to.end(), std::byte{0}); };
  return out;
}

void PlanOnRank::feed(Executor& executor, const std::map<std::string, ReadBox>& feeds, Index number, std::uint64_t seed,
                      Index step) const {
  executor.feed([&](const std::string& name, const Box& box, std::span<std::byte> out) {
    const Passes& passes = plan.data().passes;
    const auto given = feeds.find(fed_from(passes, name));
    const ReadBox all = given != feeds.end() ? given->second : random_keys(seed, name, step);
    fed_by(passes, name, all, number)(box, out);
    check_numbers(at(passes.tensors, passes.find(name)), out);
  });
}

}  // namespace motley
