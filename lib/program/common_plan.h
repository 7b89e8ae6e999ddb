// SPDX-License-Identifier: Apache-2.0
// What a plan determines for all ranks in common: who writes and reads a tensor, by which messages its values move, which tensors
// are stored once for several ranks of a host. Ranks agree on it without a message; for the Programs of many ranks it is made once.
#pragma once
#include <motley/program.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/at.h"
#include "graph/layers.h"
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

// The messages of a hop by the stages of its schedule. It points into lists of others.
using StagesOfHop = std::vector<std::span<const BoxMessage>>;

// Of a list of messages: those that a rank sends or receives, in the list's order. It points into the list.
class MessagesByRank {
 public:
  MessagesByRank(std::span<const BoxMessage> messages, std::size_t ranks);
  std::span<const BoxMessage* const> of(int rank) const;

 private:
  std::vector<std::size_t> begin_{};           // per rank, and the end; empty: there are no messages
  std::vector<const BoxMessage*> messages_{};  // of rank 0, of rank 1, ...
};

// Which ranks the messages of a stage connect.
struct Reach {
  bool same_memory = false, apart = false;  // some that share memory, some that do not
  bool travels() const { return same_memory || apart; }
};

template <class List, class T>
bool has_value(const List& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Copies have what was made in common. It refers to the plan, which the caller keeps.
class CommonPlan {
 public:
  CommonPlan(const PlanData& data, const CompileOptions& options = {});  // not explicit: who needs one rank passes the plan
  const PlanData& data() const { return data_; }
  const Passes& passes() const { return data_.passes; }
  const CompileOptions& options() const { return made_->options; }
  const StepTensor& tensor(int t) const { return at(data_.passes.tensors, t); }
  const Pass& pass(int p) const { return at(data_.passes.passes, p); }
  const TensorPlan& plan_of(int t) const { return at(data_.tensors, t); }
  DType dtype_of(int t) const { return motley::dtype_of(tensor(t), data_.dtype); }
  Format format_of(int t) const { return at(data_.formats, t); }
  const std::vector<int>& writers(int t) const { return at(made_->writers, t); }  // passes
  const std::vector<int>& readers(int t) const { return at(made_->readers, t); }
  int writer_index(int p) const;
  const std::array<StagesOfHop, 3>& stages_of(int t) const { return at(made_->stages, t); }  // by hop
  const Reach& reach_of(int t, std::size_t hop, std::size_t stage) const { return at(made_->reaches, t)[hop][stage]; }
  // The messages of a hop, and of a stage of its schedule, that a rank sends or receives.
  std::span<const BoxMessage* const> messages_of(int t, std::size_t hop, int rank) const {
    return at(made_->messages, t)[hop].of(rank);
  }
  std::span<const BoxMessage* const> stage_of(int t, std::size_t hop, std::size_t stage, int rank) const {
    return at(made_->stage_messages, t)[hop][stage].of(rank);
  }
  const Layers& layers() const { return made_->layers; }
  // Parameters, in the order in which their values are put together.
  const std::vector<int>& filled() const { return made_->filled; }
  const MovedTogether* together(int t) const;            // null: it moves separately
  bool once(int t) const { return at(made_->once, t); }  // the same in all micro-batches: moved only in the first one
  bool is_view(int p) const;  // a copy or broadcast that needs no kernel: its readers read the source in place

  // ---- memory that ranks of a host share
  bool same_memory(int a, int b) const;                    // whether the two read each other's memory
  const SharedTensor& shared_with(int t, int rank) const;  // as this rank sees it
  bool is_shared(int t) const;                             // by any ranks

  // ---- turns
  int backward_turn() const { return made_->backward_turn; }  // the first pass of the backward half
  // Turns are passes; after them a micro-batch's gradients are added, then come the sums over all micro-batches and their norms,
  // then the update.
  int sum_turn() const { return static_cast<int>(passes().passes.size()); }
  int combine_turn() const { return sum_turn() + 1; }
  int update_turn() const { return sum_turn() + 2; }
  int move_turn() const { return sum_turn() + 3; }  // the update along a direction, once the ranks know the norms
  // The pass at whose turn the tensor is first written, on any rank (-1: never); the pass after which no rank reads it.
  int opened_at(int t) const { return at(made_->opened, t); }
  int closed_at(int t) const;

 private:
  struct Made {
    CompileOptions options{};
    Layers layers{};
    std::vector<std::vector<int>> writers{}, readers{};  // per tensor
    std::vector<int> opened{}, filled{};                 // per tensor; parameters
    std::vector<bool> once{};                            // per tensor
    std::vector<MovedTogether> together{};
    std::vector<int> group{};  // per tensor: number in `together`, -1: none
    int backward_turn = 0;
    std::vector<std::array<StagesOfHop, 3>> stages{};                          // per tensor; of direct schedules: the plan's lists
    std::vector<std::array<Stages, 3>> scheduled{};                            // the other ones' lists
    std::vector<std::array<std::vector<Reach>, 3>> reaches{};                  // per tensor
    std::vector<std::vector<MessagesByRank>> messages{};                       // per tensor: by hop
    std::vector<std::array<std::vector<MessagesByRank>, 3>> stage_messages{};  // per tensor
    std::vector<int> memory{};  // per rank: ranks with the same number read each other's memory; -1: its memory is its own
    std::vector<std::vector<SharedTensor>> shared{};  // per tensor: by such number
  };
  std::vector<int> memories() const;
  Reach reach_of(std::span<const BoxMessage> stage) const;
  SharedTensor shared_in(int t, int memory) const;

  const PlanData& data_;
  std::shared_ptr<const Made> made_{};
};

}  // namespace motley
