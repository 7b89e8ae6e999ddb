// SPDX-License-Identifier: Apache-2.0
// A TraceSummary as JSON, both directions, and as a table.
#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/core_use.h"
#include "base/files.h"
#include "base/json_fields.h"
#include "base/units.h"
#include "run/trace_summary.h"

namespace motley {

namespace {

Json quartiles_json(const Quartiles& q) {
  Json out;
  out.set("q25", q.q25).set("median", q.median).set("q75", q.q75);
  return out;
}

// The row's share of the gap between the measured and the predicted step; nothing if there is no gap.
std::optional<double> share(const TraceRow& row, const std::optional<double>& gap) {
  const auto difference = row.difference();
  if (!difference || !gap || std::abs(*gap) < 1e-9) return {};
  return *difference / *gap;
}

Json rows_json(const std::vector<TraceRow>& rows, const std::optional<double>& gap) {
  Json out{Json::Array{}};
  for (const TraceRow& row : rows) {
    Json one;
    one.set("name", row.name)
        .set("group", row.group)
        .set("measured_seconds", quartiles_json(row.measured))
        .set("predicted_seconds", json_or_null(row.predicted));
    one.set("difference_seconds", json_or_null(row.difference())).set("share_of_gap", json_or_null(share(row, gap)));
    out.push(std::move(one));
  }
  return out;
}

// ---- reading

template <class T>
Field<T> number_field(const char* name, const char* doc, double T::*member) {
  return {name, doc, "number", true, [member](Reader& r, const Json& j, T& out) { r.number(j, out.*member, -1e12, 1e12); }};
}

template <class T>
Field<T> known_field(const char* name, const char* doc, std::optional<double> T::*member) {
  return {name, doc, "number or null", true, [member](Reader& r, const Json& j, T& out) {
            if (std::holds_alternative<std::nullptr_t>(j.value)) return;
            double value = 0;
            if (r.number(j, value, -1e12, 1e12)) out.*member = value;
          }};
}

template <class T>
Field<T> quartiles_field(const char* name, Quartiles T::*member) {
  return {name, "over the measured steps", "object", true, [member](Reader& r, const Json& j, T& out) {
            static const Table<Quartiles> table{number_field("q25", "a quarter of the steps took less", &Quartiles::q25),
                                                number_field("median", "half of the steps took less", &Quartiles::median),
                                                number_field("q75", "three quarters of the steps took less", &Quartiles::q75)};
            r.object(j, table, out.*member);
          }};
}

template <class T>
Field<T> made_again(const char* name) {  // computed from the other fields
  return {name, "computed from the others", "number or null", false, [](Reader&, const Json&, T&) {}};
}

const Table<TraceRow>& row_table() {
  static const Table<TraceRow> table{text_field("name", "of the pass, exchange or part", &TraceRow::name),
                                     text_field("group", "what it counts to", &TraceRow::group),
                                     quartiles_field("measured_seconds", &TraceRow::measured),
                                     known_field("predicted_seconds", "simulated", &TraceRow::predicted),
                                     made_again<TraceRow>("difference_seconds"),
                                     made_again<TraceRow>("share_of_gap")};
  return table;
}

const Table<RankTraceSummary>& rank_table() {
  using Rank = RankTraceSummary;
  static const Table<Rank> table{text_field("device", "its name in the mesh", &Rank::device),
                                 known_field("disturbed", "share of the time in which others had its cores", &Rank::disturbed),
                                 quartiles_field("measured_step_seconds", &Rank::step),
                                 known_field("predicted_step_seconds", "simulated", &Rank::predicted_step),
                                 list_field("rows", "per pass and exchange", &Rank::rows, row_table()),
                                 list_field("groups", "the same, summed", &Rank::groups, row_table())};
  return table;
}

const Table<TraceSummary>& summary_table() {
  using Summary = TraceSummary;
  static const Table<Summary> table{version_field<Summary>(VersionKey::required),
                                    count_field("first_step", "of the measured ones", &Summary::first_step),
                                    count_field("last_step", "of the measured ones", &Summary::last_step),
                                    count_field("steps", "measured", &Summary::steps),
                                    quartiles_field("measured_step_seconds", &Summary::step),
                                    known_field("predicted_step_seconds", "simulated", &Summary::predicted_step),
                                    made_again<Summary>("difference_seconds"),
                                    made_again<Summary>("disturbed"),
                                    list_field("ranks", "in order", &Summary::ranks, rank_table()),
                                    texts_field("notes", "informative", &Summary::notes)};
  return table;
}

// ---- the table

// One unit for the whole table, so that rows compare at a glance.
struct Unit {
  const char* name;
  double seconds;
};
Unit unit_for(double step_seconds) {
  return step_seconds < 10e-3 ? Unit{"us", 1e-6} : Unit{"ms", 1e-3};
}
std::string in(const Unit& unit, const std::optional<double>& seconds, bool sign = false) {
  if (!seconds) return "unknown";
  return sign ? fmt::format("{:+.2f}", *seconds / unit.seconds) : fmt::format("{:.2f}", *seconds / unit.seconds);
}

std::string known_text(const std::optional<double>& seconds) {
  return seconds ? seconds_text(*seconds) : "unknown";
}

struct RankLine {
  std::string rank{};
  const TraceRow* row = nullptr;
};

std::string table_of(std::vector<RankLine> lines, const std::string& title, const TraceSummary& s, TraceOrder order) {
  std::stable_sort(lines.begin(), lines.end(),
                   [&](const RankLine& a, const RankLine& b) { return a.row->weight(order) > b.row->weight(order); });
  std::size_t width = title.size() + 5, group = 5;  // including the unit
  for (const RankLine& l : lines) {
    width = std::max(width, l.row->name.size());
    group = std::max(group, l.row->group.size());
  }
  const Unit unit = unit_for(s.step.median);
  constexpr const char* kForm = "{:<6}{:<{}}  {:<{}}{:>12}{:>12}{:>12}{:>12}{:>12}{:>9}\n";
  std::string out = fmt::format(kForm, "rank", fmt::format("{} ({})", title, unit.name), width, "group", group, "q25", "median",
                                "q75", "predicted", "difference", "of gap");
  for (const RankLine& l : lines) {
    const TraceRow& row = *l.row;
    const auto part = share(row, s.gap());
    out += fmt::format(kForm, l.rank, row.name, width, row.group, group, in(unit, row.measured.q25), in(unit, row.measured.median),
                       in(unit, row.measured.q75), in(unit, row.predicted), in(unit, row.difference(), true),
                       part ? fmt::format("{:.0f} %", 100 * *part) : "");
  }
  return out;
}

std::vector<RankLine> rank_lines(const TraceSummary& s, std::vector<TraceRow> RankTraceSummary::*rows) {
  std::vector<RankLine> out;
  for (std::size_t r = 0; r < s.ranks.size(); r++)
    for (const TraceRow& row : s.ranks[r].*rows) out.push_back({std::to_string(r), &row});
  return out;
}

}  // namespace

Json to_json(const TraceSummary& s) {
  const auto gap = s.gap();
  Json out, ranks{Json::Array{}}, notes{Json::Array{}};
  for (const RankTraceSummary& r : s.ranks) {
    Json one;
    one.set("device", r.device)
        .set("disturbed", json_or_null(r.disturbed))
        .set("measured_step_seconds", quartiles_json(r.step))
        .set("predicted_step_seconds", json_or_null(r.predicted_step));
    one.set("rows", rows_json(r.rows, gap)).set("groups", rows_json(r.groups, gap));
    ranks.push(std::move(one));
  }
  for (const std::string& note : s.notes) notes.push(note);
  out.set("version", 1).set("first_step", s.first_step).set("last_step", s.last_step).set("steps", s.steps);
  out.set("measured_step_seconds", quartiles_json(s.step))
      .set("predicted_step_seconds", json_or_null(s.predicted_step))
      .set("difference_seconds", json_or_null(gap));
  out.set("disturbed", json_or_null(s.disturbed())).set("ranks", std::move(ranks)).set("notes", std::move(notes));
  return out;
}

std::string to_text(const TraceSummary& s, TraceOrder order) {
  std::string out = table_of(rank_lines(s, &RankTraceSummary::rows), "name", s, order);
  out += "\n" + table_of(rank_lines(s, &RankTraceSummary::groups), "sum by group", s, order) + "\n";
  out += fmt::format("steps           {}, the last {} of the run that are timed and kept: {} to {}\n", s.steps, s.steps,
                     s.first_step, s.last_step);
  out += fmt::format("predicted step  {}\n", known_text(s.predicted_step));
  out += fmt::format("measured step   {} (quartiles {} and {})\n", seconds_text(s.step.median), seconds_text(s.step.q25),
                     seconds_text(s.step.q75));
  const auto disturbed = s.disturbed();
  out += fmt::format(
      "disturbed       {}\n",
      disturbed ? fmt::format("{:.1f} % of the time other processes had the cores of a rank", 100 * *disturbed) : "unknown");
  if (disturbed.value_or(0) > kDisturbed)
    out += "note: more than 5 %: repeat the run on a quiet machine before trusting a difference\n";
  for (const std::string& note : s.notes) out += "note: " + note + "\n";
  return out;
}

void save(const TraceSummary& summary, const FileIn& file) {
  write_text(file, to_text(to_json(summary), 1) + "\n");
}

TraceSummary load_trace_summary(const std::filesystem::path& file) {
  Complaints complaints;
  const auto json = read_json(file.string(), read_file(file.string()), complaints, kByMotley);
  Reader reader{complaints};
  TraceSummary out;
  if (json) reader.object(*json, summary_table(), out);
  complaints.raise(Exit::data);
  return out;
}

}  // namespace motley
