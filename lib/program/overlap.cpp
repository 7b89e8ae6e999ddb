// SPDX-License-Identifier: Apache-2.0
// Ranks that did not wait in a cycle before do not now: a Post waits for nothing, so one that comes earlier delays others less. A
// Wait that comes later is followed only by steps that followed it before; if one of these were needed for the steps that the Wait
// now follows, the ranks would have waited in a cycle from the start.
#include <motley/error.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "kernels/operands.h"
#include "program/compile.h"
#include "program/overlap.h"

namespace motley {

namespace {

constexpr double kMostMemory = 1.125;  // of the most memory without overlap: an eighth more for exchanges in flight

constexpr Index kAll = std::numeric_limits<Index>::max();
constexpr std::size_t kNotUsed = std::numeric_limits<std::size_t>::max();

struct Touch {
  int buffer = -1;
  Index begin = 0, end = kAll;  // elements
  bool writes = false;
};
using Touches = std::vector<Touch>;

bool meet(const Touches& a, const Touches& b) {
  return std::any_of(a.begin(), a.end(), [&](const Touch& x) {
    return std::any_of(b.begin(), b.end(), [&](const Touch& y) {
      return x.buffer == y.buffer && (x.writes || y.writes) && x.begin < y.end && y.begin < x.end;
    });
  });
}

class Overlapper {
 public:
  Overlapper(Program& program, const std::function<Beside(const Post&)>& beside, double most_memory)
      : program_(program), steps_(program.steps) {
    for (const ProgramStep& s : steps_) {
      const auto* post = std::get_if<Post>(&s.what);
      const Beside runs = post == nullptr ? Beside::nothing : beside(*post);
      if (runs == Beside::nothing) continue;
      pending_.insert(post->exchange);
      if (runs == Beside::in_order_of_need) ordered_.insert(post->exchange);
      for (const Piece& p : post->sends) sent_.insert(p.at.buffer);
      for (const Piece& p : post->receives) received_.insert(p.at.buffer);
    }
    if (pending_.empty()) return;
    for (const ProgramStep& s : steps_) touches_.push_back(touches_of(s));
    order_.resize(steps_.size());
    std::iota(order_.begin(), order_.end(), 0U);
    lasts_ = lasting(program_);
    lives_.resize(program_.buffers.size());
    is_used_.assign(program_.buffers.size(), false);
    begun_.assign(steps_.size() + 1, 0);
    live_.assign(steps_.size() + 1, 0);
    count_lives(0, steps_.size() - 1);
    most_ = most_memory * static_cast<double>(*std::max_element(live_.begin(), live_.end()) + 1);
  }

  void run() {
    if (pending_.empty()) return;
    std::size_t from = 0;
    for (const int border : {program_.forward_steps, program_.combine_begin, program_.update_begin, program_.move_begin,
                             static_cast<int>(steps_.size())}) {
      const auto to = static_cast<std::size_t>(border);
      for (std::size_t i = from; i < to; i++)
        if (goes_up(i)) raise(i, from);
      for (std::size_t i = from; i < to && !ordered_.empty(); i++)
        if (const auto* post = sends(i); post != nullptr && ordered_.contains(post->exchange)) move_after(i, from);
      for (std::size_t i = to; i-- > from;)
        if (goes_down(i)) lower(i, to);
      for (std::size_t i = from; i < to && !ordered_.empty(); i++)
        if (const auto* wait = std::get_if<Wait>(&step(i).what); wait != nullptr && ordered_.contains(wait->exchange))
          i = move_before(i, to);
      from = to;
    }
    std::vector<ProgramStep> ordered;
    ordered.reserve(steps_.size());
    for (const std::uint32_t s : order_) ordered.push_back(std::move(steps_[s]));
    steps_ = std::move(ordered);
  }

 private:
  const ProgramStep& step(std::size_t i) const { return steps_[order_[i]]; }
  const Touches& touches(std::size_t i) const { return touches_[order_[i]]; }
  Index item(int buffer) const { return static_cast<Index>(bytes_of(at(program_.buffers, buffer).dtype)); }

  // A Wait uses the buffers of its Post: these are in flight until then. Flags concern a whole buffer: peers may read a buffer that
  // is shown to them, and write one that they show; the rank that acknowledges or grants (no bytes) gives the buffer up, and the
  // rank that waited for this may write it.
  Touches touches_of(const ProgramStep& step) {
    Touches out;
    if (const auto* run = std::get_if<RunKernel>(&step.what)) {
      const std::vector<OperandUse> uses = operands_of(run->spec);
      for (std::size_t k = 0; k < uses.size(); k++)
        out.push_back(
            {run->operands[k].buffer, run->operands[k].element, run->operands[k].element + uses[k].elements, uses[k].written});
    } else if (const auto* post = std::get_if<Post>(&step.what)) {
      for (const auto* pieces : {&post->sends, &post->receives})
        for (const Piece& p : *pieces)
          if (p.window)
            out.push_back({p.at.buffer, 0, kAll, (pieces == &post->receives) != (p.bytes == 0)});
          else
            out.push_back({p.at.buffer, p.at.element, p.at.element + p.bytes / item(p.at.buffer), pieces == &post->receives});
      under_way_[post->exchange] = out;
    } else {
      out = under_way_.at(std::get<Wait>(step.what).exchange);
    }
    return out;
  }

  bool is_copy_of(std::size_t i, const std::set<int>& buffers, bool result) const {
    const auto* run = std::get_if<RunKernel>(&step(i).what);
    if (run == nullptr || run->spec.op != KernelOp::map) return false;
    if (result) return run->purpose == Purpose::move && buffers.contains(run->operands.back().buffer);
    return std::any_of(run->operands.begin(), run->operands.end() - 1, [&](const Place& p) { return buffers.contains(p.buffer); });
  }
  bool is_post(std::size_t i) const {
    const auto* post = std::get_if<Post>(&step(i).what);
    return post != nullptr && pending_.contains(post->exchange);
  }
  bool is_wait(std::size_t i) const {
    const auto* wait = std::get_if<Wait>(&step(i).what);
    return wait != nullptr && pending_.contains(wait->exchange);
  }
  bool goes_up(std::size_t i) const { return is_post(i) || is_copy_of(i, sent_, true); }
  bool goes_down(std::size_t i) const { return is_wait(i) || is_copy_of(i, received_, false); }

  struct Life {
    std::size_t first = kNotUsed, last = 0;
  };
  Index bytes(std::size_t buffer) const { return program_.buffers[buffer].bytes; }
  bool in_arena(std::size_t buffer) const { return program_.buffers[buffer].space == Space::arena; }
  // Where the buffer is live: also in the micro-batches to which the first one leaves it.
  Life life(std::size_t buffer) const {
    const Life& used = lives_[buffer];
    return lasts_[buffer] ? Life{0, std::max(used.last, static_cast<std::size_t>(std::max(1, program_.combine_begin)) - 1)} : used;
  }
  void add_bytes(std::size_t buffer, Index bytes) {
    if (!in_arena(buffer) || lives_[buffer].first == kNotUsed) return;
    begun_[life(buffer).first] += bytes;
    begun_[life(buffer).last + 1] -= bytes;
  }
  // Finds where the buffers of these steps are first and last used, and the bytes alive per step. The other steps are as they were.
  void count_lives(std::size_t from, std::size_t to) {
    std::vector<std::size_t> used;
    for (std::size_t s = from; s <= to; s++)
      for (const Touch& t : touches(s))
        if (const auto b = static_cast<std::size_t>(t.buffer); !is_used_[b]) {
          is_used_[b] = true;
          used.push_back(b);
        }
    for (const std::size_t b : used) {
      add_bytes(b, -bytes(b));
      if (lives_[b].first >= from) lives_[b].first = kNotUsed;
      if (lives_[b].last <= to) lives_[b].last = 0;
    }
    for (std::size_t s = from; s <= to; s++)
      for (const Touch& t : touches(s)) {
        Life& life = at(lives_, t.buffer);
        life = {std::min(life.first, s), std::max(life.last, s)};
      }
    for (const std::size_t b : used) {
      add_bytes(b, bytes(b));
      is_used_[b] = false;
    }
    for (std::size_t s = from; s <= to; s++) live_[s] = begun_[s] + (s == 0 ? 0 : live_[s - 1]);
  }
  // Bytes of the buffers that step i uses first (or last), which would live longer.
  Index grows(std::size_t i, std::size_t Life::*end) const {
    std::set<std::size_t> buffers;
    for (const Touch& t : touches(i))
      if (const auto b = static_cast<std::size_t>(t.buffer); in_arena(b) && life(b).*end == i) buffers.insert(b);
    Index sum = 0;
    for (std::size_t b : buffers) sum += bytes(b);
    return sum;
  }
  bool fits(std::size_t here, Index more) const { return static_cast<double>(live_[here] + more) <= most_; }

  void put(std::size_t i, std::size_t to) {  // moves step i to another place
    if (i == to) return;
    const auto nth = [&](std::size_t k) { return order_.begin() + static_cast<std::ptrdiff_t>(k); };
    to < i ? std::rotate(nth(to), nth(i), nth(i + 1)) : std::rotate(nth(i), nth(i + 1), nth(to + 1));
    count_lives(std::min(i, to), std::max(i, to));
  }
  void raise(std::size_t i, std::size_t from) {
    const Index more = grows(i, &Life::first);
    std::size_t to = i;
    while (to > from && !meet(touches(to - 1), touches(i)) && fits(to - 1, more)) to--;
    while (to < i && goes_up(to)) to++;  // steps moved to the same place keep their order
    put(i, to);
  }
  const Post* sends(std::size_t i) const {
    const auto* post = std::get_if<Post>(&step(i).what);
    return post == nullptr || post->sends.empty() ? nullptr : post;
  }
  // Moves steps from before the Post at i to after it, except those that it needs, or that a step that stays needs.
  void move_after(std::size_t i, std::size_t from) {
    for (std::size_t k = i; k-- > from && sends(k) == nullptr && !is_wait(k);) {
      if (!std::holds_alternative<RunKernel>(step(k).what)) continue;
      bool free = true;
      for (std::size_t s = k + 1; s <= i && free; s++) free = !meet(touches(s), touches(k));
      if (!free) continue;
      const Index more = grows(k, &Life::last);
      for (std::size_t s = k + 1; s <= i && free; s++) free = fits(s, more);
      if (free) put(k, i--);
    }
  }
  // Returns the new position of the Wait at i. It, and steps that need it or a step that stays, remain after it.
  std::size_t move_before(std::size_t i, std::size_t end) {
    for (std::size_t k = i + 1; k < end; k++) {
      if (sends(k) != nullptr) break;
      if (!std::holds_alternative<RunKernel>(step(k).what)) continue;
      bool free = true;
      for (std::size_t s = i; s < k && free; s++) free = !meet(touches(s), touches(k));
      if (!free) continue;
      const Index more = grows(k, &Life::first);
      for (std::size_t s = i; s < k && free; s++) free = fits(s, more);
      if (free) put(k, i++);
    }
    return i;
  }
  void lower(std::size_t i, std::size_t end) {
    const Index more = grows(i, &Life::last);
    std::size_t to = i;
    while (to + 1 < end && !meet(touches(to + 1), touches(i)) && fits(to + 1, more)) to++;
    while (to > i && goes_down(to)) to--;
    put(i, to);
  }

  Program& program_;
  std::vector<ProgramStep>& steps_;
  std::vector<Touches> touches_{};      // per step, as it was
  std::vector<std::uint32_t> order_{};  // of the steps
  std::map<int, Touches> under_way_{};
  std::set<int> pending_{}, ordered_{};  // exchanges
  std::set<int> sent_{}, received_{};    // buffers sent and received by these exchanges
  std::vector<bool> lasts_{};            // per buffer: live in all micro-batches
  std::vector<bool> is_used_{};          // per buffer: by the steps that count_lives() is given
  std::vector<Life> lives_{};            // per buffer: the steps that use it
  std::vector<Index> begun_{}, live_{};  // per step: bytes that are alive from it on, less those until the one before; bytes alive
  double most_ = 0;                      // bytes alive at once
};

}  // namespace

void overlap(Program& program, const std::function<Beside(const Post&)>& beside, double most_memory) {
  Overlapper(program, beside, most_memory).run();
}

void overlap(Program& program, const PlanData& plan, const std::set<int>& tiled) {
  auto may = [&](const Post& post) {
    auto far = [&](const Piece& p) { return !p.window && is_far(plan, program.rank, p.peer); };
    if (std::none_of(post.sends.begin(), post.sends.end(), far) && std::none_of(post.receives.begin(), post.receives.end(), far))
      return Beside::nothing;
    return tiled.contains(post.exchange) ? Beside::in_order_of_need : Beside::other_kernels;
  };
  overlap(program, may, kMostMemory);
}

}  // namespace motley
