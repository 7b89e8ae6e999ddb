// SPDX-License-Identifier: Apache-2.0
// What a plan determines for one rank: what it computes, which kernels also compute other passes, which tensors are stored once for
// several ranks of a host. All of it follows from the plan, so that ranks agree on it without a message.
#pragma once
#include <motley/program.h>

#include <array>
#include <optional>
#include <vector>

#include "base/at.h"
#include "plan/plan_data.h"

namespace motley {

// A tensor that several ranks of a host read completely: stored once, in the arena of one of them, its home.
struct SharedTensor {
  int home = -1;  // -1: not shared
  Box box{};
  std::vector<int> ranks{};
  bool is_shared() const { return home >= 0; }
  bool has(int rank) const;
};

// Tensors that are sent as one (coalesce.cpp): parameters, in the order in which they are read, their gradients, or a layer's sums.
struct MovedTogether {
  std::vector<int> tensors{};
  int turn = 0;
};

class LocalPlan {
 public:
  LocalPlan(const PlanData& data, int rank, const CompileOptions& options);
  const PlanData& data() const { return data_; }
  const Passes& passes() const { return data_.passes; }
  const CompileOptions& options() const { return options_; }
  int rank() const { return rank_; }
  const StepTensor& tensor(int t) const { return at(data_.passes.tensors, t); }
  const Pass& pass(int p) const { return at(data_.passes.passes, p); }
  const TensorPlan& plan_of(int t) const { return at(data_.tensors, t); }
  const Work& work_of(int p) const { return at(at(data_.pass_plans, p).work, rank_); }
  bool works(int p) const;
  DType dtype_of(int t) const { return motley::dtype_of(tensor(t), data_.dtype); }
  Format format_of(int t) const { return at(data_.formats, t); }
  bool on_device() const { return at(data_.on_device, rank_); }
  const std::vector<int>& writers(int t) const { return at(writers_, t); }  // passes
  const std::vector<int>& readers(int t) const { return at(readers_, t); }
  int writer_index(int p) const;
  const std::array<Stages, 3>& stages_of(int t) const;        // by hop
  const std::vector<int>& filled() const { return filled_; }  // parameters, in the order in which their values are put together
  const MovedTogether* together(int t) const;                 // null: it moves separately
  bool once(int t) const { return at(once_, t); }             // the same in all micro-batches: moved only in the first one

  // ---- fused kernels
  bool is_view(int p) const;  // a copy or broadcast that needs no kernel: its readers read the source in place
  bool direct(int p) const;   // the result is written directly into the tensor
  int bias_of(int p) const;   // the writer broadcast(b) whose bias this convolution or dense adds itself; -1: none
  int activation_after(int t, const Box& box) const;  // the pass that a kernel writing all of t here may apply itself; -1: none

  // ---- memory that ranks of a host share
  bool same_memory(int a, int b) const;     // whether the two read each other's memory
  const SharedTensor& shared(int t) const;  // as this rank sees it
  SharedTensor shared_of(int t, int rank) const;
  int backward_turn() const { return backward_turn_; }  // the first pass of the backward half
  // Turns are passes; after them a micro-batch's gradients are added, then come the sums over all micro-batches and their norms,
  // then the update.
  int sum_turn() const { return static_cast<int>(passes().passes.size()); }
  int combine_turn() const { return sum_turn() + 1; }
  int update_turn() const { return sum_turn() + 2; }
  int move_turn() const { return sum_turn() + 3; }  // the update along a direction, once the ranks know the norms
  // The pass at whose turn the tensor is first written, on any rank (-1: never); the pass after which no rank reads it.
  int opened_at(int t) const { return at(opened_, t); }
  int closed_at(int t) const;

 private:
  bool overlaps(const Box& a, const Box& b) const { return volume(intersect(a, b)) > 0; }

  const PlanData& data_;
  int rank_;
  const CompileOptions& options_;
  std::vector<std::vector<int>> writers_{}, readers_{};  // per tensor
  std::vector<int> opened_{}, filled_{};                 // per tensor; parameters
  std::vector<bool> once_{};                             // per tensor
  std::vector<MovedTogether> together_{};
  std::vector<int> group_{};  // per tensor: number in together_, -1: none
  int backward_turn_ = 0;
  mutable std::vector<std::optional<bool>> direct_{};                   // per pass: cached, since it is used often
  mutable std::vector<std::optional<std::array<Stages, 3>>> stages_{};  // per tensor
  mutable std::vector<std::optional<SharedTensor>> shared_{};           // per tensor
};

}  // namespace motley
