// SPDX-License-Identifier: Apache-2.0
#include "bench/support/bound.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/operands.h"
#include "plan/planner.h"
#include "plan/schedules.h"

namespace motley::bench {

Bound::Bound(Plan plan, Program program, Backend& backend, Transport& transport)
    : plan_(std::move(plan)),
      program_(std::move(program)),
      state_(plan_, program_.rank, 1, backend.device_memory()),
      executor_(program_, backend, transport, state_) {
  std::uint32_t seed = 1;
  executor_.feed([&](const std::string& name, const Box& box, std::span<std::byte> out) {
    for (Index i = 0; i < volume(box); i++) {
      seed = seed * 1664525U + 1013904223U;
      if (name == "label" || name == "tokens")
        reinterpret_cast<std::int32_t*>(out.data())[i] = static_cast<std::int32_t>((seed >> 8) % 2);
      else
        reinterpret_cast<float*>(out.data())[i] = static_cast<float>(seed >> 8) / 16777216.0F;
    }
  });
}

Ran Bound::run() {
  const double before = in_contractions();
  const Ran ran = executor_.run();
  seconds_.push_back(ran.seconds);
  contractions_.push_back(in_contractions() - before);
  return ran;
}

double Bound::in_contractions() const {
  double sum = 0;
  const auto spent = executor_.spent();
  for (std::size_t i = 0; i < spent.size(); i++) {
    const auto* run = std::get_if<RunKernel>(&program_.steps[i].what);
    if (run != nullptr && run->spec.op != KernelOp::map && !is_pool(run->spec.op)) sum += spent[i].seconds;
  }
  return sum;
}

std::vector<Taken> Bound::taken() const {
  std::vector<Taken> out;
  const auto spent = executor_.spent();
  for (std::size_t i = 0; i < spent.size(); i++) {
    const auto* run = std::get_if<RunKernel>(&program_.steps[i].what);
    out.push_back({spent[i].pass + (run == nullptr ? "" : ": " + summary(run->spec)), spent[i].implementation,
                   spent[i].seconds / static_cast<double>(std::max<Index>(1, spent[i].runs)), spent[i].runs});
  }
  std::sort(out.begin(), out.end(), [](const Taken& a, const Taken& b) { return a.seconds > b.seconds; });
  return out;
}

Plan without_tiles(const Plan& plan) {
  PlanData data = plan.data();
  for (TensorPlan& t : data.tensors)
    for (const auto hop : kHops) (t.*hop).tiles = 0;
  count_bytes(data);
  return plan_from(plan.step(), plan.mesh(), std::move(data));
}

Program kernels_alone(Program program) {
  std::vector<ProgramStep> kernels;
  std::vector<int> now;  // how many kernels come before each step
  for (const ProgramStep& s : program.steps) {
    now.push_back(static_cast<int>(kernels.size()));
    if (std::holds_alternative<RunKernel>(s.what)) kernels.push_back(s);
  }
  now.push_back(static_cast<int>(kernels.size()));
  program.steps = std::move(kernels);
  for (int* step : {&program.forward_steps, &program.combine_begin, &program.update_begin, &program.move_begin})
    *step = now[static_cast<std::size_t>(*step)];
  for (Chain& c : program.chains)
    for (int* step : {&c.begin, &c.end}) *step = now[static_cast<std::size_t>(*step)];
  return program;
}

double least(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

std::vector<double> slowest(Transport& transport, const std::vector<double>& mine) {
  std::vector<double> all(mine.size(), 0);
  for (const auto& bytes : transport.gather_all(std::as_bytes(std::span(mine))))
    for (std::size_t i = 0; i < all.size(); i++) {
      double its = 0;
      std::memcpy(&its, bytes.data() + i * sizeof its, sizeof its);
      all[i] = std::max(all[i], its);
    }
  return all;
}

namespace {

// Of one of its devices, for a mesh of that device alone.
Profile profile_of(const Profile& profile, int device) {
  Profile out;
  out.devices = {profile.devices[static_cast<std::size_t>(device)]};
  for (KernelPoint p : profile.kernels())
    if (p.device == device) {
      p.device = 0;
      out.add(p);
    }
  for (DeviceLink link : profile.device_links)
    if (link.device == device) {
      link.device = 0;
      out.device_links.push_back(link);
    }
  return out;
}

}  // namespace

Alone alone(const Step& step, const Mesh& mesh, int rank, const Profile& profile) {
  const Profile own = profile_of(profile, rank);
  Plan plan = balance(step, Mesh({{"all", 1}}, {mesh.device(rank)}), {}, own);
  const double seconds = plan.data().step_seconds.value_or(0) * own.devices[0].alone_over_shared;
  return {std::move(plan), seconds};
}

Speeds speeds_of(double first, double second) {
  return {std::sqrt(first * second), std::max(first / second, second / first)};
}

}  // namespace motley::bench
