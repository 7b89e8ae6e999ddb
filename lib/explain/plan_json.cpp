// SPDX-License-Identifier: Apache-2.0
// A plan for people (table) and for programs (JSON, INTERFACE section 3).
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/at.h"
#include "base/json.h"
#include "base/units.h"
#include "base/utf8.h"
#include "explain/describe.h"
#include "explain/layer_table.h"
#include "plan/plan_data.h"
#include "plan/plan_file.h"
#include "profiler/scaled.h"

namespace motley {

namespace {

Json box_json(const Box& box) {
  Json list{Json::Array{}};
  for (const Range& r : box) list.push(Json{Json::Array{Json(r.begin), Json(r.end)}});
  return list;
}

Json per_rank(const std::vector<Shard>& held, int ranks) {
  std::vector<Json> lists(static_cast<std::size_t>(ranks), Json{Json::Array{}});
  for (const Shard& h : held) at(lists, h.rank).push(box_json(h.box));
  Json out{Json::Array{}};
  for (Json& l : lists) out.push(std::move(l));
  return out;
}

// Limit of a summary.
constexpr std::size_t kMostLayoutRows = 12;
constexpr int kMostRanks = 16;
constexpr std::size_t kMostExchanges = 24, kWidestParts = 40, kWidestBytes = 60, kMostPartColumns = 4;

// "64 parts of 0 to 12"
std::string summary_of_parts(const std::vector<std::vector<Index>>& lists) {
  Index least = lists.front().front(), most = least;
  for (const auto& list : lists)
    for (Index size : list) least = std::min(least, size), most = std::max(most, size);
  return (lists.size() > 1 ? std::to_string(lists.size()) + " lists of " : "") + std::to_string(lists.front().size()) +
         " parts of " + std::to_string(least) + " to " + std::to_string(most);
}

// If there are many ranks: those that compute longest.
std::string rank_rows(const PlanData& d, const Mesh& mesh, bool full) {
  std::string out = "ranks                             busy     idle   received per step      memory\n";
  std::vector<std::size_t> shown(d.predicted.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  const bool some = !full && mesh.ranks() > kMostRanks;
  if (some) {
    std::stable_sort(shown.begin(), shown.end(),
                     [&](std::size_t a, std::size_t b) { return d.predicted[a].seconds > d.predicted[b].seconds; });
    shown.resize(kMostRanks);
  }
  for (std::size_t r : shown) {
    const PredictedRank& p = d.predicted[r];
    std::string idle = "-";
    if (d.step_seconds && *d.step_seconds > 0) idle = fmt::format("{:.0f} %", 100 * std::max(0.0, 1 - p.seconds / *d.step_seconds));
    out +=
        fmt::format("  {:<2} {:<24} {:>10} {:>7} {:>17} {:>11}\n", r, first_characters(mesh.device(static_cast<int>(r)).name, 24),
                    d.step_seconds ? seconds_text(p.seconds) : "unknown", idle, bytes_text(static_cast<double>(p.bytes)),
                    bytes_text(static_cast<double>(p.memory_bytes)));
  }
  if (some) {
    const int more = mesh.ranks() - kMostRanks;
    std::string rest =
        "  and " + std::to_string(more) + (more == 1 ? " rank" : " ranks") + (d.step_seconds ? " that compute less" : "");
    std::vector<double> busy;
    for (const PredictedRank& p : d.predicted) busy.push_back(p.seconds);
    if (d.step_seconds) rest += ", down to " + seconds_text(*std::min_element(busy.begin(), busy.end()));
    out += rest + "; --full lists all\n";
  }
  return out;
}

// If there are many exchanges: the largest; if there are many ranks: the sum and the rank that receives most.
std::string exchange_rows(std::vector<Described> exchanges, bool full) {
  if (exchanges.empty()) return "";
  const auto sum_of = [](const Described& e) { return std::accumulate(e.bytes.begin(), e.bytes.end(), Index{0}); };
  const std::size_t all = exchanges.size();
  Index left_out = 0;
  if (!full && all > kMostExchanges) {
    std::vector<std::size_t> order(all);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return sum_of(exchanges[a]) > sum_of(exchanges[b]); });
    for (std::size_t k = kMostExchanges; k < all; k++) left_out += sum_of(exchanges[order[k]]);
    order.resize(kMostExchanges);
    std::sort(order.begin(), order.end());  // back in the plan's order
    std::vector<Described> largest;
    for (std::size_t k : order) largest.push_back(std::move(exchanges[k]));
    exchanges = std::move(largest);
  }
  const std::size_t ranks = exchanges.front().bytes.size();
  const bool columns = ranks <= kMostPartColumns;
  std::string out = columns ? padded("exchanges: received per step", 51)
                            : "exchanges                                        received by each rank";
  for (std::size_t r = 0; r < ranks && columns; r++) out += fmt::format("{:>11}", "rank " + std::to_string(r));
  out += "\n";
  for (const Described& e : exchanges) {
    std::string bytes;
    for (Index b : e.bytes) {
      const std::string one = columns && b == 0 ? "-" : bytes_text(static_cast<double>(b));
      bytes += columns ? fmt::format("{:>11}", one) : (bytes.empty() ? "" : " ") + one;
    }
    if (!full && bytes.size() > kWidestBytes) {
      const auto most = std::max_element(e.bytes.begin(), e.bytes.end());
      bytes = bytes_text(static_cast<double>(sum_of(e))) + " in total, at most " + bytes_text(static_cast<double>(*most)) +
              " (rank " + std::to_string(most - e.bytes.begin()) + ")";
    }
    out += "  " + padded(to_string(e.kind), 15) + padded(e.tensor, 34) + bytes + (e.tiled ? "  tiled" : "") +
           (e.schedule == "direct" ? "" : "  " + e.schedule) + "\n";
  }
  if (all > exchanges.size())
    out += "  and " + std::to_string(all - exchanges.size()) + " smaller ones, " + bytes_text(static_cast<double>(left_out)) +
           " in total; --full lists them\n";
  return out;
}

// What was chosen for layers that the layout left open: runs of layers with one cut are a row.
std::string layout_rows(const PlanData& d, bool full) {
  if (d.layout.empty()) return "";
  struct Row {
    std::string first{}, last{};
    const LayerChoice* least = nullptr;  // of which another cut costs least
  };
  const auto ends = [](const std::string& layers) {
    const std::size_t to = layers.find(" to ");
    return to == std::string::npos ? std::pair{layers, layers} : std::pair{layers.substr(0, to), layers.substr(to + 4)};
  };
  std::vector<Row> rows;
  for (const LayerChoice& c : d.layout) {
    const auto [first, last] = ends(c.layers);
    if (rows.empty() || rows.back().least->cut != c.cut) {
      rows.push_back({first, last, &c});
      continue;
    }
    rows.back().last = last;
    const LayerChoice*& least = rows.back().least;
    if (c.next_best_seconds && (!least->next_best_seconds || *c.next_best_seconds < *least->next_best_seconds)) least = &c;
  }
  std::string out = padded("layout, chosen", 42) + padded("cut", 28) + "next best, of one layer\n";
  const std::size_t shown = full ? rows.size() : std::min(rows.size(), kMostLayoutRows);
  for (std::size_t i = 0; i < shown; i++) {
    const Row& row = rows[i];
    const LayerChoice& least = *row.least;
    out += "  " + padded(row.first == row.last ? row.first : row.first + " to " + row.last, 40) + padded(least.cut, 28);
    if (least.next_best_seconds)
      out += fmt::format("{} {}, {}", ends(least.layers).first, least.next_best,
                         *least.next_best_seconds <= d.step_seconds.value_or(0)
                             ? "no slower by tables"
                             : price_text(*least.next_best_seconds / std::max(d.step_seconds.value_or(0), 1e-30)));
    out += "\n";
  }
  return shown == rows.size() ? out : out + fmt::format("  and {} more; --full lists them\n", rows.size() - shown);
}

// And how far estimates are from what was measured, by rank. Empty: all kernels were measured.
std::string estimated_lines(const PlanData& d, const Mesh& mesh, const Profile& profile, bool full) {
  const double share = estimated_share(d).value_or(0);
  if (share <= 0) return "";
  std::string out = (modelled_words(mesh).empty() ? "estimated: kernels that were not measured, "
                                                  : "modelled: kernels whose seconds follow from the mesh's numbers, ") +
                    percent_text(share) + " of the seconds in which ranks compute\n";
  for (int r = 0; r < mesh.ranks() && (full || mesh.ranks() <= kMostRanks); r++)
    if (const std::string line = at(d.predicted, r).estimated_seconds > 0 ? error_line(profile, r) : ""; !line.empty())
      out += "  " + line + "\n";
  return out;
}

Json tensors_json(const PlanData& d, const Mesh& mesh) {
  Json out{Json::Object{}};
  for (std::size_t t = 0; t < d.tensors.size(); t++) {
    const StepTensor& s = d.passes.tensors[t];
    if (s.role == TensorRole::seed) continue;
    Json one{Json::Object{}};
    one.set("boxes", per_rank(resting_boxes(d, mesh, static_cast<int>(t)), mesh.ranks()));
    one.set("owners", per_rank(d.tensors[t].owners, mesh.ranks()));
    out.set(s.name, std::move(one));
  }
  return out;
}

Json exchanges_json(const PlanData& d, int ranks) {
  Json out{Json::Array{}};
  for (const Described& e : describe_exchanges(d, ranks)) {
    Json one{Json::Object{}};
    one.set("tensor", e.tensor).set("kind", to_string(e.kind)).set("bytes", sizes_json(e.bytes)).set("schedule", e.schedule);
    if (e.tiled) one.set("tiled", true);
    out.push(std::move(one));
  }
  return out;
}

}  // namespace

namespace {

Json whole_json(const Plan& plan, PlanDetail detail) {
  Json out = kept_json(plan);
  if (const int ranks = plan.mesh().ranks(); detail == PlanDetail::full || ranks <= kMostRanks)
    out.set("tensors", tensors_json(plan.data(), plan.mesh())).set("exchanges", exchanges_json(plan.data(), ranks));
  return out;
}

}  // namespace

std::string Plan::json(PlanDetail detail) const {
  return to_text(whole_json(*this, detail), 1) + "\n";
}

std::string plan_file_text(const Plan& training, const Plan* evaluation, const std::string& made_for, const Profile& profile,
                           PlanDetail detail) {
  Json out = whole_json(training, detail);
  if (detail == PlanDetail::full || training.mesh().ranks() <= kMostRanks)
    out.set("layers", layers_json(layer_seconds(training.data(), profile)));
  if (!made_for.empty()) out.set("made_for", made_for);
  if (evaluation != nullptr) out.set("evaluation", kept_json(*evaluation));
  return to_text(out, 1) + "\n";
}

std::string Plan::table(PlanDetail detail) const {
  return table(Profile(), detail);
}

std::string Plan::table(const Profile& profile, PlanDetail detail) const {
  const PlanData& d = data();
  const bool full = detail == PlanDetail::full;
  std::string out = layout_rows(d, full) + "cuts\n";
  if (d.cuts.empty()) out += "  none: no dim has a rule\n";
  std::size_t widest = 14;
  for (const CutChoice& c : d.cuts) widest = std::max(widest, characters(c.dim, 0, c.dim.size()));
  for (const CutChoice& c : d.cuts) {
    std::string parts = lists_text(c.parts);
    if (!full && parts.size() > kWidestParts) parts = summary_of_parts(c.parts);
    out += "  " + padded(c.dim, widest) + " over " + padded(c.axis, 8) + " " +
           padded(parts + (c.per.empty() ? "" : " along " + c.per), 20) + (c.why.empty() ? "" : "  " + c.why) + "\n";
  }
  out += rank_rows(d, mesh_, full);
  for (const std::string& line : idle_lines(d, mesh_)) out += line + "\n";
  out += d.step_seconds ? modelled_words(mesh_).empty() ? "memory: with the workspaces of kernels that were measured\n"
                                                        : "memory: without the workspaces of modelled devices' kernels\n"
                        : "memory: tensors only; kernel workspaces are extra and known only from a profile\n";
  if (d.step_seconds) {
    out += "predicted step " + seconds_text(*d.step_seconds) + modelled_words(mesh_);
    if (*d.step_q75 > 1.02 * *d.step_q25)
      out += " (middle half of the steps: " + seconds_text(*d.step_q25) + " to " + seconds_text(*d.step_q75) + ")";
    const char* between = "\ncompared with ";
    auto beside = [&](const char* name, const std::optional<double>& seconds) {
      if (!seconds) return;
      out += fmt::format("{}{} {} ({:.2f}x)", between, name, seconds_text(*seconds), *seconds / *d.step_seconds);
      between = ", ";
    };
    beside("even", d.baselines.even);
    beside("proportional", d.baselines.proportional);
    beside("fastest rank alone", d.baselines.fast_alone);
    out += "\n" + estimated_lines(d, mesh_, profile, full);
  }
  out += layer_table(layer_seconds(d, profile), detail);
  out += exchange_rows(describe_exchanges(d, mesh_.ranks()), full);
  for (const std::string& n : d.notes) out += "note: " + n + "\n";
  return out;
}

std::uint64_t Plan::hash() const {
  return data().hash;
}

}  // namespace motley
