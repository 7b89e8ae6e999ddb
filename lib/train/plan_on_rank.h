// SPDX-License-Identifier: Apache-2.0
// A plan on this rank: the common part of a Trainer and a Predictor.
#pragma once
#include <motley/batch.h>
#include <motley/executor.h>
#include <motley/plan.h>
#include <motley/runtime.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "run/fits_hosts.h"

namespace motley {

class PlanOnRank {
 public:
  // Collective: compares the ranks' plans, and the memory that the Programs take with that of the hosts. UserError, DeviceError.
  PlanOnRank(Runtime& rt, const Plan& plan, Parameters parameters);
  const Plan plan;
  const Program program;
  Backend& backend() const { return *backend_; }  // f64 plans run on f64_backend()
  // By the inputs' names. UserError: one is fed twice, or by a tensor of other sizes.
  std::map<std::string, ReadBox> by_name(const std::vector<Feed>& feeds) const;
  // The same result on every rank, whatever it reads. UserError: an input that is missing, empty or not one of the step's.
  void check_feeds(const std::map<std::string, ReadBox>& feeds) const;
  std::map<std::string, ReadBox> zeros() const;  // of all inputs
  // Feeds micro-batch `number` of the given inputs, after checking them, and the keys of random numbers.
  void feed(Executor& executor, const std::map<std::string, ReadBox>& feeds, Index number = 0, std::uint64_t seed = 0,
            Index step = 0) const;

 private:
  const std::unique_ptr<Backend> f64_;
  Backend* const backend_;
};

}  // namespace motley
