// SPDX-License-Identifier: Apache-2.0
// One rank's Program while the first passes make it (compile.h): its steps, its buffers, and where each tensor's values are in
// them.
#pragma once
#include <motley/program.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "program/local_plan.h"
#include "program/views.h"

namespace motley {

// A part of a tensor's value, or of a partial sum: exactly the box, strides per tensor dim.
struct Contribution {
  Box box{};
  View view{};
};

// The point at which a tensor's values move between ranks (pass `exchange` makes messages of it).
struct Move {
  std::vector<int> tensors{};  // several: they travel as one (LocalPlan::together)
  bool only_fill = false;      // a parameter: nothing is added
  bool inside_kernel = false;  // on this rank the tensor exists only inside a fused kernel
};

// What a piece of a Post carries.
struct Payload {
  int tensor = -1;
  Box box{};
};

struct DraftStep {
  std::variant<RunKernel, Post, Wait, Move> what{};
  int turn = 0;                             // the pass at whose turn it comes; after the last pass: LocalPlan::update_turn
  int pass = -1;                            // whose kernel it is, or belongs to; -1: no pass's
  std::vector<Payload> sent{}, received{};  // of a Post: of its pieces, until `share`
  bool once = false;                        // ProgramStep::once
};

// Kernels in place of others: a contraction with an epilogue, maps that have another one in them, two sums as one.
struct Fusion {
  std::vector<KernelSpec> fused{}, apart{};
};

class Draft {
 public:
  explicit Draft(const LocalPlan& local);

  const LocalPlan& plan;
  Program program{};  // all but its steps
  std::vector<DraftStep> steps{};
  struct Moved {
    std::vector<int> tensors{};  // none: an acknowledgement or a grant
    std::size_t hop = 0, stage = 0;
  };
  std::vector<Moved> moved{};          // per exchange
  std::vector<Fusion> fusions{};       // epilogues
  std::set<int> received{}, packed{};  // buffers that only messages write, or read
  int turn = 0, pass = -1;             // of the steps that are added next
  bool once = false;                   // and this

  // ---- buffers
  Buffer& buffer(int id) { return at(program.buffers, id); }
  int add_buffer(const std::string& name, DType dtype, const Box& box, Format format, Space space = Space::arena);
  int temporary(const std::string& name, DType dtype, const std::vector<Index>& extents, Format format = Format::plain);
  View fresh_view(const std::string& name, int t, const Box& box);  // a temporary dense block in the tensor's format
  int main_buffer(int t);  // made at the first call: the hull of all that this rank has of the tensor
  View main_view(int t, const Box& box);
  View output_view(int p, const Box& box);  // where this part of a pass's result goes
  // Where finished values are: in the main buffer, or (a parameter) in the part that is owned.
  View finished_view(int t, const Box& box);
  Contribution partial_sum(int t, int writer, const Box& box);  // what this writer of the tensor has of the box
  bool is_aligned(const View& view) const;                      // as this rank's kernels need it

  // ---- steps
  void add(std::variant<RunKernel, Post, Wait, Move> what, std::vector<Payload> sends = {}, std::vector<Payload> receives = {});
  void kernel(KernelSpec spec, std::vector<Place> operands, const std::string& name, Purpose purpose = Purpose::pass);
  void copy(const View& from, const View& to, const std::string& name);

 private:
  std::map<int, std::vector<Contribution>> partial_sums_{};  // pass -> its own buffers, where it is not direct
  std::map<int, std::vector<Contribution>> tiles_{};         // tensor that arrives tiled -> the tiles from other ranks
};

}  // namespace motley
