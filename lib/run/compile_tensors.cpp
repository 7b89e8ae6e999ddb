// SPDX-License-Identifier: Apache-2.0
// Terms and messages -> tensors. Adds start from +0 and run in the order (writer's rank, box, writer's pass), never in the order
// of arrival; one owner adds, the others copy its bits.
#include <motley/error.h>

#include <algorithm>
#include <tuple>

#include "plan/schedules.h"
#include "run/compiler.h"

namespace motley {

namespace {

// Window pieces from that rank so far.
int count_from(const std::vector<Piece>& receives, int peer) {
  return static_cast<int>(std::count_if(receives.begin(), receives.end(), [&](const Piece& p) { return p.window && p.peer == peer; }));
}

}  // namespace

// Where one end of a message is a device with memory of its own, it goes in pieces: one is copied while the one before it travels. Both
// ends cut it the same way.
std::vector<Piece> Compiler::in_pieces(const std::vector<Piece>& messages) const {
  auto on_device = [&](int rank) { return data_.on_device[static_cast<std::size_t>(rank)]; };
  std::vector<Piece> out;
  for (const Piece& whole : messages) {
    const Index item = static_cast<Index>(bytes_of(out_.buffers[static_cast<std::size_t>(whole.at.buffer)].dtype));
    const Index most = on_device(rank_) || on_device(whole.peer) ? kStagedBytes : whole.bytes;
    if (whole.window) out.push_back(whole);
    for (Index done = 0; done < whole.bytes && !whole.window; done += most)
      out.push_back({whole.peer, {whole.at.buffer, whole.at.element + done / item}, std::min(most, whole.bytes - done)});
  }
  return out;
}

// The values of `box` that this rank holds finished: in the tensor's main buffer, or (a parameter) in its own slice.
View Compiler::source_view(int t, const Box& box) {
  if (tensor(t).role == TensorRole::parameter)
    for (const Slice& s : out_.slices)
      if (s.tensor == t && contains(s.box, box)) return view_of(out_.buffers[static_cast<std::size_t>(s.value)], s.value, box);
  return main_view(t, box);
}

void Compiler::exchange_parameter(int t) {
  if (!exchanged_.insert(t).second) return;
  make_room(t);
  copy_hop(t, 2, "values of " + tensor(t).name);
}

const std::array<Stages, 3>& Compiler::stages_of(int t) {
  auto known = stages_.find(t);
  if (known != stages_.end()) return known->second;
  return stages_[t] = motley::stages_of(plan_of(t), data_.hosts);
}

void Compiler::copy_hop(int t, std::size_t move, const std::string& what) {
  const Stages& stages = stages_of(t)[move];
  const std::vector<Hop> hops = hops_of(stages, what);
  for (const Hop& hop : hops)
    if (plan_of(t).arrives_in_blocks > 0) in_blocks_.insert(hop.exchange);
  for (std::size_t k = 0; k < stages.size(); k++) copy_messages(t, move, k, hops[k]);
}

// Copies of finished values: rank to rank, and from a parameter's slice to the place where kernels read it.
void Compiler::copy_messages(int t, std::size_t move, std::size_t stage, const Hop& hop) {
  const Index item = static_cast<Index>(bytes_of(dtype_of(t)));
  std::vector<Piece> sends, receives;
  std::vector<std::pair<View, View>> unpack;
  for (const BoxMessage& m : stages_of(t)[move][stage]) {
    if (m.from != rank_ && m.to != rank_) continue;
    if (m.from == m.to) {
      if (tensor(t).role != TensorRole::parameter) continue;  // it lies there already
      const View from = source_view(t, m.box), to = main_view(t, m.box);
      if (from.buffer != to.buffer) emit_copy(from, to, dtype_of(t), "local part of " + tensor(t).name);
      continue;
    }
    const Index bytes = volume(m.box) * item;
    if (rooms_.contains(t) && near(m.from, m.to)) {  // it is where both read it
      (m.from == rank_ ? sends : receives).push_back({m.from == rank_ ? m.to : m.from, {main_buffer(t), 0}, bytes, true});
    } else if (m.from == rank_) {
      sends.push_back(outgoing(t, {{m.box, source_view(t, m.box)}}, m));
    } else {
      const View to = main_view(t, m.box);
      if (near(m.from, rank_)) {
        const View from = peer_view("rank " + std::to_string(m.from) + "'s " + tensor(t).name, t, m.box, m.from, hop.exchange, count_from(receives, m.from));
        receives.push_back({m.from, {from.buffer, 0}, bytes, true});
        unpack.push_back({from, to});
      } else if (is_dense(to, format_of(t))) {
        enter(to.buffer);
        receives.push_back({m.from, {to.buffer, to.element}, bytes});
      } else {
        const View from = fresh_view("received " + tensor(t).name, t, m.box);
        receives.push_back({m.from, {from.buffer, 0}, bytes});
        unpack.push_back({from, to});
      }
    }
  }
  post_and_wait(hop, sends, receives);
  for (const auto& [from, to] : unpack) emit_copy(from, to, dtype_of(t), "unpack " + tensor(t).name);
  tell_looked(hop, receives);
}

// What this rank's writing pass has of `box`.
Compiler::Contribution Compiler::term(int t, int writer, const Box& box) {
  const int p = writers_[static_cast<std::size_t>(t)][static_cast<std::size_t>(writer)];
  const Pass& it = pass(p);
  if (is_view(p)) {
    Box source;
    std::vector<Index> at(it.indices.size(), -1);
    for (std::size_t d = 0; d < it.writes.indices.size(); d++) at[static_cast<std::size_t>(it.writes.indices[d])] = static_cast<Index>(d);
    for (int i : it.reads[0].indices) source.push_back(box[static_cast<std::size_t>(at[static_cast<std::size_t>(i)])]);
    const View from = main_view(it.reads[0].tensor, source);
    View view{from.buffer, from.element, std::vector<Index>(box.size(), 0), extents_of(box)};
    for (std::size_t d = 0; d < it.reads[0].indices.size(); d++)
      view.strides[static_cast<std::size_t>(at[static_cast<std::size_t>(it.reads[0].indices[d])])] = from.strides[d];
    return {box, view};
  }
  return {box, output_view(p, box)};
}

// One dense block of the message's box in the tensor's format, made from the sum of the terms: what travels or is looked at.
Piece Compiler::outgoing(int t, const std::vector<Contribution>& terms, const BoxMessage& m) {
  const View& first = terms.front().view;
  Piece out{m.to, {first.buffer, first.element}, volume(m.box) * static_cast<Index>(bytes_of(dtype_of(t))), near(rank_, m.to)};
  // A peer sees this rank's arena; what is kept together with others lives by rules of its own.
  const bool seen = !out.window || (out_.buffers[static_cast<std::size_t>(first.buffer)].space == Space::arena && !together_.contains(first.buffer));
  if (terms.size() == 1 && is_dense(first, format_of(t)) && seen) return out;
  const View to = fresh_view("packed " + tensor(t).name, t, m.box);
  if (terms.size() == 1)
    emit_copy(first, to, dtype_of(t), "pack " + tensor(t).name);
  else
    add_atom(t, m.box, terms, to, Activation::none);
  out.at = {to.buffer, 0};
  return out;
}

void Compiler::assemble(int t) {
  add_terms(t);
  copy_hop(t, 1, "copies of " + tensor(t).name);
  copy_hop(t, 2, "parts of " + tensor(t).name);
}

// This rank's terms of one message. A convolution that has taken its bias in is one term.
std::vector<Compiler::Contribution> Compiler::own_terms(int t, const BoxMessage& m) {
  bool fused = false;
  auto pass_of = [&](int w) { return writers_[static_cast<std::size_t>(t)][static_cast<std::size_t>(w)]; };
  for (int w : m.writers) fused = fused || (!is_view(pass_of(w)) && bias_of(pass_of(w)) >= 0);
  std::vector<Contribution> terms;
  for (int w : m.writers)
    if (!fused || !is_view(pass_of(w))) terms.push_back(term(t, w, m.box));
  return terms;
}

void Compiler::add_terms(int t) {
  const TensorPlan& plan = plan_of(t);
  const Stages& stages = stages_of(t)[0];
  const std::vector<Hop> hops = hops_of(stages, "results of " + tensor(t).name);
  if (inside_.contains(t)) return;
  std::map<int, Adding> trees;
  for (std::size_t k = 0; k < stages.size(); k++)
    for (const BoxMessage& m : stages[k]) {
      if (m.from == rank_) trees[m.tree].own = &m;
      if (m.to == rank_) trees[m.tree].last = k;
    }
  for (std::size_t k = 0; k < stages.size(); k++) add_stage(t, k, hops[k], trees);
  std::vector<Box> reached;
  for (const BoxMessage& m : plan.first)
    if (m.to == rank_) reached.push_back(m.box);
  for (const Held& tile : plan.tiles)
    if (tile.rank == rank_)
      for (const Box& rest : subtract(tile.box, reached)) add_atom(t, rest, {}, main_view(t, rest), Activation::none);
}

// An inner node adds what one stage brings it, in the messages' order, behind what it has so far; its own terms come behind the first
// such stage. It sends the sum on; the owner makes the tensor from what the last stage brings.
void Compiler::add_stage(int t, std::size_t stage, const Hop& hop, std::map<int, Adding>& trees) {
  std::vector<Piece> receives;
  std::vector<Contribution> finished;
  const bool only = stages_of(t)[0].size() == 1;
  for (auto& [tree, terms] : exchange_terms(t, stage, hop, trees, receives)) {
    Adding& at = trees.at(tree);
    const bool owner = only || at.is_owner(rank_);
    if (at.sum) terms.insert(terms.begin(), *at.sum);
    if (owner && stage == at.last) {
      finished.insert(finished.end(), terms.begin(), terms.end());
      continue;
    }
    if (!owner && !at.sum)
      for (Contribution& c : own_terms(t, *at.own)) terms.push_back(std::move(c));
    const Box box = terms.front().box;
    const View sum = fresh_view("intermediate sum of " + tensor(t).name, t, box);
    add_atom(t, box, terms, sum, Activation::none);
    at.sum = Contribution{box, sum};
  }
  for (const Held& tile : plan_of(t).tiles)
    if (tile.rank == rank_) add_tile(t, tile.box, finished);
  tell_looked(hop, receives);
}

// What arrives, per tree and in the messages' order: (writer's rank, box, pass) inside each tile.
std::map<int, std::vector<Compiler::Contribution>> Compiler::exchange_terms(int t, std::size_t stage, const Hop& hop, const std::map<int, Adding>& trees,
                                                                            std::vector<Piece>& receives) {
  const Stages& stages = stages_of(t)[0];
  const Index item = static_cast<Index>(bytes_of(dtype_of(t)));
  std::vector<Piece> sends;
  std::map<int, std::vector<Contribution>> arrived;
  for (const BoxMessage& m : stages[stage]) {
    if (m.from == rank_ && m.to != rank_) {
      const auto& sum = trees.at(m.tree).sum;
      sends.push_back(outgoing(t, sum ? std::vector<Contribution>{*sum} : own_terms(t, m), m));
    }
    if (m.to != rank_) continue;
    std::vector<Contribution>& terms = arrived[m.tree];
    if (m.from == rank_) {
      for (Contribution& c : own_terms(t, m)) terms.push_back(std::move(c));
      continue;
    }
    if (near(m.from, rank_)) {
      const View view = peer_view("rank " + std::to_string(m.from) + "'s result of " + tensor(t).name, t, m.box, m.from, hop.exchange, count_from(receives, m.from));
      terms.push_back({m.box, view});
      receives.push_back({m.from, {view.buffer, view.element}, volume(m.box) * item, true});
      continue;
    }
    auto meets = [&](const BoxMessage& o) { return o.to == rank_ && &o != &m && volume(intersect(o.box, m.box)) > 0; };
    const bool alone = std::none_of(stages.begin(), stages.end(), [&](const auto& of) { return std::any_of(of.begin(), of.end(), meets); });
    const bool owner = stages.size() == 1 || trees.at(m.tree).is_owner(rank_);
    if (alone && owner && is_dense(main_view(t, m.box), format_of(t))) {
      enter(main_buffer(t));
      terms.push_back({m.box, main_view(t, m.box)});
    } else {
      terms.push_back({m.box, fresh_view("received " + tensor(t).name, t, m.box)});
    }
    receives.push_back({m.from, {terms.back().view.buffer, terms.back().view.element}, volume(m.box) * item});
  }
  post_and_wait(hop, sends, receives);
  return arrived;
}

// Atom by atom: where the set of contributors is the same.
void Compiler::add_tile(int t, const Box& tile, const std::vector<Contribution>& arrived) {
  std::vector<Held> inside;
  for (std::size_t i = 0; i < arrived.size(); i++)
    if (Box part = intersect(arrived[i].box, tile); volume(part) > 0) inside.push_back({static_cast<int>(i), std::move(part)});
  for (const Atom& atom : atoms(inside)) {
    std::vector<Contribution> terms;
    for (int i : atom.ranks) {  // positions in `arrived`, ascending: the order of the adds
      const Contribution& whole = arrived[static_cast<std::size_t>(i)];
      terms.push_back({atom.box, part_of(whole.view, whole.box, atom.box)});
    }
    const bool sums = terms.size() > 1 && pass(writers_[static_cast<std::size_t>(t)].front()).combine == Combine::add;
    const int next = sums && tile == atom.box ? activation_after(t, tile) : -1;
    if (next >= 0) taken_.insert(next);
    add_atom(t, atom.box, terms, main_view(next >= 0 ? pass(next).writes.tensor : t, atom.box),
             next >= 0 ? pass(next).activation : Activation::none);
  }
}

// to = activation(+0 + term + term + ...), or the terms' maximum.
void Compiler::add_atom(int t, const Box& box, const std::vector<Contribution>& terms, const View& to, Activation activation) {
  const std::string name = "sum of " + tensor(t).name;
  if (terms.size() == 1 && activation == Activation::none) {
    const View& only = terms.front().view;
    if (only.buffer != to.buffer) emit_copy(only, to, dtype_of(t), "local part of " + tensor(t).name);
    return;
  }
  const bool maximum = pass(writers_[static_cast<std::size_t>(t)].front()).combine == Combine::max;
  if (maximum && !terms.empty()) {  // stacked in one buffer, then the maximum over the stack
    const std::vector<Index> extents = extents_of(box);
    const Index each = volume(box), count = static_cast<Index>(terms.size());
    const int stack = temp("stack of " + tensor(t).name, dtype_of(t), {count, each});
    std::vector<Index> inner = strides_of(Format::plain, extents);
    for (Index k = 0; k < count; k++) emit_copy(terms[static_cast<std::size_t>(k)].view, {stack, k * each, inner, extents}, dtype_of(t), name);
    std::vector<Index> all = extents, from = inner, into = to.strides;
    all.insert(all.begin(), count);
    from.insert(from.begin(), each);
    into.insert(into.begin(), 0);
    KernelSpec spec = fold_kernel(FoldKind::copy, dtype_of(t), all, {from, into});
    spec.combine = Combine::max;
    emit_kernel(std::move(spec), {{stack, 0}, {to.buffer, to.element}}, name);
    return;
  }
  std::vector<View> views;
  for (const Contribution& c : terms) views.push_back(c.view);
  views.push_back(to);
  std::vector<Place> places;
  for (const View& v : views) places.push_back({v.buffer, v.element});
  KernelSpec spec = fold_of(FoldKind::add, dtype_of(t), views);
  spec.activation = activation;
  emit_kernel(std::move(spec), std::move(places), name);
}

}  // namespace motley
