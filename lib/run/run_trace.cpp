// SPDX-License-Identifier: Apache-2.0
#include "run/run_trace.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "base/at.h"
#include "base/clock.h"
#include "graph/layers.h"
#include "kernels/kernel_names.h"
#include "mesh/control.h"
#include "program/compile.h"
#include "program/steady.h"

namespace motley {

namespace {

constexpr int kClockRounds = 16;
constexpr std::size_t kFeed = static_cast<std::size_t>(TracePart::feed), kLoss = static_cast<std::size_t>(TracePart::loss),
                      kFigures = static_cast<std::size_t>(TracePart::figures);

// Bytes per rank, summed and ordered by rank.
std::vector<TracePeer> sum_by_rank(const std::vector<TracePeer>& peers) {
  std::map<int, Index> bytes;
  for (const TracePeer& p : peers) bytes[p.rank] += p.bytes;
  std::vector<TracePeer> out;
  for (const auto& [rank, sum] : bytes) out.push_back({rank, sum});
  return out;
}

std::vector<TracePeer> peers_of(const std::vector<Piece>& pieces) {
  std::vector<TracePeer> out;
  for (const Piece& p : pieces) out.push_back({p.peer, p.bytes});
  return sum_by_rank(out);
}

TraceItem item_of(const Program& program, const RunKernel& run) {
  TraceItem item{.kind = TraceItem::Kind::kernel, .name = run.pass};
  for (std::size_t k = 0; k + 1 < run.operands.size(); k++)
    if (const Buffer& b = at(program.buffers, run.operands[k].buffer); b.space == Space::peer)
      item.peers.push_back({b.peer, b.bytes});
  item.peers = sum_by_rank(item.peers);
  const KernelOp op = run.spec.op;
  if (run.purpose == Purpose::update)
    item.group = "update";
  else if (op == KernelOp::map && !item.peers.empty())
    item.group = "reads in place";
  else if (run.purpose == Purpose::move)
    item.group = "copies";
  else if (op == KernelOp::map)
    item.group = "maps";
  else
    item.group = name_of(op) + " " + name_of(run.spec.pass);
  return item;
}

TraceItem item_of(const Program& program, int exchange, const Post& post, TraceItem::Kind kind) {
  const bool posts = kind == TraceItem::Kind::post;
  const auto is_message = [](const Piece& p) { return !p.window; };
  return {.kind = kind,
          .name = at(program.exchange_names, exchange),
          .group = posts ? "posts" : "waits",
          .peers = peers_of(posts ? post.sends : post.receives),
          .exchange = exchange,
          .message = std::any_of(post.sends.begin(), post.sends.end(), is_message) ||
                     std::any_of(post.receives.begin(), post.receives.end(), is_message)};
}

struct RecordedStep {  // by one rank's ring
  std::vector<Index> steps{};
  std::vector<TraceSpan> spans{};
  double ahead = 0;  // seconds to add to that rank's clock
};

RecordedStep recorded_by(const StepTrace& trace) {
  RecordedStep out;
  for (std::size_t k = 0; k < trace.steps(); k++) {
    out.steps.push_back(trace.number(k));
    const auto spans = trace.spans(k);
    out.spans.insert(out.spans.end(), spans.begin(), spans.end());
  }
  return out;
}

// Names each event's layer: a kernel's own, an exchange's where all that it moves belongs to one.
void name_layers(std::vector<TraceItem>& items, const Program& program, const Layers& layers) {
  for (std::size_t i = 0; i < program.steps.size(); i++) {
    std::set<int> its;
    if (const auto* run = std::get_if<RunKernel>(&program.steps[i].what))
      its.insert(run->layer);
    else
      for (int t : at(program.moved, items[i].exchange).tensors) its.insert(at(layers.of_tensor, t));
    if (its.size() == 1 && *its.begin() >= 0) items[i].layer = at(layers.names, *its.begin());
  }
}

// Every rank's record, on rank 0, one rank after another: other ranks do not need it.
std::vector<RecordedStep> collect(RecordedStep mine, Transport& transport) {
  struct Memory {  // of one rank's messages
    double time = 0;
    std::uint64_t sizes[2]{};
    RecordedStep trace{};
  };
  const auto send = [](control::InFlight& messages, int to, auto&& values) {
    messages.send(to, control::kTrace, std::as_bytes(std::span(values)));
    messages.finish("the trace");
  };
  const auto receive = [](control::InFlight& messages, int from, auto&& values) {
    messages.receive(from, control::kTrace, std::as_writable_bytes(std::span(values)));
    messages.finish("the trace");
  };
  std::vector<RecordedStep> all;
  if (transport.rank() != 0) {
    const auto out = std::make_shared<Memory>();
    control::InFlight messages(transport, out);
    out->trace = std::move(mine);
    for (int k = 0; k < kClockRounds; k++) {
      receive(messages, 0, std::span(&out->time, 1));
      out->time = seconds_now();
      send(messages, 0, std::span(&out->time, 1));
    }
    out->sizes[0] = out->trace.steps.size();
    out->sizes[1] = out->trace.spans.size();
    send(messages, 0, out->sizes);
    send(messages, 0, out->trace.steps);
    send(messages, 0, out->trace.spans);
    return all;
  }
  all.push_back(std::move(mine));
  for (int r = 1; r < transport.size(); r++) {
    const auto in = std::make_shared<Memory>();
    control::InFlight messages(transport, in);
    double least = HUGE_VAL;  // the clock is taken to be read in the middle of the shortest round trip
    for (int k = 0; k < kClockRounds; k++) {
      const double before = seconds_now();
      send(messages, r, std::span(&in->time, 1));
      receive(messages, r, std::span(&in->time, 1));
      const double after = seconds_now();
      if (after - before < least) in->trace.ahead = (before + after) / 2 - in->time;
      least = std::min(least, after - before);
    }
    receive(messages, r, in->sizes);
    in->trace.steps.resize(in->sizes[0]);
    in->trace.spans.resize(in->sizes[1]);
    receive(messages, r, in->trace.steps);
    receive(messages, r, in->trace.spans);
    all.push_back(std::move(in->trace));
  }
  return all;
}

// A rank with a longer Program keeps fewer steps.
std::vector<Index> recorded_by_all(const std::vector<RecordedStep>& ranks) {
  std::vector<Index> common = ranks.front().steps;
  for (const RecordedStep& h : ranks) {
    std::vector<Index> both;
    std::set_intersection(common.begin(), common.end(), h.steps.begin(), h.steps.end(), std::back_inserter(both));
    common = std::move(both);
  }
  return common;
}

// Reading the inputs and exchanging the figures take no virtual time.
void add_simulated(RunTrace& trace, const std::vector<Program>& programs, const Profile& profile) {
  const Simulated all = simulate(steady(programs), profile, {.timeline = true, .steps = 2});
  trace.predicted_step_seconds = all.step_seconds;
  for (std::size_t r = 0; r < programs.size(); r++) {
    std::vector<TraceSpan>& out = trace.ranks[r].simulated;
    const TraceSpan agreed{all.agreement[r].begin, all.agreement[r].end};
    double begin = agreed.begin, end = agreed.end;
    std::size_t simulated = 0;
    for (std::size_t i = 0; i < programs[r].steps.size(); i++) {
      if (is_kept(programs[r], i)) {  // no time, where it would be
        const double at = simulated == 0 ? 0 : all.timeline[r][simulated - 1].end;
        out.push_back({at, at});
        continue;
      }
      const SimulatedStep& step = all.timeline[r][simulated++];
      const TraceSpan& s = out.emplace_back(TraceSpan{step.begin, step.end});
      if (!programs[r].steps[i].once) begin = std::min(begin, s.begin);  // as measured: in the last micro-batch
      end = std::max(end, s.end);
    }
    if (programs[r].directs) {
      const SimulatedStep norms = all.norms[r];
      out.push_back(norms.end > norms.begin ? TraceSpan{norms.begin, norms.end} : TraceSpan{end, end});
      end = std::max(end, norms.end);
    }
    TraceSpan parts[kTraceParts];
    parts[kFeed] = {begin, begin};
    parts[kLoss] = agreed;
    parts[kFigures] = {end, end};
    out.insert(out.end(), std::begin(parts), std::end(parts));
  }
}

}  // namespace

std::vector<TraceItem> trace_items(const Program& program) {
  std::vector<TraceItem> out;
  std::map<int, const Post*> posts;
  for (const ProgramStep& s : program.steps) {
    if (const auto* run = std::get_if<RunKernel>(&s.what)) {
      out.push_back(item_of(program, *run));
    } else if (const auto* post = std::get_if<Post>(&s.what)) {
      posts[post->exchange] = post;
      out.push_back(item_of(program, post->exchange, *post, TraceItem::Kind::post));
    } else {
      const int exchange = std::get<Wait>(s.what).exchange;
      out.push_back(item_of(program, exchange, *posts.at(exchange), TraceItem::Kind::wait));
    }
  }
  TraceItem parts[kTraceParts];
  if (program.directs) out.push_back({.kind = TraceItem::Kind::part, .name = "exchange norms", .group = "agreements"});
  parts[kFeed] = {.kind = TraceItem::Kind::part, .name = "feed", .group = "feed"};
  parts[kLoss] = {.kind = TraceItem::Kind::part, .name = "agree on the loss", .group = "agreements"};
  parts[kFigures] = {.kind = TraceItem::Kind::part, .name = "exchange figures", .group = "agreements"};
  out.insert(out.end(), std::begin(parts), std::end(parts));
  return out;
}

RunTrace gather_trace(const Plan& plan, const Profile& profile, const StepTrace& mine, Transport& transport) {
  RunTrace out;
  std::vector<RecordedStep> all = collect(recorded_by(mine), transport);
  if (transport.rank() != 0) return out;
  const PlanData& data = plan.data();
  out.steps = recorded_by_all(all);
  std::vector<Program> programs;
  const std::vector<int>& hosts = transport.hosts();
  const CommonPlan common(data, {.hosts = hosts});
  const Layers layers = layers_of(data.passes);
  bool other_hosts = false;
  for (std::size_t r = 0; r < all.size(); r++) {
    programs.push_back(compile(common, static_cast<int>(r)));
    RankTrace& rank = out.ranks.emplace_back();
    rank.device = plan.mesh().device(static_cast<int>(r)).name;
    rank.own_clock = data.on_device[r];
    rank.items = trace_items(programs[r]);
    name_layers(rank.items, programs[r], layers);
    const std::size_t events = rank.items.size();
    check(all[r].spans.size() == all[r].steps.size() * events, "a rank records the events of its Program");
    for (std::size_t k = 0; k < all[r].steps.size(); k++)
      if (std::binary_search(out.steps.begin(), out.steps.end(), all[r].steps[k]))
        rank.measured.insert(rank.measured.end(), all[r].spans.begin() + static_cast<std::ptrdiff_t>(k * events),
                             all[r].spans.begin() + static_cast<std::ptrdiff_t>((k + 1) * events));
    if (hosts.empty() || hosts[r] == hosts[0]) continue;
    other_hosts = true;
    for (TraceSpan& s : rank.measured) s = {s.begin + all[r].ahead, s.end + all[r].ahead};
  }
  if (other_hosts)
    out.notes.push_back(
        "ranks that cannot map rank 0's memory (other hosts): their clocks are set by the shortest of 16 round trips after the "
        "run");
  if (profile.empty())
    out.notes.push_back(
        "no profile: nothing is predicted; motley profile JOB measures one, and a job that names it has a simulated side");
  else
    add_simulated(out, programs, profile);
  return out;
}

}  // namespace motley
