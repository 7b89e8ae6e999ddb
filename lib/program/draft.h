// SPDX-License-Identifier: Apache-2.0
// One rank's Program while the first passes build it (compile.h): its steps, its buffers, and where each tensor's values are in
// these.
#pragma once
#include <motley/program.h>

#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "program/local_plan.h"
#include "program/views.h"

namespace motley {

// A part of a tensor's value, or of a partial sum: exactly the box, with strides per tensor dim.
struct Contribution {
  Box box{};
  View view{};
};

// The point at which a tensor's values move between ranks (pass `exchange` turns it into messages).
struct Move {
  std::vector<int> tensors{};  // several: they are sent as one (LocalPlan::together)
  bool only_fill = false;      // a parameter: nothing is added
  bool inside_kernel = false;  // on this rank the tensor exists only inside a fused kernel
};

// The content of a piece of a Post.
struct Payload {
  int tensor = -1;
  Box box{};
};

struct DraftStep {
  std::variant<RunKernel, Post, Wait, Move> what{};
  int turn = 0;                             // the pass at whose turn the step runs; after the last pass: LocalPlan::update_turn
  int pass = -1;                            // the pass that the kernel belongs to; -1: none
  std::vector<Payload> sent{}, received{};  // of a Post: the content of its pieces, until `share`
  bool once = false;                        // ProgramStep::once
};

// Kernels that replace others: a contraction with an epilogue, maps with another map fused in, two sums as one.
struct Fusion {
  std::vector<KernelSpec> fused{}, apart{};
};

// The fusions of one Program, and what decides between those that counts of bytes predict to be faster.
class Fusions {
 public:
  explicit Fusions(std::function<bool(const Fusion&)> pays = {}) : pays_(std::move(pays)) {}  // none: all of them pay
  // False: it does not pay; what it would fuse stays apart from here on.
  bool take(Fusion fusion);
  bool is_apart(const KernelSpec& fused) const;
  const std::vector<Fusion>& made() const { return made_; }
  const std::vector<KernelSpec>& apart() const { return apart_; }
  bool contradicts() const;  // a kernel stays apart that was fused before

 private:
  std::function<bool(const Fusion&)> pays_{};
  std::vector<Fusion> made_{};
  std::vector<KernelSpec> apart_{};
};

class Draft {
 public:
  explicit Draft(const LocalPlan& local);

  const LocalPlan& plan;
  Program program{};  // everything but its steps
  std::vector<DraftStep> steps{};
  Fusions* fusions = nullptr;          // null: what the plan says
  std::set<int> received{}, packed{};  // buffers that only messages write, or only messages read
  int turn = 0, pass = -1;             // of the steps that are added next
  bool once = false;                   // of these steps too

  // ---- buffers
  Buffer& buffer(int id) { return at(program.buffers, id); }
  int add_buffer(const std::string& name, DType dtype, const Box& box, Format format, Space space = Space::arena, int tensor = -1);
  int temporary(const std::string& name, DType dtype, const std::vector<Index>& extents, Format format = Format::plain);
  View fresh_view(const std::string& name, int t, const Box& box);  // a temporary dense block in the tensor's format
  const std::vector<Stored>& stored(int t);  // what this rank has of the tensor; it gets buffers at the first call
  View view(int t, Stored::As as, const Box& box);
  View output_view(int p, const Box& box);                      // where this part of a pass's result is written
  int shared_buffer(int t) { return stored(t).back().buffer; }  // of a tensor that is stored once for several ranks
  Contribution partial_sum(int t, int writer, const Box& box);  // what this writer of the tensor contributes to the box
  bool is_aligned(const View& view) const;                      // whether it is aligned as this rank's kernels need

  // ---- steps
  void add(std::variant<RunKernel, Post, Wait, Move> what, std::vector<Payload> sends = {}, std::vector<Payload> receives = {});
  void kernel(KernelSpec spec, std::vector<Place> operands, const std::string& name, Purpose purpose = Purpose::pass);
  void copy(const View& from, const View& to, const std::string& name);

 private:
  void give_buffers(int t, std::vector<Stored>& all);
  void give_new_buffers(int t, std::vector<Stored>& all);
  int layer_of(const std::vector<Place>& operands) const;
  std::vector<int> tensor_of_{};                             // by buffer: the tensor of which it has a part; -1: none
  std::map<int, std::vector<Contribution>> partial_sums_{};  // pass -> separate buffers for its result, if it is not direct
};

}  // namespace motley
