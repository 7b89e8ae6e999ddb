// SPDX-License-Identifier: Apache-2.0
// The making of one rank's Program. Passes become kernels (compile_passes.cpp), tensors are put together from terms and
// messages (compile_tensors.cpp), some of them in memory that ranks of a host use together (compile_windows.cpp), buffers get their
// places (compile.cpp).
#pragma once
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "plan/blocks.h"
#include "plan/kernel_of.h"
#include "plan/plan_data.h"
#include "run/pending.h"
#include "run/views.h"

namespace motley {

class Compiler {
 public:
  Compiler(const PlanData& data, int rank, const CompileOptions& options);
  Program compile();

 private:
  // What this rank contributes to a tensor: the term of one of its writers.
  struct Contribution {
    Box box{};
    View view{};  // of exactly the box, strides per tensor dim
  };

  // An exchange and the one by which its readers tell that they have looked (-1: nobody looks into another's memory).
  struct Hop {
    int exchange = -1, looked = -1;
  };
  // This rank in one tree of a sum.
  struct Adding {
    const BoxMessage* own = nullptr;  // what it sends on, or has for itself where it is the owner
    std::size_t last = 0;             // the last stage that brings it something
    std::optional<Contribution> sum{};  // so far
    bool is_owner(int rank) const { return own == nullptr || own->to == rank; }
  };
  // A tensor that several ranks of a host read whole: it lies once, in the home's arena.
  struct Together {
    int home = -1;  // -1: each for itself
    Box box{};
    std::vector<int> ranks{};
  };

  // ---- buffers
  const StepTensor& tensor(int t) const { return all_.tensors[static_cast<std::size_t>(t)]; }
  const Pass& pass(int p) const { return all_.passes[static_cast<std::size_t>(p)]; }
  const TensorPlan& plan_of(int t) const { return data_.tensors[static_cast<std::size_t>(t)]; }
  const Work& work_of(int p) const { return data_.pass_plans[static_cast<std::size_t>(p)].work[static_cast<std::size_t>(rank_)]; }
  bool works(int p) const;
  DType dtype_of(int t) const { return tensor(t).dtype == DType::i32 ? DType::i32 : data_.dtype; }
  Format format_of(int t) const { return data_.formats[static_cast<std::size_t>(t)]; }
  int add_buffer(const std::string& name, DType dtype, const Box& box, Format format, Space space = Space::arena);
  int temp(const std::string& name, DType dtype, const std::vector<Index>& extents, Format format = Format::plain);
  View fresh_view(const std::string& name, int t, const Box& box);  // a temporary dense block in the tensor's format
  View peer_view(const std::string& name, int t, const Box& box, int peer, int exchange, int piece);  // such a block in a peer's memory
  int main_buffer(int t);  // made at first call: the hull of all that this rank holds of the tensor
  View main_view(int t, const Box& box);
  void make_slices();
  Meanwhile meanwhile(const Post& post) const;
  void finish();  // lifetimes, places in the arena
  void name_implementations();

  // ---- passes
  void emit_pass(int p);
  void emit_part(int p, const WorkPart& part, int bias, int next);
  void emit_window(int p, KernelSpec spec, const std::vector<View>& views, const View* bias);
  void emit_dense(int p, KernelSpec spec, const std::vector<View>& views, const View* bias);
  void emit_fold(int p, const std::vector<Range>& work, const std::vector<View>& views);
  void emit_ties(int p, const std::vector<View>& views);
  void emit_kernel(KernelSpec spec, std::vector<Place> operands, const std::string& name, bool moves = false);
  void emit_copy(const View& from, const View& to, DType dtype, const std::string& name);
  void emit_updates();
  // The operand with its dims in `order` (positions in the view; -1: absent) as one block of `strides_of(format, extents)`.
  Place dense(const View& view, const std::vector<int>& order, Format format, const std::string& name);
  bool is_aligned(const View& view) const;  // as this rank's kernels need it
  std::pair<Place, View> dense_result(const View& view, const std::vector<int>& order, Format format, const std::string& name);
  View output_view(int p, const Box& box);  // where this part of a pass's result goes on this rank
  bool is_view(int p) const;        // a copy or broadcast that needs no kernel: its source is read in place
  bool direct(int p);               // the result is written straight into the tensor
  int bias_of(int p);               // the writer broadcast(b) that this convolution or dense takes in; -1: none
  int activation_after(int t, const Box& box);  // the pass that a kernel writing all of t here takes in; -1: none
  int writer_index(int p) const;

  // ---- tensors
  void exchange_parameter(int t);
  void assemble(int t);
  const std::array<Stages, 3>& stages_of(int t);
  std::vector<Hop> hops_of(const Stages& stages, const std::string& name);
  void add_terms(int t);
  void add_stage(int t, std::size_t stage, const Hop& hop, std::map<int, Adding>& trees);
  std::map<int, std::vector<Contribution>> exchange_terms(int t, std::size_t stage, const Hop& hop, const std::map<int, Adding>& trees, std::vector<Piece>& receives);
  void add_tile(int t, const Box& tile, const std::vector<Contribution>& arrived);
  std::vector<Contribution> own_terms(int t, const BoxMessage& m);
  void add_atom(int t, const Box& box, const std::vector<Contribution>& terms, const View& to, Activation activation);
  void copy_hop(int t, std::size_t move, const std::string& what);
  void copy_messages(int t, std::size_t move, std::size_t stage, const Hop& hop);
  View source_view(int t, const Box& box);
  Contribution term(int t, int writer, const Box& box);
  std::vector<Piece> in_pieces(const std::vector<Piece>& messages) const;
  Piece outgoing(int t, const std::vector<Contribution>& terms, const BoxMessage& m);
  Hop next_exchange(const std::vector<BoxMessage>& messages, const std::string& name);  // -1: nothing travels
  void post_and_wait(const Hop& hop, const std::vector<Piece>& sends, const std::vector<Piece>& receives);
  // ---- windows
  bool near(int a, int b) const;  // they see each other's memory
  int number(const std::string& name);
  void tell_looked(const Hop& hop, const std::vector<Piece>& received);
  void await_looks();
  Together together(int t, int rank);
  const Together& together_at(int t);  // this rank's
  void make_room(int t);
  int last_look(int t) const;
  void enter(int buffer);
  void leave(int p);

  const PlanData& data_;
  const Passes& all_;
  int rank_;
  CompileOptions options_;
  Program out_{};
  std::vector<std::vector<int>> writers_{}, readers_{};  // per tensor: passes
  std::map<int, std::vector<Contribution>> terms_{};     // pass -> its own buffers, where it is not direct
  std::map<int, std::vector<Contribution>> blocks_{};    // tensor that arrives in blocks -> those from other ranks
  std::map<int, bool> direct_{};
  std::set<int> taken_{};                                // passes that another kernel does on this rank
  std::set<int> inside_{};                               // tensors that on this rank exist inside a kernel only
  std::set<int> exchanged_{};                            // parameters
  std::set<int> in_blocks_{};                            // exchanges of tensors that are taken apart
  std::vector<std::pair<int, std::vector<Piece>>> looks_{};  // what peers still look at: exchange, pieces
  std::vector<std::vector<int>> opens_{};                // per pass: tensors that are first written there, on some rank
  std::map<int, std::array<Stages, 3>> stages_{};        // per tensor
  std::map<int, Together> kept_{};                       // per tensor
  std::map<int, Hop> rooms_{};                           // tensors that this rank keeps together with others
  std::set<int> together_{};                             // their buffers
  std::map<int, int> closed_{};                          // such a buffer in a peer's memory -> what to wait for before it is written
  std::map<int, std::vector<int>> leaves_{};             // pass -> such tensors that nobody reads behind it
  std::size_t settled_ = 0;                              // the step behind the last wait
  bool backward_ = false;
};

}  // namespace motley
