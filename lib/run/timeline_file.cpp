// SPDX-License-Identifier: Apache-2.0
#include "run/timeline_file.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "base/json_fields.h"

namespace motley {

namespace {

constexpr double kNanosecond = 1e-9;
const std::vector<std::string> kKinds{"kernel", "post", "wait", "part"};  // as TraceItem::Kind

// begin, end, begin, end, ...
Json times_json(std::span<const TraceSpan> spans, double start) {
  Json::Array out;
  for (const TraceSpan& s : spans)
    for (const double t : {s.begin, s.end}) out.emplace_back(static_cast<std::int64_t>(std::llround((t - start) / kNanosecond)));
  return out;
}

Json item_json(const TraceItem& item) {
  Json out, peers{Json::Array{}};
  out.set("kind", kKinds[static_cast<std::size_t>(item.kind)]).set("name", item.name).set("group", item.group);
  if (!item.layer.empty()) out.set("layer", item.layer);
  if (item.exchange >= 0) out.set("exchange", item.exchange).set("message", item.message);
  for (const TracePeer& peer : item.peers) {
    Json one;
    one.set("rank", peer.rank).set("bytes", peer.bytes);
    peers.push(std::move(one));
  }
  if (!item.peers.empty()) out.set("peers", std::move(peers));
  return out;
}

const Table<TracePeer>& peer_table() {
  static const Table<TracePeer> table{count_field("rank", "the other one", &TracePeer::rank),
                                      count_field("bytes", "from or to it", &TracePeer::bytes)};
  return table;
}

const Table<TraceItem>& item_table() {
  static const Table<TraceItem> table{
      word_field("kind", "of event", &TraceItem::kind, kKinds, true),
      text_field("name", "of the pass, exchange or part", &TraceItem::name),
      text_field("group", "what it counts to", &TraceItem::group),
      text_field("layer", "that it counts for", &TraceItem::layer, false),
      {"exchange", "its number", "integer", false,
       [](Reader& r, const Json& j, TraceItem& out) {
         std::int64_t number = 0;
         if (r.integer(j, number, 0, INT32_MAX)) out.exchange = static_cast<int>(number);
       }},
      boolean_field("message", "whether bytes are in flight", &TraceItem::message),
      list_field("peers", "ranks that bytes come from or go to", &TraceItem::peers, peer_table(), false)};
  return table;
}

void read_times(Reader& r, const Json& j, std::vector<TraceSpan>& out) {
  std::vector<double> times;
  r.list(j, [&](const Json& one, std::size_t) {
    std::int64_t ns = 0;
    if (r.integer(one, ns, -1000000000000000000))  // 31 years
      times.push_back(kNanosecond * static_cast<double>(ns));
  });
  if (times.size() % 2 != 0) r.complain(j, "expected pairs of numbers, found " + std::to_string(times.size()));
  for (std::size_t i = 0; i + 1 < times.size(); i += 2) out.push_back({times[i], times[i + 1]});
}

Field<RankTrace> times_field(const char* name, const char* doc, std::vector<TraceSpan> RankTrace::*member) {
  return {name, doc, "list", true, [member](Reader& r, const Json& j, RankTrace& out) { read_times(r, j, out.*member); }};
}

const Table<RankTrace>& timeline_ranks() {
  static const Table<RankTrace> table{
      text_field("device", "its name in the mesh", &RankTrace::device),
      boolean_field("own_clock", "whether the device timed its kernels", &RankTrace::own_clock),
      list_field("items", "the events of each step", &RankTrace::items, item_table()),
      times_field("measured_nanoseconds", "of each step's items, begin and end", &RankTrace::measured),
      times_field("simulated_nanoseconds", "of the items, begin and end", &RankTrace::simulated)};
  return table;
}

const Table<RunTrace>& trace_table() {
  static const Table<RunTrace> table{
      version_field<RunTrace>(VersionKey::required),
      {"steps", "their numbers", "list", true,
       [](Reader& r, const Json& j, RunTrace& out) {
         r.list(j, [&](const Json& one, std::size_t) { r.integer(one, out.steps.emplace_back(), 0); });
       }},
      number_or_null("predicted_step_seconds", "simulated", &RunTrace::predicted_step_seconds, 0, 1e12),
      list_field("ranks", "in order", &RunTrace::ranks, timeline_ranks()),
      texts_field("notes", "informative", &RunTrace::notes)};
  return table;
}

// Every rank has the events of every step, and each step its three parts.
void check_counts(Reader& r, const Json& j, const RunTrace& trace) {
  for (const RankTrace& rank : trace.ranks)
    if (rank.items.size() < kTraceParts || rank.measured.size() != trace.steps.size() * rank.items.size() ||
        (!rank.simulated.empty() && rank.simulated.size() != rank.items.size()))
      r.complain(j, "the times of " + rank.device + " are not those of its items");
}

}  // namespace

void save_timeline(const RunTrace& trace, const FileIn& file, const TimelineLimits& limits) {
  std::size_t events = 0;
  for (const RankTrace& rank : trace.ranks) events += rank.items.size();
  const std::size_t fit = events == 0 ? 0 : std::max<std::size_t>(1, limits.events / events);
  const std::size_t steps = std::min({trace.steps.size(), limits.steps, fit}), first = trace.steps.size() - steps;
  double start = HUGE_VAL;
  for (const RankTrace& rank : trace.ranks)
    for (std::size_t i = first * rank.items.size(); i < rank.measured.size(); i++) start = std::min(start, rank.measured[i].begin);
  Json out, ranks{Json::Array{}}, notes{Json::Array{}}, numbers{Json::Array{}};
  for (std::size_t k = first; k < trace.steps.size(); k++) numbers.push(trace.steps[k]);
  for (const RankTrace& rank : trace.ranks) {
    Json one, items{Json::Array{}};
    for (const TraceItem& item : rank.items) items.push(item_json(item));
    one.set("device", rank.device).set("own_clock", rank.own_clock).set("items", std::move(items));
    one.set("measured_nanoseconds", times_json(std::span(rank.measured).subspan(first * rank.items.size()), start))
        .set("simulated_nanoseconds", times_json(rank.simulated, 0));
    ranks.push(std::move(one));
  }
  for (const std::string& note : trace.notes) notes.push(note);
  out.set("version", 1).set("steps", std::move(numbers)).set("predicted_step_seconds", json_or_null(trace.predicted_step_seconds));
  write_text(file, to_text(out.set("ranks", std::move(ranks)).set("notes", std::move(notes))) + "\n");
}

RunTrace load_timeline(const std::filesystem::path& file) {
  Complaints complaints;
  const auto json = read_json(file.string(), read_file(file.string()), complaints, kByMotley);
  Reader reader{complaints};
  RunTrace out;
  if (json && reader.object(*json, trace_table(), out) && complaints.empty()) check_counts(reader, *json, out);
  complaints.raise(Exit::data);
  return out;
}

}  // namespace motley
