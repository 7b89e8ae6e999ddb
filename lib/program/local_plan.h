// SPDX-License-Identifier: Apache-2.0
// What a plan determines for one rank: what it computes, which kernels also compute other passes.
#pragma once
#include <optional>
#include <vector>

#include "program/common_plan.h"

namespace motley {

class LocalPlan : public CommonPlan {
 public:
  LocalPlan(const CommonPlan& plan, int rank);
  int rank() const { return rank_; }
  const Work& work_of(int p) const { return at(at(data().pass_plans, p).work, rank_); }
  bool works(int p) const;
  bool on_device() const { return at(data().on_device, rank_); }
  const SharedTensor& shared(int t) const { return shared_with(t, rank_); }
  // Its messages of a hop, and of a stage of its schedule.
  std::span<const BoxMessage* const> messages_of(int t, std::size_t hop) const { return CommonPlan::messages_of(t, hop, rank_); }
  std::span<const BoxMessage* const> stage_of(int t, std::size_t hop, std::size_t stage) const {
    return CommonPlan::stage_of(t, hop, stage, rank_);
  }

  // ---- fused kernels
  bool direct(int p) const;  // the result is written directly into the tensor
  int bias_of(int p) const;  // the writer broadcast(b) whose bias this convolution or dense adds itself; -1: none
  int activation_after(int t, const Box& box) const;  // the pass that a kernel writing all of t here may apply itself; -1: none

 private:
  int rank_;
  mutable std::vector<std::optional<bool>> direct_;  // per pass: cached, since it is used often
};

}  // namespace motley
