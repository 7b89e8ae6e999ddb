// SPDX-License-Identifier: Apache-2.0
// Small messages that are ready together are sent as one. Between hosts a small message costs its latency and what both ends do for
// it, not its bytes, and a network of many layers has hundreds of parameters of a few hundred elements.
//
// Which tensors move together follows from the plan alone, so that all ranks agree. Values of parameters are ready when the step
// begins: small ones are filled where the first of them is read. No pass reads their gradients: small ones are added where the last
// of them is made, however much is computed in between, since only the update waits for them. No kernels can overlap with what the
// first kernels read and what the last ones make: those values are not grouped with others. Small sums that one layer makes and
// that are not read in between (both of a norm's backward half) are added where the last of them is made. A group has one Move
// (lower.cpp), so that exchanges, acknowledgements and grants are those of one tensor; a Move is at the same point of the passes'
// order on every rank, so ranks do not wait in a cycle (share.cpp).
//
// Later, when `share` has turned what stays on a host into flags, the messages of an exchange from one rank to another become one,
// side by side in one buffer: kernels that pack write there, and those that add read there; other values are copied.
#include <motley/error.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "program/compile.h"

namespace motley {

namespace {

// Bytes of a message that counts as small, and at most of a coalesced one. A message between hosts by TCP takes some 30 us however
// small it is; in that time 4 KiB are sent at 1 Gbit/s, 16 KiB at 4 Gbit/s.
constexpr Index kSmall = 4096, kMost = 16384;

using Traffic = std::map<std::tuple<std::size_t, int, int>, Index>;  // (stage, from, to) -> bytes

Traffic traffic_of(const CommonPlan& plan, int t, std::size_t hop) {
  const StagesOfHop& stages = plan.stages_of(t)[hop];
  Traffic out;
  for (std::size_t k = 0; k < stages.size(); k++)
    for (const BoxMessage& m : stages[k])
      if (m.from != m.to) out[{k, m.from, m.to}] += volume(m.box) * static_cast<Index>(bytes_of(plan.dtype_of(t)));
  return out;
}

struct Group {
  MovedTogether moved{};
  Traffic traffic{};
};

// Each of `moves` has one tensor, in order; a tensor that does not fit into an open group closes it and opens the next.
void group(const CommonPlan& plan, const std::vector<MovedTogether>& moves, std::size_t hop, std::vector<MovedTogether>& out) {
  std::map<std::tuple<bool, bool, DType, std::size_t>, Group> open;  // by half of the step, whether at its edge, dtype, stages
  const int edge = moves.empty() ? 0 : hop == 0 ? moves.back().turn : moves.front().turn;
  auto close = [&](Group& one) {
    if (one.moved.tensors.size() > 1) out.push_back(std::move(one.moved));
    one = {};
  };
  for (const MovedTogether& alone : moves) {
    const int t = alone.tensors.front();
    const Traffic traffic = traffic_of(plan, t, hop);
    if (traffic.empty() || std::any_of(traffic.begin(), traffic.end(), [](const auto& m) { return m.second > kSmall; })) continue;
    Group& one = open[{alone.turn < plan.backward_turn(), alone.turn == edge, plan.dtype_of(t), plan.stages_of(t)[hop].size()}];
    const bool full = std::any_of(traffic.begin(), traffic.end(), [&](const auto& m) {
      const auto before = one.traffic.find(m.first);
      return before != one.traffic.end() && before->second + m.second > kMost;
    });
    if (full) close(one);
    if (one.moved.tensors.empty() || hop == 0) one.moved.turn = alone.turn;  // values where the first, sums where the last is
    one.moved.tensors.push_back(t);
    for (const auto& [between, bytes] : traffic) one.traffic[between] += bytes;
  }
  for (auto& [key, one] : open) close(one);
}

// Per peer the messages from or to it that become one.
std::map<int, std::vector<Piece>> small_messages(const Program& program, const std::vector<Piece>& pieces) {
  std::map<int, std::vector<Piece>> out;
  for (const Piece& p : pieces)
    if (!p.window) out[p.peer].push_back(p);
  std::erase_if(out, [&](const auto& entry) {
    const std::vector<Piece>& its = entry.second;
    Index bytes = 0;
    for (const Piece& p : its) bytes += p.bytes;
    auto dtype = [&](const Piece& p) { return at(program.buffers, p.at.buffer).dtype; };
    const bool one_dtype = std::all_of(its.begin(), its.end(), [&](const Piece& p) { return dtype(p) == dtype(its.front()); });
    return its.size() < 2 || bytes > kMost || !one_dtype;
  });
  return out;
}

class Coalescer {
 public:
  explicit Coalescer(Draft& draft) : draft_(draft) {}

  void run() {
    Copies arrived;
    std::vector<DraftStep> before = std::exchange(draft_.steps, {});
    draft_.steps.reserve(before.size());
    for (DraftStep& step : before) {
      const auto* wait = std::get_if<Wait>(&step.what);
      if (wait == nullptr || step.once != draft_.once) unpack(arrived);  // after the flags of the same exchange too
      draft_.turn = step.turn;
      draft_.once = step.once;
      if (auto* post = std::get_if<Post>(&step.what)) {
        for (const auto& [from, to] : coalesce(*post, post->sends, draft_.packed)) copy(from, to, "pack " + name(from));
        unpacks_[post->exchange] = coalesce(*post, post->receives, draft_.received);
      }
      if (wait != nullptr)
        for (auto& one : unpacks_[wait->exchange]) arrived.push_back(std::move(one));
      draft_.steps.push_back(std::move(step));
    }
    unpack(arrived);
    draft_.once = false;
    auto move = [&](Place& p) {
      if (const auto found = inside_.find(p.buffer); found != inside_.end())
        p = {found->second.buffer, found->second.element + p.element};
    };
    for (DraftStep& step : draft_.steps)
      if (auto* run = std::get_if<RunKernel>(&step.what)) std::for_each(run->operands.begin(), run->operands.end(), move);
  }

 private:
  using Copies = std::vector<std::pair<View, View>>;  // (where kernels have it, its place in the coalesced message)

  // Returns what must still be copied. passing: buffers that only messages read, or only messages write.
  Copies coalesce(const Post& post, std::vector<Piece>& pieces, const std::set<int>& passing) {
    Copies copies;
    std::map<std::vector<std::tuple<int, Index, Index>>, int> made;  // what several peers receive is packed once
    for (const auto& [peer, its] : small_messages(draft_.program, pieces)) {
      std::vector<std::tuple<int, Index, Index>> what;
      Index bytes = 0;
      for (const Piece& p : its) {
        what.emplace_back(p.at.buffer, p.at.element, p.bytes);
        bytes += p.bytes;
      }
      const auto [found, fresh] = made.emplace(std::move(what), -1);
      if (fresh) found->second = side_by_side(its, at(draft_.program.exchange_names, post.exchange), passing, copies);
      std::erase_if(pieces, [&, to = peer](const Piece& p) { return !p.window && p.peer == to; });
      pieces.push_back({peer, {found->second, 0}, bytes});
    }
    return copies;
  }
  int side_by_side(const std::vector<Piece>& pieces, const std::string& name, const std::set<int>& passing, Copies& copies) {
    const DType dtype = draft_.buffer(pieces.front().at.buffer).dtype;
    const auto elements = [&](const Piece& p) { return p.bytes / static_cast<Index>(bytes_of(dtype)); };
    Index size = 0, done = 0;
    for (const Piece& p : pieces) size += elements(p);
    const int made = draft_.temporary(name, dtype, {size});
    for (const Piece& p : pieces) {
      if (passing.contains(p.at.buffer))
        inside_[p.at.buffer] = {made, done};
      else
        copies.push_back({{p.at.buffer, p.at.element, {1}, {elements(p)}}, {made, done, {1}, {elements(p)}}});
      done += elements(p);
    }
    return made;
  }
  void unpack(Copies& arrived) {
    for (const auto& [to, from] : std::exchange(arrived, {})) copy(from, to, "unpack " + name(to));
  }
  const std::string& name(const View& view) { return draft_.buffer(view.buffer).name; }
  void copy(const View& from, const View& to, const std::string& what) { draft_.copy(from, to, what); }

  Draft& draft_;
  std::map<int, Place> inside_{};    // buffer of a single message -> its place in a coalesced one
  std::map<int, Copies> unpacks_{};  // per exchange
};

// Groups sums that one layer makes before the first of them is read.
void group_inner(const CommonPlan& plan, std::vector<MovedTogether>& out) {
  Group open;
  const auto close = [&] {
    if (open.moved.tensors.size() > 1) out.push_back(std::move(open.moved));
    open = {};
  };
  const auto alike = [&](int a, int b) {
    for (std::size_t hop = 0; hop < 3; hop++)
      if (plan.stages_of(a)[hop].size() != plan.stages_of(b)[hop].size()) return false;
    return plan.tensor(a).layer == plan.tensor(b).layer && plan.dtype_of(a) == plan.dtype_of(b);
  };
  for (int p = 0; p < static_cast<int>(plan.passes().passes.size()); p++) {
    const Pass& pass = plan.pass(p);
    std::vector<int>& tensors = open.moved.tensors;
    const int t = pass.writes.tensor;
    const bool reads = std::any_of(pass.reads.begin(), pass.reads.end(), [&](const PassOperand& o) {
      return std::find(tensors.begin(), tensors.end(), o.tensor) != tensors.end();
    });
    if (reads || (!tensors.empty() && plan.tensor(t).layer != plan.tensor(tensors.front()).layer)) close();
    if (plan.tensor(t).role != TensorRole::activation && plan.tensor(t).role != TensorRole::gradient) continue;
    if (plan.writers(t) != std::vector<int>{p} || plan.is_view(p)) continue;
    if (plan.plan_of(t).add.tiles > 0 || plan.plan_of(t).arriving().tiles > 0) continue;
    const Traffic traffic = traffic_of(plan, t, 0);
    const auto too_much = [&](const auto& m) {
      const auto before = open.traffic.find(m.first);
      return before != open.traffic.end() && before->second + m.second > kMost;
    };
    if (traffic.empty() || std::any_of(traffic.begin(), traffic.end(), [](const auto& m) { return m.second > kSmall; })) continue;
    if (!tensors.empty() && (!alike(tensors.front(), t) || std::any_of(traffic.begin(), traffic.end(), too_much))) close();
    open.moved.tensors.push_back(t);
    open.moved.turn = p;
    for (const auto& [between, bytes] : traffic) open.traffic[between] += bytes;
  }
  close();
}

}  // namespace

std::vector<MovedTogether> moved_together(const CommonPlan& plan) {
  std::vector<MovedTogether> values, kept, sums, out;  // kept: values that are not sent in each step or micro-batch
  if (!plan.options().coalesce) return out;
  auto tiled = [&](int t) { return plan.plan_of(t).add.tiles > 0 || plan.plan_of(t).arriving().tiles > 0; };
  for (int t : plan.filled())
    if (!tiled(t)) (plan.once(t) ? kept : values).push_back({{t}, plan.opened_at(t)});
  for (int p = 0; p < static_cast<int>(plan.passes().passes.size()); p++) {
    const int t = plan.pass(p).writes.tensor;
    const auto& writers = plan.writers(t);
    const bool read = !plan.readers(t).empty() || plan.plan_of(t).copy.travels() || plan.plan_of(t).fill.travels();
    if (plan.tensor(t).role == TensorRole::parameter_gradient && writers.back() == p && !read && !tiled(t) &&
        std::none_of(writers.begin(), writers.end(), [&](int w) { return plan.is_view(w); }))  // a view reads another tensor there
      sums.push_back({{t}, p});
  }
  group(plan, values, 2, out);
  group(plan, kept, 2, out);
  group(plan, sums, 0, out);
  group_inner(plan, out);
  return out;
}

void coalesce(Draft& draft) {
  if (draft.plan.options().coalesce) Coalescer(draft).run();
}

}  // namespace motley
