// SPDX-License-Identifier: Apache-2.0
// Partial sums and messages -> tensors, as if every rank had separate memory. Additions start from +0 and run in the order
// (writer's rank, box, writer's pass), never in the order of arrival; one owner adds, the others copy its bits.
#include <motley/error.h>

#include <algorithm>
#include <utility>

#include "base/overlaps.h"
#include "plan/kernel_of.h"
#include "program/compile.h"

namespace motley {

namespace {

// This rank's place in one tree of a sum.
struct Adding {
  const BoxMessage* own = nullptr;    // what it sends on, or keeps for itself if it is the owner
  std::size_t last = 0;               // the last stage in which it receives something
  std::optional<Contribution> sum{};  // so far
  bool is_owner(int rank) const { return own == nullptr || own->to == rank; }
};

struct Pieces {
  std::vector<Piece> pieces{};
  std::vector<Payload> holds{};
  void add(Piece piece, int t, const Box& box) {
    pieces.push_back(piece);
    holds.push_back({t, box});
  }
};

// All messages of one exchange between this rank and others, both ways.
struct BothWays {
  Pieces sends{}, receives{};
};

class Exchanger {
 public:
  explicit Exchanger(Draft& draft) : draft_(draft), plan_(draft.plan), rank_(draft.plan.rank()) {}

  void run() {
    std::vector<DraftStep> before = std::exchange(draft_.steps, {});
    draft_.steps.reserve(2 * before.size());
    for (DraftStep& step : before) {
      draft_.turn = step.turn;
      draft_.once = step.once;
      if (const auto* move = std::get_if<Move>(&step.what))
        emit(*move);
      else if (!fused_.contains(step.pass))
        draft_.steps.push_back(std::move(step));
    }
    draft_.once = false;
  }

 private:
  using Tensors = std::vector<int>;
  using Trees = std::map<int, Adding>;
  using Arrived = std::map<int, std::vector<Contribution>>;  // per tree
  struct Unpack {
    int tensor = -1;
    View from{}, to{};
  };

  const std::string& name(int t) const { return plan_.tensor(t).name; }
  Index bytes(int t, const Box& box) const { return volume(box) * static_cast<Index>(bytes_of(plan_.dtype_of(t))); }

  void emit(const Move& move) {
    const Tensors& all = move.tensors;
    if (!move.only_fill) {
      add_hop(all, move.inside_kernel);
      copy_hop(all, 1, "copies of ");
    }
    copy_hop(all, 2, move.only_fill ? "values of " : "parts of ");
    for (int t : all) spread(t);
  }

  // Every rank numbers all exchanges, including those in which it has no part. Per stage; -1: nothing is sent.
  std::vector<int> exchanges_of(const Tensors& all, std::size_t hop, const std::string& what) {
    std::vector<int> out;
    const std::string others = all.size() == 1 ? "" : " + " + std::to_string(all.size() - 1) + " more";
    const std::size_t stages = plan_.stages_of(all.front())[hop].size();  // the same for each of them
    for (std::size_t k = 0; k < stages; k++) {
      out.push_back(-1);
      const bool travels = std::any_of(all.begin(), all.end(), [&](int t) { return plan_.reach_of(t, hop, k).travels(); });
      if (!travels) continue;
      out.back() = static_cast<int>(draft_.program.moved.size());
      draft_.program.moved.push_back({all, hop, k});
      const std::string stage = k == 0 ? "" : ", stage " + std::to_string(k + 1);
      draft_.program.exchange_names.push_back(what + name(all.front()) + others + stage);
    }
    return out;
  }

  void post_and_wait(int exchange, BothWays both) {
    auto& [sends, receives] = both;
    if (sends.pieces.empty() && receives.pieces.empty()) return;
    draft_.add(Post{exchange, std::move(sends.pieces), std::move(receives.pieces)}, std::move(sends.holds),
               std::move(receives.holds));
    draft_.add(Wait{exchange});
  }

  View received_view(int t, const Box& box) {
    View view = draft_.fresh_view("received " + name(t), t, box);
    draft_.received.insert(view.buffer);
    return view;
  }

  // ---- copies of finished values: rank to rank, and from a parameter's owned part to where kernels read them
  void copy_hop(const Tensors& all, std::size_t hop, const std::string& what) {
    const std::vector<int> exchanges = exchanges_of(all, hop, what);
    for (std::size_t k = 0; k < exchanges.size(); k++) {
      BothWays both;
      std::vector<Unpack> unpacks;
      for (int t : all) copy_stage(t, hop, plan_.stage_of(t, hop, k), both, unpacks);
      post_and_wait(exchanges[k], std::move(both));
      for (const auto& [t, from, to] : unpacks) draft_.copy(from, to, "unpack " + name(t));
    }
  }

  void copy_stage(int t, std::size_t hop, std::span<const BoxMessage* const> messages, BothWays& both,
                  std::vector<Unpack>& unpacks) {
    const Stored::As to_as = hop == 1 ? Stored::As::home : Stored::As::reader;
    for (const BoxMessage* of : messages) {
      const BoxMessage& m = *of;
      if (m.from == m.to) {
        if (arrives_tiled(t)) continue;  // it is there already
        const View from = sent_view(t, hop, m.box), to = draft_.view(t, to_as, m.box);
        if (from.buffer != to.buffer) draft_.copy(from, to, "local part of " + name(t));
      } else if (m.from == rank_) {
        both.sends.add(outgoing(t, {{m.box, sent_view(t, hop, m.box)}}, m), t, m.box);
      } else {
        View to = draft_.view(t, to_as, m.box);
        if (!is_dense(to, plan_.format_of(t))) {
          unpacks.push_back({t, received_view(t, m.box), to});
          to = unpacks.back().from;
        }
        both.receives.add({m.from, {to.buffer, to.element}, bytes(t, m.box)}, t, m.box);
      }
    }
  }

  // Where finished values are that a hop sends: at their owner or home, or where a reader that sends them on has received them; if
  // it has them in several buffers, they are packed.
  View sent_view(int t, std::size_t hop, const Box& box) {
    const TensorPlan& plan = plan_.plan_of(t);
    using Has = std::pair<Stored::As, const std::vector<Shard>*>;
    const Has owns{Stored::As::owner, &plan.owners}, keeps{Stored::As::home, &plan.home}, reads{Stored::As::reader, &plan.readers};
    for (const auto& [as, shards] : {hop == 1 ? owns : keeps, hop == 1 ? keeps : reads})
      if (std::any_of(shards->begin(), shards->end(), [&](const Shard& s) { return s.rank == rank_ && contains(s.box, box); }))
        return draft_.view(t, as, box);
    const View packed = draft_.fresh_view("packed " + name(t), t, box);
    const auto& [as, received] = hop == 1 ? keeps : reads;
    for (const Shard& s : *received)
      if (const Box part = intersect(s.box, box); s.rank == rank_ && volume(part) > 0)
        draft_.copy(draft_.view(t, as, part), part_of(packed, box, part), "pack " + name(t));
    return packed;
  }

  bool arrives_tiled(int t) const { return plan_.plan_of(t).arriving().tiles > 0; }

  // Where two kernels read common elements in different boxes, each of which has a buffer: the elements were received in one of
  // them, and are copied to the other one.
  void spread(int t) {
    const std::vector<Stored>& all = draft_.stored(t);
    const bool one = std::all_of(all.begin(), all.end(), [&](const Stored& s) { return s.buffer == all.front().buffer; });
    if (one || arrives_tiled(t)) return;
    std::vector<Box> parts;               // what the rank reads: each element once
    std::map<int, std::vector<Box>> has;  // per buffer: what is there
    for (const Stored& s : all)
      if (s.as == Stored::As::home) has[s.buffer].push_back(s.box);
    for (const Shard& s : plan_.plan_of(t).readers)
      if (s.rank == rank_) {
        parts.push_back(s.box);
        has[draft_.view(t, Stored::As::reader, s.box).buffer].push_back(s.box);
      }
    for (const Stored& s : all) {
      if (s.as != Stored::As::reader) continue;
      std::vector<Box>& there = has[s.buffer];
      for (const Box& lacks : subtract(s.box, there))
        for (const Box& part : parts)
          if (const Box from = intersect(part, lacks); volume(from) > 0)
            draft_.copy(draft_.view(t, Stored::As::reader, from), view_of(draft_.buffer(s.buffer), s.buffer, from),
                        "local part of " + name(t));
      there.push_back(s.box);
    }
  }

  // One dense block of the message's box in the tensor's format, made from the sum of this rank's contributions.
  Piece outgoing(int t, const std::vector<Contribution>& sums, const BoxMessage& m) {
    const View& first = sums.front().view;
    if (sums.size() == 1 && is_dense(first, plan_.format_of(t)) && draft_.buffer(first.buffer).dtype == plan_.dtype_of(t))
      return {m.to, {first.buffer, first.element}, bytes(t, m.box)};
    const View to = draft_.fresh_view("packed " + name(t), t, m.box);
    draft_.packed.insert(to.buffer);
    if (sums.size() == 1)
      draft_.copy(first, to, "pack " + name(t));
    else
      add_atom(t, m.box, sums, to, {});
    return {m.to, {to.buffer, 0}, bytes(t, m.box)};
  }

  // ---- partial sums
  void add_hop(const Tensors& all, bool inside_kernel) {
    const std::vector<int> exchanges = exchanges_of(all, 0, "results of ");
    if (inside_kernel) return;
    std::map<int, Trees> trees;  // per tensor
    for (int t : all) {
      for (std::size_t k = 0; k < exchanges.size(); k++)
        for (const BoxMessage* m : plan_.stage_of(t, 0, k)) {
          if (m->from == rank_) trees[t][m->tree].own = m;
          if (m->to == rank_) trees[t][m->tree].last = k;
        }
    }
    for (std::size_t k = 0; k < exchanges.size(); k++) {
      BothWays both;
      std::map<int, Arrived> arrived;
      for (int t : all) arrived[t] = exchange_sums(t, k, trees[t], both);
      post_and_wait(exchanges[k], std::move(both));
      for (int t : all) add_stage(t, k, std::move(arrived[t]), trees[t]);
    }
    for (int t : all) add_unreached(t);
  }

  // Elements that no partial sum covers are set to 0.
  void add_unreached(int t) {
    std::vector<Box> reached;
    for (const BoxMessage* m : plan_.messages_of(t, 0))
      if (m->to == rank_) reached.push_back(m->box);
    for (const Shard& own : plan_.plan_of(t).owners)
      if (own.rank == rank_)
        for (const Box& rest : subtract(own.box, reached)) add_atom(t, rest, {}, draft_.view(t, Stored::As::owner, rest), {});
  }

  // An inner node adds what it receives in one stage, in the messages' order, after its sum so far; its own partial sums come after
  // the first such stage. It sends the sum on; the owner makes the tensor from what arrives in the last stage.
  void add_stage(int t, std::size_t stage, Arrived arrived, Trees& trees) {
    std::vector<Contribution> last;
    const bool only = plan_.stages_of(t)[0].size() == 1;
    for (auto& [tree, sums] : arrived) {
      Adding& adding = trees.at(tree);
      const bool owner = only || adding.is_owner(rank_);
      if (adding.sum) sums.insert(sums.begin(), *adding.sum);
      if (owner && stage == adding.last) {
        last.insert(last.end(), sums.begin(), sums.end());
        continue;
      }
      if (!owner && !adding.sum)
        for (Contribution& c : own_sums(t, *adding.own)) sums.push_back(std::move(c));
      const Box box = sums.front().box;
      const View sum = draft_.fresh_view("intermediate sum of " + name(t), t, box);
      add_atom(t, box, sums, sum, {});
      adding.sum = Contribution{box, sum};
    }
    for (const Shard& own : plan_.plan_of(t).owners)
      if (own.rank == rank_) add_owned(t, own.box, last);
  }

  // What will have arrived, in the messages' order: (writer's rank, box, pass) inside each owned box.
  Arrived exchange_sums(int t, std::size_t stage, const Trees& trees, BothWays& both) {
    const std::size_t stages = plan_.stages_of(t)[0].size();
    Arrived arrived;
    for (const BoxMessage* of : plan_.stage_of(t, 0, stage)) {
      const BoxMessage& m = *of;
      if (m.from == rank_ && m.to != rank_) {
        const auto& sum = trees.at(m.tree).sum;
        both.sends.add(outgoing(t, sum ? std::vector<Contribution>{*sum} : own_sums(t, m), m), t, m.box);
      }
      if (m.to != rank_) continue;
      std::vector<Contribution>& sums = arrived[m.tree];
      if (m.from == rank_) {
        for (Contribution& c : own_sums(t, m)) sums.push_back(std::move(c));
        continue;
      }
      const bool owner = stages == 1 || trees.at(m.tree).is_owner(rank_);
      bool alone = owner;
      for (std::size_t k = 0; k < stages && alone; k++) {
        const auto all = plan_.stage_of(t, 0, k);
        alone = std::none_of(all.begin(), all.end(), [&](const BoxMessage* other) {
          return other->to == rank_ && other != of && overlaps(other->box, m.box);
        });
      }
      std::optional<View> in_place;
      if (alone) in_place = draft_.view(t, Stored::As::owner, m.box);
      if (in_place && !is_dense(*in_place, plan_.format_of(t))) in_place.reset();
      sums.push_back({m.box, in_place ? *in_place : received_view(t, m.box)});
      both.receives.add({m.from, {sums.back().view.buffer, sums.back().view.element}, bytes(t, m.box)}, t, m.box);
    }
    return arrived;
  }

  // This rank's partial sums of one message. A convolution that has already added its bias counts as one.
  std::vector<Contribution> own_sums(int t, const BoxMessage& m) {
    auto has_bias = [&](int w) { return !plan_.is_view(at(plan_.writers(t), w)) && plan_.bias_of(at(plan_.writers(t), w)) >= 0; };
    const bool fused = std::any_of(m.writers.begin(), m.writers.end(), has_bias);
    std::vector<Contribution> sums;
    for (int w : m.writers)
      if (!fused || !plan_.is_view(at(plan_.writers(t), w))) sums.push_back(draft_.partial_sum(t, w, m.box));
    return sums;
  }

  // Adds atom by atom: within an atom the contributors are the same.
  void add_owned(int t, const Box& owned, const std::vector<Contribution>& arrived) {
    std::vector<Shard> inside;
    for (std::size_t i = 0; i < arrived.size(); i++)
      if (Box part = intersect(arrived[i].box, owned); volume(part) > 0) inside.push_back({static_cast<int>(i), std::move(part)});
    for (const Atom& atom : atoms(inside)) {
      std::vector<Contribution> sums;
      for (int i : atom.ranks) {  // positions in `arrived`, ascending: the order of additions
        const Contribution& whole = at(arrived, i);
        sums.push_back({atom.box, part_of(whole.view, whole.box, atom.box)});
      }
      const bool adds = sums.size() > 1 && plan_.pass(plan_.writers(t).front()).combine == Combine::add;
      const int next = adds && owned == atom.box ? plan_.activation_after(t, owned) : -1;
      if (next >= 0) fused_.insert(next);
      const View to = next >= 0 ? draft_.view(plan_.pass(next).writes.tensor, Stored::As::made, atom.box)
                                : draft_.view(t, Stored::As::owner, atom.box);
      add_atom(t, atom.box, sums, to, next >= 0 ? plan_.pass(next).formula : Formula{});
    }
  }

  // to = epilogue(+0 + partial sum + partial sum + ...), or their maximum.
  void add_atom(int t, const Box& box, const std::vector<Contribution>& sums, const View& to, const Formula& epilogue) {
    if (sums.size() == 1 && epilogue.code.empty()) {
      const View& only = sums.front().view;
      if (only.buffer != to.buffer) draft_.copy(only, to, "local part of " + name(t));
      return;
    }
    if (plan_.pass(plan_.writers(t).front()).combine == Combine::max && !sums.empty()) return add_maximum(t, box, sums, to);
    std::vector<View> views;
    for (const Contribution& c : sums) views.push_back(c.view);
    views.push_back(to);
    std::vector<Place> places;
    for (const View& v : views) places.push_back({v.buffer, v.element});
    KernelSpec spec = sum_of(plan_.dtype_of(t), views);
    for (std::size_t i = 0; i < views.size(); i++) spec.operands[i].dtype = draft_.buffer(views[i].buffer).dtype;
    spec.formula = epilogue;
    draft_.kernel(std::move(spec), std::move(places), "sum of " + name(t));
  }

  // The contributions are stacked in one buffer; then the maximum over the stack.
  void add_maximum(int t, const Box& box, const std::vector<Contribution>& parts, const View& to) {
    const std::vector<Index> extents = extents_of(box), inner = strides_of(Format::plain, extents);
    const Index each = volume(box), count = static_cast<Index>(parts.size());
    const int stack = draft_.temporary("stack of " + name(t), plan_.dtype_of(t), {count, each});
    for (Index k = 0; k < count; k++) draft_.copy(at(parts, k).view, {stack, k * each, inner, extents}, "sum of " + name(t));
    std::vector<Index> all = extents, from = inner, into = to.strides;
    all.insert(all.begin(), count);
    from.insert(from.begin(), each);
    into.insert(into.begin(), 0);
    KernelSpec spec = map_kernel({}, plan_.dtype_of(t), all, {from, into});
    spec.combine = Combine::max;
    draft_.kernel(std::move(spec), {{stack, 0}, {to.buffer, to.element}}, "sum of " + name(t));
  }

  Draft& draft_;
  const LocalPlan& plan_;
  int rank_;
  std::set<int> fused_{};  // activations that a sum applies itself
};

}  // namespace

void exchange(Draft& draft) {
  Exchanger(draft).run();
}

}  // namespace motley
