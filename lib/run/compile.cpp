// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>

#include <algorithm>

#include "run/compiler.h"

namespace motley {

namespace {

constexpr double kRoom = 1.125;  // that exchanges under way may take of the memory of a step: an eighth more

}  // namespace

Program compile(const Plan& plan, int rank, const CompileOptions& options) { return Compiler(plan.data(), rank, options).compile(); }

Compiler::Compiler(const PlanData& data, int rank, const CompileOptions& options)
    : data_(data), all_(data.passes), rank_(rank), options_(options) {
  out_.rank = rank;
  out_.dtype = data_.dtype;
  out_.main_buffer.assign(all_.tensors.size(), -1);
  writers_.resize(all_.tensors.size());
  readers_.resize(all_.tensors.size());
  for (std::size_t p = 0; p < all_.passes.size(); p++) {
    writers_[static_cast<std::size_t>(all_.passes[p].writes.tensor)].push_back(static_cast<int>(p));
    for (const PassOperand& o : all_.passes[p].reads) readers_[static_cast<std::size_t>(o.tensor)].push_back(static_cast<int>(p));
  }
  opens_.resize(all_.passes.size());
  for (std::size_t t = 0; t < all_.tensors.size(); t++) {
    if (writers_[t].empty()) continue;
    int p = writers_[t].front();
    if (pass(p).op == KernelOp::fold && pass(p).fold == FoldKind::activation)  // the kernel before it may do it
      if (const auto& before = writers_[static_cast<std::size_t>(pass(p).reads[0].tensor)]; !before.empty()) p = before.front();
    opens_[static_cast<std::size_t>(p)].push_back(static_cast<int>(t));
  }
}

bool Compiler::works(int p) const {
  const auto& work = data_.pass_plans[static_cast<std::size_t>(p)].work;
  return !work.empty() && work[static_cast<std::size_t>(rank_)].any;
}

int Compiler::add_buffer(const std::string& name, DType dtype, const Box& box, Format format, Space space) {
  Buffer b;
  b.name = name;
  b.dtype = dtype;
  b.box = box;
  b.format = box.size() < 3 ? Format::plain : format;
  b.space = space;
  b.bytes = volume(box) * static_cast<Index>(bytes_of(dtype));
  out_.buffers.push_back(std::move(b));
  return static_cast<int>(out_.buffers.size()) - 1;
}

int Compiler::temp(const std::string& name, DType dtype, const std::vector<Index>& extents, Format format) {
  Box box;
  for (Index e : extents) box.push_back({0, e});
  return add_buffer(name, dtype, box, format);
}

View Compiler::fresh_view(const std::string& name, int t, const Box& box) {
  const int made = add_buffer(name, dtype_of(t), box, format_of(t));
  return view_of(out_.buffers[static_cast<std::size_t>(made)], made, box);
}

View Compiler::peer_view(const std::string& name, int t, const Box& box, int peer, int exchange, int piece) {
  const int made = add_buffer(name, dtype_of(t), box, format_of(t), Space::peer);
  Buffer& b = out_.buffers[static_cast<std::size_t>(made)];
  b.peer = peer;
  b.exchange = exchange;
  b.piece = piece;
  return view_of(b, made, box);
}

int Compiler::main_buffer(int t) {
  int& at = out_.main_buffer[static_cast<std::size_t>(t)];
  if (at >= 0) return at;
  if (const Together& mine = together_at(t); std::find(mine.ranks.begin(), mine.ranks.end(), rank_) != mine.ranks.end()) {
    if (mine.home == rank_)
      return at = add_buffer(tensor(t).name, dtype_of(t), mine.box, format_of(t));
    return at = peer_view(tensor(t).name, t, mine.box, mine.home, rooms_.at(t).exchange, 0).buffer;
  }
  std::optional<Box> all;
  auto take = [&](const Box& box) { all = all ? hull(*all, box) : box; };
  const TensorPlan& plan = plan_of(t);
  for (const auto* list : {&plan.rest, &plan.tiles, &plan.needs})
    for (const Held& h : *list)
      if (h.rank == rank_ && !(plan.arrives_in_blocks > 0 && list != &plan.tiles) && !(tensor(t).role == TensorRole::parameter && list != &plan.needs)) take(h.box);
  for (int p : writers_[static_cast<std::size_t>(t)])
    if (works(p) && direct(p)) take(operand_box(pass(p).writes, work_of(p).box));
  check(all.has_value(), "a tensor that is used here is held here");
  const Space space = tensor(t).role == TensorRole::seed ? Space::state : Space::arena;
  const int made = add_buffer(tensor(t).name, dtype_of(t), *all, format_of(t), space);
  out_.main_buffer[static_cast<std::size_t>(t)] = made;  // `at` may dangle after recursion
  return made;
}

// What arrives in blocks lies in as many buffers.
View Compiler::main_view(int t, const Box& box) {
  if (plan_of(t).arrives_in_blocks > 0 && !blocks_.contains(t)) {
    std::vector<Contribution>& blocks = blocks_[t];
    const std::vector<Box> boxes = arriving_blocks(data_, t, rank_);
    for (std::size_t k = 1; k < boxes.size(); k++) blocks.push_back({boxes[k], fresh_view("block of " + tensor(t).name, t, boxes[k])});
  }
  int buffer = -1;
  if (const auto at = blocks_.find(t); at != blocks_.end())
    for (const Contribution& block : at->second)
      if (contains(block.box, box)) buffer = block.view.buffer;
  if (buffer < 0) buffer = main_buffer(t);
  return view_of(out_.buffers[static_cast<std::size_t>(buffer)], buffer, box);
}

// The boxes of every parameter that this rank owns, with room for their velocity.
void Compiler::make_slices() {
  for (int t : all_.parameters) {
    std::vector<Box> needs;
    for (const Held& h : plan_of(t).needs)
      if (h.rank == rank_) needs.push_back(h.box);
    std::size_t count = 0;
    for (const Held& h : plan_of(t).rest) count += h.rank == rank_ ? 1U : 0U;
    for (const Held& h : plan_of(t).rest) {
      if (h.rank != rank_) continue;
      Slice s;
      s.tensor = t;
      s.name = tensor(t).name;
      s.box = h.box;
      s.value = add_buffer(s.name, data_.dtype, h.box, format_of(t), Space::state);
      if (all_.trains) s.velocity = add_buffer("velocity of " + s.name, data_.dtype, h.box, format_of(t), Space::state);
      if (count == 1 && needs.size() == 1 && needs.front() == h.box && together_at(t).home < 0) out_.main_buffer[static_cast<std::size_t>(t)] = s.value;
      out_.slices.push_back(std::move(s));
    }
  }
}

Program Compiler::compile() {
  make_slices();
  for (std::size_t t = 0; t < all_.tensors.size(); t++) {
    const StepTensor& s = all_.tensors[t];
    const bool here = std::any_of(plan_of(static_cast<int>(t)).needs.begin(), plan_of(static_cast<int>(t)).needs.end(), [&](const Held& h) { return h.rank == rank_; });
    if (here && (s.role == TensorRole::input || s.role == TensorRole::label))
      out_.feeds.push_back({static_cast<int>(t), s.name, main_buffer(static_cast<int>(t))});
  }
  bool forward = true;
  for (std::size_t i = 0; i < all_.passes.size(); i++) {
    const int p = static_cast<int>(i), t = pass(p).writes.tensor;
    const TensorRole role = tensor(t).role;
    if (forward && (role == TensorRole::gradient || role == TensorRole::parameter_gradient)) {
      out_.forward_steps = static_cast<int>(out_.steps.size());
      forward = false;
      backward_ = true;
    }
    for (int made : opens_[i]) make_room(made);
    for (int w : writers_[static_cast<std::size_t>(t)])  // on some ranks the kernel takes its bias in: it comes before the kernel on all
      for (const PassOperand& o : pass(w).reads)
        if ((w == p || is_view(w)) && tensor(o.tensor).role == TensorRole::parameter) exchange_parameter(o.tensor);
    if (works(p) && !taken_.contains(p) && !is_view(p)) emit_pass(p);
    if (writers_[static_cast<std::size_t>(t)].back() == p) assemble(t);
    leave(p);
  }
  if (forward) out_.forward_steps = static_cast<int>(out_.steps.size());
  await_looks();  // an update writes what peers look at
  if (all_.trains) emit_updates();
  keep_pending(out_, [&](const Post& post) { return meanwhile(post); }, kRoom);
  finish();
  name_implementations();
  return std::move(out_);
}

Meanwhile Compiler::meanwhile(const Post& post) const {
  auto far = [&](const Piece& p) { return !p.window && is_far(data_, rank_, p.peer); };
  if (options_.pending == Pending::none || (std::none_of(post.sends.begin(), post.sends.end(), far) && std::none_of(post.receives.begin(), post.receives.end(), far)))
    return Meanwhile::nothing;
  return in_blocks_.contains(post.exchange) ? Meanwhile::in_order_of_need : Meanwhile::other_kernels;
}

void Compiler::name_implementations() {
  if (data_.implementations.empty()) return;
  const std::vector<ChosenKernel>& chosen = data_.implementations[static_cast<std::size_t>(rank_)];
  for (ProgramStep& s : out_.steps) {
    auto* run = std::get_if<RunKernel>(&s.what);
    if (run == nullptr) continue;
    const auto at = std::find_if(chosen.begin(), chosen.end(), [&](const ChosenKernel& c) { return c.spec == run->spec; });
    if (at != chosen.end()) run->implementation = at->implementation;
  }
}

void Compiler::finish() {
  const int end = static_cast<int>(out_.steps.size());
  std::map<int, std::set<int>> posted;  // exchange -> buffers in flight
  auto touch = [&](int buffer, int step) {
    Buffer& b = out_.buffers[static_cast<std::size_t>(buffer)];
    if (b.first < 0) b.first = step;
    b.last = std::max(b.last, step);
  };
  for (int s = 0; s < end; s++) {
    const auto& what = out_.steps[static_cast<std::size_t>(s)].what;
    if (const auto* run = std::get_if<RunKernel>(&what))
      for (const Place& o : run->operands) touch(o.buffer, s);
    if (const auto* post = std::get_if<Post>(&what))
      for (const auto* pieces : {&post->sends, &post->receives})
        for (const Piece& piece : *pieces) {
          touch(piece.at.buffer, s);
          posted[post->exchange].insert(piece.at.buffer);
        }
    if (const auto* wait = std::get_if<Wait>(&what))
      for (int b : posted[wait->exchange]) touch(b, s);
  }
  auto keep = [&](int buffer) {
    if (buffer < 0) return;
    Buffer& b = out_.buffers[static_cast<std::size_t>(buffer)];
    if (b.first < 0) b.first = 0;
    b.last = end;
  };
  for (int t : all_.outputs) keep(out_.main_buffer[static_cast<std::size_t>(t)]);
  for (int t : options_.keep) keep(out_.main_buffer[static_cast<std::size_t>(t)]);
  if (options_.keep_gradients)
    for (int t : all_.parameter_gradients) keep(out_.main_buffer[static_cast<std::size_t>(t)]);
  for (const FedBuffer& f : out_.feeds) out_.buffers[static_cast<std::size_t>(f.buffer)].first = -1;

  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < out_.buffers.size(); i++) {
    if (out_.buffers[i].space == Space::state)
      out_.state_bytes += out_.buffers[i].bytes;
    else if (out_.buffers[i].space == Space::arena && out_.buffers[i].last >= 0)
      order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return out_.buffers[a].bytes > out_.buffers[b].bytes; });
  std::vector<std::size_t> laid;
  for (std::size_t i : order) {  // the lowest gap among buffers that live at the same time
    Buffer& b = out_.buffers[i];
    const Index size = (b.bytes + 63) / 64 * 64;
    std::vector<std::pair<Index, Index>> busy;
    for (std::size_t k : laid) {
      const Buffer& other = out_.buffers[k];
      if (other.first <= b.last && b.first <= other.last) busy.emplace_back(other.offset, other.offset + (other.bytes + 63) / 64 * 64);
    }
    std::sort(busy.begin(), busy.end());
    b.offset = 0;
    for (const auto& [from, to] : busy) {
      if (from >= b.offset + size) break;
      b.offset = std::max(b.offset, to);
    }
    out_.arena_bytes = std::max(out_.arena_bytes, b.offset + size);
    laid.push_back(i);
  }
}

}  // namespace motley
