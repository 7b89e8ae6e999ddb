// SPDX-License-Identifier: Apache-2.0
// One sweep backward over the passes: consumers are decided before producers; each pass takes the pick of least cost. Then one
// improving sweep over the whole plan. Source: notes of the algebra's prototype (DESIGN "The algebra, tried").
#pragma once
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "plan/cost.h"
#include "plan/layouts.h"
#include "plan/plan_data.h"

namespace motley {

// A step by one clock per rank: kernels as the passes say, not fused, no sums, no schedules. To compare parts of one layout.
struct Sketch {
  double seconds = 0;          // until the last rank has ended
  std::vector<double> busy{};  // per rank: of kernels, and of reading from ranks of its host
  bool defined = true;         // as undefined_statistics()
};

struct Sweep {
  std::vector<PassPlan> passes{};
  std::vector<TensorPlan> tensors{};
  double cost = 0;
};

// What forbids this pick of the pass, which the sweep relies on; null: nothing.
const char* pick_mistake(const Pass& pass, const Pick& pick, const Mesh& mesh, const Layouts& layouts);

class Sweeper {
 public:
  Sweeper(const Passes& passes, const Mesh& mesh, Layouts layouts, const Cost& cost, const Ownership& ownership = {});
  // Uses every pick given; an absent one is chosen by least local cost.
  Sweep run(const std::map<int, Pick>& picks);
  // Starts from these picks (absent ones chosen by least local cost) and makes one change at a time while the whole plan gets
  // cheaper.
  Sweep improve(const std::map<int, Pick>& from = {});
  // After lay_out(). Uses every pick given, as run(). A rank's kernels, and what it reads in place, follow one another; messages of
  // other hosts arrive meanwhile, at the latest when a kernel reads them.
  Sketch sketch(const std::map<int, Pick>& picks) const;
  // Other layouts of the same tensors, that differ in sizes alone. What sketches have decided and these do not change is kept.
  void lay_out(Layouts layouts);
  const std::vector<Pick>& candidates(int pass) const;  // every compatible set of cuts; the empty set first
  const Layouts& layouts() const { return layouts_; }
  using Boxes = std::vector<std::vector<Box>>;  // per rank: disjoint
  // What this sweep counts for a plan, piece by piece: the ranks' work under a pick if all of the result is needed everywhere, its
  // seconds, and those of a tensor's messages, from the work of its writers (in their order) to what its readers need.
  PassPlan work_of(int pass, const Pick& pick) const;
  double compute(int pass, const PassPlan& plan) const;  // of the slowest rank
  double cost_of_tensor(int tensor, const std::vector<PassPlan>& writers, const Boxes& needs) const;
  Boxes outside_needs(int tensor) const;                                // of a tensor that no pass of the step reads
  static void want(std::vector<Box>& have, const Box& more);            // a set of disjoint boxes gets another one
  std::vector<double> speeds_over(const std::vector<int>& axes) const;  // per part: of its slowest rank, 0: it has no part

 private:
  struct Moves {
    std::vector<BoxMessage> add{}, copy{};
    std::vector<Shard> owners{};
  };
  struct Transfer {  // a message to another rank
    int from = -1, to = -1;
    Index bytes = 0;
    MessageSeconds takes{};
  };
  struct Decided {
    Boxes needs{};                                // what its readers need, and
    std::vector<Pick> picks{};                    // its writers' picks: the rest follows from these two
    TensorPlan plan{};                            // without its messages: most decisions become no plan
    std::vector<PassPlan> passes{};               // of its writers; empty if no pass reads it
    std::vector<std::vector<double>> seconds{};   // of these, per rank
    std::array<std::vector<Transfer>, 3> hops{};  // add, copy, fill; only after lay_out(), for sketches
    double cost = 0;
  };
  struct NamedPart {
    std::string index{};
    Cut cut{};
    bool operator==(const NamedPart&) const = default;
  };
  struct Trial {
    std::vector<std::shared_ptr<const Decided>> tensors{};
    double cost = 0;
  };
  struct Improved {  // the cheapest plan so far, and its picks
    Trial trial{};
    std::map<int, Pick> picks{};
  };
  int key(int rank, const std::vector<bool>& axes) const;
  PassPlan work(int pass, const Pick& pick, const std::vector<Shard>& required) const;
  Moves route(const std::vector<int>& writers, const std::vector<PassPlan>& plans, const std::vector<Shard>& targets) const;
  TensorPlan stored(int tensor, const Boxes& needs) const;
  void add_messages(int tensor, const std::vector<PassPlan>& writers, TensorPlan& plan) const;
  std::array<std::vector<Transfer>, 3> transfers_of(int tensor, const TensorPlan& plan) const;
  Decided decide(int tensor, const std::vector<Boxes>& needs, const std::map<int, Pick>& picks) const;
  std::shared_ptr<const Decided> known(int tensor, const Boxes& needs, const std::map<int, Pick>& picks) const;
  Trial attempt(const std::map<int, Pick>& picks) const;
  // Makes a trial into attempt(picks), except for its cost, where `picks` differs from the trial's picks in these passes alone:
  // only what follows from these is decided again, and the replaced decisions are kept. False: that does not suffice, since the
  // choice of a pick depends on other needs.
  using Replaced = std::vector<std::pair<int, std::shared_ptr<const Decided>>>;  // tensors, in the order of replacement
  bool change(Trial& trial, const std::map<int, Pick>& picks, const std::vector<int>& passes, Replaced& before) const;
  Boxes needs_of(int tensor, const Trial& trial) const;
  std::shared_ptr<const Decided> decided(int tensor, const std::vector<Boxes>& needs, const std::map<int, Pick>& picks) const;
  double cost_of(const Trial& trial) const;
  std::map<int, Pick> picks_of(const Trial& trial) const;
  // Replaces best's picks by these if the whole plan gets cheaper. Takes time in proportion to what follows from them, not to the
  // network.
  void offer(Improved& best, const std::vector<std::pair<int, const Pick*>>& picks) const;
  void improve_options(Improved& best);              // along which of two dims on one axis a parameter is cut
  void improve_common_parts(Improved& best) const;   // the same part of the batch for several passes at once
  void improve_made_together(Improved& best) const;  // the same pick for passes that one kernel may compute
  void improve_picks(Improved& best) const;          // one pass at a time
  Sweep whole_of(const Trial& trial) const;
  void choose(int parameter, std::size_t option);
  Pick cheapest(int pass, const std::vector<Shard>& required, const std::vector<Boxes>& needs) const;
  std::vector<Shard> holders(int parameter) const;
  const std::vector<Shard>& home(int parameter) const;
  std::vector<Shard> resting(int tensor, const std::vector<Shard>& needs) const;
  std::vector<bool> ruled(const Layout& layout) const;
  // The messages that bring `holders` what they hold, all or in part.
  std::vector<Transfer> transfers(int tensor, const std::vector<BoxMessage>& messages, const std::vector<Shard>& holders) const;
  double seconds_of(const std::vector<Transfer>& transfers) const;       // until the last has arrived
  std::vector<double> seconds_of(int pass, const PassPlan& plan) const;  // per rank
  std::vector<bool> copies_arrivals(const std::vector<BoxMessage>& messages, const std::vector<Shard>& holders) const;
  std::vector<Pick> all_candidates(int pass) const;
  std::size_t parts_over(const std::vector<int>& axes) const;
  std::optional<Partition> owned_parts(int parameter, const std::vector<int>& axes) const;
  void offer_unruled(int pass, std::vector<PickPart>& cuts) const;
  std::vector<std::pair<NamedPart, std::vector<int>>> common_parts() const;
  const Pick* candidate_with(int pass, const Pick& pick, const NamedPart& part) const;
  double incoming(int rank, Index bytes) const;

  const Passes& passes_;
  const Mesh& mesh_;
  Layouts layouts_;
  const Cost& cost_;
  const Ownership ownership_;
  std::vector<double> speeds_{};             // per rank: 1 / seconds of the whole step alone
  std::vector<std::vector<int>> writers_{};  // per tensor
  std::vector<int> pass_order_{};            // order in which picks are chosen: the last first; within a layer the input's gradient
  std::vector<int> order_{};                 // tensors, readers' results before the tensors that they read
  std::vector<std::size_t> position_{};      // of each tensor in order_
  struct Reader {                            // the writer-th writer of `tensor` reads another tensor
    int tensor;
    std::size_t writer;
    const PassOperand* operand;
  };
  std::vector<std::vector<Reader>> readers_{};           // per tensor that is read, in order
  mutable std::vector<std::vector<Pick>> candidates_{};  // per pass; empty: not made yet
  mutable std::vector<Boxes> needs_{};                   // of the tensor that is being decided again
  mutable std::map<int, std::vector<Shard>> homes_{};    // of parameters; empty: not made yet
  mutable std::vector<std::vector<std::shared_ptr<const Decided>>>
      known_{};          // per tensor: an improving sweep, and sketches, repeat the same questions
  bool relaid_ = false;  // they are decided under several layouts
};

}  // namespace motley
