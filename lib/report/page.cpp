// SPDX-License-Identifier: Apache-2.0
#include "report/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/error.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/clock.h"
#include "base/core_use.h"
#include "base/units.h"
#include "base/version.h"
#include "explain/describe.h"
#include "explain/explain.h"
#include "explain/picture.h"
#include "report/pictures.h"
#include "run/trace_summary.h"
#include "train/run_files.h"

namespace motley {

namespace {

using picture::escaped;

// The pictures of lib/explain have their colours in attributes, which a style sheet overrides.
constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --paper: #fff; --back: #f6f6f4; --ink: #222; --grey: #5f6368; --grid: #e3e3e0; --wait: #d3d3cf; --warn: #9a4a00;
  --k0: #4477aa; --k1: #ee6677; --k2: #228833; --k3: #ccbb44; --k4: #66ccee; --k5: #aa3377; --k6: #999; }
@media (prefers-color-scheme: dark) { :root { --paper: #1d1f21; --back: #141516; --ink: #e4e4e0; --grey: #a3a6aa; --grid: #34373a; --wait: #4a4d50; --warn: #ffb066;
  --k0: #6fa3d8; --k1: #f08592; --k2: #4fb765; --k3: #d8c95c; --k4: #7fd4f1; --k5: #d668a6; --k6: #8a8d90; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1560px; padding: 20px 24px 48px; background: var(--back); color: var(--ink); font: 15px/1.45 "DejaVu Sans", Helvetica, Arial, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 20px; margin: 40px 0 8px; } h3 { font-size: 16px; margin: 24px 0 6px; }
p { margin: 6px 0; max-width: 90ch; } .grey { color: var(--grey); } .warn { color: var(--warn); }
.card { background: var(--paper); border: 1px solid var(--grid); border-radius: 8px; padding: 14px 16px; overflow-x: auto; min-width: 0; }
.charts { columns: 2 540px; column-gap: 16px; margin: 14px 0 0; } .charts .card { break-inside: avoid; margin-bottom: 16px; }
.charts .card > svg { width: 100%; height: auto; display: block; }
.plan > svg { max-width: 100%; height: auto; display: block; }
table { border-collapse: collapse; font-size: 14px; } th, td { text-align: left; padding: 4px 16px 4px 0; vertical-align: top; border-bottom: 1px solid var(--grid); }
th { color: var(--grey); font-weight: normal; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } td.n { white-space: nowrap; }
@media (max-width: 1000px) { body { padding: 14px 12px 40px; } table { font-size: 12.5px; } th, td { padding-right: 10px; } }
.swatch { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 7px; }
svg { fill: var(--ink); } svg .paper { fill: none; } svg text.title { font-size: 14px; font-weight: bold; } svg text.small { font-size: 11px; fill: var(--grey); }
svg [fill="#777"] { fill: var(--grey); } svg rect.whole { fill: var(--back); stroke: var(--grid); }
.grid { stroke: var(--grid); } .axis { stroke: var(--grey); } .wait { fill: var(--wait); background: var(--wait); }
)";

std::string style_sheet() {
  std::string out = kStyle;
  for (int k = 0; k < 7; k++)
    out += fmt::format(
        ".k{0} {{ fill: var(--k{0}); background: var(--k{0}); }} .k{0}.line {{ fill: none; stroke: var(--k{0}); stroke-width: 1.8; "
        "stroke-linejoin: round; }} .k{0}.range {{ fill-opacity: .18; }} .k{0}.predicted {{ fill: none; stroke: var(--k{0}); "
        "stroke-dasharray: 3 2; }}\n",
        k);
  return out;
}

std::string element(const std::string& name, const std::string& text, const std::string& kind = "") {
  return "<" + name + (kind.empty() ? "" : " class=\"" + kind + "\"") + ">" + escaped(text) + "</" + name + ">";
}

std::string seconds_or(const std::optional<double>& seconds) {
  return seconds ? seconds_text(*seconds) : "unknown";
}

// A table, the first row its head; `numbers`: columns of numbers.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::set<std::size_t>& numbers = {}) {
  std::string out = "<table>\n";
  for (std::size_t r = 0; r < rows.size(); r++) {
    out += "<tr>";
    for (std::size_t c = 0; c < rows[r].size(); c++)
      out += element(r == 0 ? "th" : "td", rows[r][c], numbers.contains(c) ? "n" : "");
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

std::string card(const std::string& inside, const std::string& more = "") {
  return inside.empty() ? "" : "<div class=\"card" + more + "\">" + inside + "</div>\n";
}

std::string status_of(const ReportedRun& run) {
  if (!run.summary) return run.damaged_summary ? "unknown" : "not ended";
  const TrainSummary& s = *run.summary;
  if (s.stopped_early) return s.status + " early";
  if (s.status != "failed") return s.status;
  return fmt::format("failed (exit {}{})", s.code, s.rank < 0 ? "" : fmt::format(", rank {}", s.rank));
}

Index steps_of(const ReportedRun& run) {
  return run.summary ? run.summary->steps : run.metrics.empty() ? 0 : run.metrics.back().step;
}

std::optional<double> loss_of(const ReportedRun& run) {
  if (run.summary && run.summary->train_loss) return run.summary->train_loss;
  return run.metrics.empty() ? std::nullopt : run.metrics.back().loss;
}

// The summary's, else that of the last evaluation in metrics.jsonl.
std::optional<double> last_of(const ReportedRun& run, const std::optional<double>& known,
                              std::optional<double> MetricsPoint::*figure) {
  const auto last = std::find_if(run.metrics.rbegin(), run.metrics.rend(), [&](const MetricsPoint& p) { return p.*figure; });
  return known || last == run.metrics.rend() ? known : *last.*figure;
}

// The summary's, else that of the median line of metrics.jsonl.
std::optional<double> step_seconds_of(const ReportedRun& run) {
  if (run.summary && run.summary->measured_step_seconds) return run.summary->measured_step_seconds;
  std::vector<double> all;
  for (const MetricsPoint& p : run.metrics)
    if (p.seconds) all.push_back(*p.seconds);
  return all.empty() ? std::nullopt : std::optional(quartiles(std::move(all)).median);
}

std::optional<double> predicted_of(const ReportedRun& run) {
  if (run.summary && run.summary->predicted_step_seconds) return run.summary->predicted_step_seconds;
  return run.plan ? run.plan->data().step_seconds : std::nullopt;
}

std::string runs_table(const std::vector<ReportedRun>& runs) {
  std::vector<std::vector<std::string>> rows{{"run", "status", "steps", "time", "step, measured", "predicted", "training loss",
                                              "test loss", "test accuracy", "bytes per step", "began (UTC)"}};
  const std::optional<double> first = step_seconds_of(runs.front());
  for (std::size_t k = 0; k < runs.size(); k++) {
    const ReportedRun& run = runs[k];
    const TrainSummary s = run.summary.value_or(TrainSummary{});
    const std::optional<double> step = step_seconds_of(run);
    const std::optional<double> test_loss = last_of(run, s.test_loss, &MetricsPoint::test_loss),
                                test_accuracy = last_of(run, s.test_accuracy, &MetricsPoint::test_accuracy);
    std::string measured = seconds_or(step);
    if (k > 0 && first && step && *first > 0) measured += fmt::format(" ({:.2f} times)", *step / *first);
    rows.push_back({run.name, status_of(run), std::to_string(steps_of(run)), seconds_or(s.seconds), measured,
                    seconds_or(predicted_of(run)), loss_of(run) ? loss_text(*loss_of(run)) : "unknown",
                    test_loss ? loss_text(*test_loss) : "-", test_accuracy ? fmt::format("{:.2f} %", 100 * *test_accuracy) : "-",
                    s.bytes_counted ? bytes_text(static_cast<double>(*s.bytes_counted)) : "unknown",
                    s.started.empty() ? "unknown" : s.started});
  }
  return card(table(rows, {2, 3, 4, 5, 6, 7, 8, 9}));
}

// What the figures say, one sentence each.
std::vector<std::string> findings(const ReportedRun& run, const std::vector<report::LayerTimes>& layers) {
  std::vector<std::string> out;
  const auto name = [&](int rank) {
    const bool known = run.plan && rank < run.plan->mesh().ranks();
    return fmt::format("rank {}{}", rank, known ? " (" + run.plan->mesh().device(rank).name + ")" : "");
  };
  const std::optional<double> step = step_seconds_of(run), predicted = predicted_of(run);
  if (!layers.empty() && layers.front().slowest() > 0) {
    const report::LayerTimes& slowest = layers.front();
    const int r = slowest.slowest_rank();
    const auto measured = slowest.measured[static_cast<std::size_t>(r)], its = slowest.predicted[static_cast<std::size_t>(r)];
    out.push_back(fmt::format("The slowest layer is {}: {}{} on {}{}.", slowest.layer, measured ? "" : "predicted ",
                              seconds_text(slowest.slowest()), name(r),
                              measured && its ? ", predicted " + seconds_text(*its) : ""));
  }
  if (step && predicted && *predicted > 0)
    out.push_back(fmt::format("A step takes {}, {:.2f} times the predicted {}.", seconds_text(*step), *step / *predicted,
                              seconds_text(*predicted)));
  if (run.summary && run.summary->best)
    out.push_back(fmt::format(
        "The best evaluation was that of step {}: {} {}.{}", run.summary->best->step,
        run.summary->best->watch == Watched::test_loss ? "test_loss" : "test_accuracy", loss_text(run.summary->best->value),
        run.summary->stopped_early ? " The run ended when no further gain had come for as long as the job says." : ""));
  if (run.summary) {
    const std::vector<RankFigures>& ranks = run.summary->ranks;
    int most = -1;
    const auto share = [&](int r) {
      const RankFigures& f = ranks[static_cast<std::size_t>(r)];
      return f.waiting_seconds && f.measured_step_seconds.value_or(0) > 0 ? *f.waiting_seconds / *f.measured_step_seconds : 0;
    };
    for (int r = 0; r < static_cast<int>(ranks.size()); r++)
      if (share(r) > (most < 0 ? 0 : share(most))) most = r;
    if (most >= 0 && ranks.size() > 1)
      out.push_back(fmt::format("Of all ranks {} waits longest: {} of its step.", name(most), percent_text(share(most))));
    if (const auto disturbed = run.summary->disturbed(); disturbed.value_or(0) > kDisturbed)
      out.push_back(
          fmt::format("{:.0f} % of the time other processes had the cores of a rank: the measured seconds are those of a machine "
                      "that others use too.",
                      100 * *disturbed));
  }
  return out;
}

std::string devices_table(const ReportedRun& run) {
  const std::vector<RankFigures> ranks = run.summary ? run.summary->ranks : std::vector<RankFigures>{};
  const std::size_t count = std::max(ranks.size(), run.plan ? static_cast<std::size_t>(run.plan->mesh().ranks()) : 0);
  if (count == 0) return "";
  std::vector<std::vector<std::string>> rows{
      {"rank", "device", "kind", "threads", "computes on", "library", "MPI", "host", "system", "memory"}};
  for (std::size_t r = 0; r < count; r++) {
    const Device* device = run.plan ? &run.plan->mesh().device(static_cast<int>(r)) : nullptr;
    const RankFigures f = r < ranks.size() ? ranks[r] : RankFigures{};
    const auto known = [](const std::string& text) { return text.empty() ? "unknown" : text; };
    rows.push_back({std::to_string(r), device ? device->name : "unknown",
                    device ? to_string(device->kind) + (device->isa.empty() ? "" : ", isa " + device->isa) : "unknown",
                    device ? (device->threads > 0 ? std::to_string(device->threads) : "all") : "unknown", known(f.machine.model),
                    known(f.machine.library), known(f.machine.mpi),
                    known(f.machine.host.empty() && device ? device->host : f.machine.host), known(f.machine.system),
                    f.memory_bytes ? bytes_text(static_cast<double>(*f.memory_bytes)) : "unknown"});
  }
  return card(table(rows, {0, 9}));
}

std::string cuts_table(const Plan& plan) {
  const std::vector<CutChoice>& cuts = plan.data().cuts;
  const bool reasons = std::any_of(cuts.begin(), cuts.end(), [](const CutChoice& cut) { return !cut.why.empty(); });
  std::vector<std::vector<std::string>> rows{{"dim", "axis", "parts"}};
  if (reasons) rows.front().emplace_back("why");
  for (const CutChoice& cut : cuts) {
    std::string parts;
    for (const std::vector<Index>& list : cut.parts)
      parts += fmt::format("{}{}", parts.empty() ? "" : "; ", fmt::join(list, " / "));
    rows.push_back({cut.dim, cut.axis + (cut.per.empty() ? "" : ", per " + cut.per), parts});
    if (reasons) rows.back().push_back(cut.why);
  }
  return rows.size() == 1 ? "<p>No dim is cut.</p>\n" : card(table(rows));
}

// A picture that cannot be made (a plan of a newer motley, a damaged file) is a sentence.
std::string picture_or_words(const std::function<std::string()>& make, const std::string& if_empty) {
  std::string text;
  try {
    text = make();
  } catch (const Error& e) {
    return card(element("p", std::string("This picture cannot be drawn: ") + e.what(), "grey"));
  }
  return card(text.empty() ? element("p", if_empty, "grey") : text);
}

std::string section_of(const ReportedRun& run) {
  std::vector<report::LayerTimes> layers;
  std::vector<std::string> missing = run.missing;
  try {
    layers = report::layer_times(run);
  } catch (const Error& e) {
    missing.push_back(std::string("The seconds of the layers cannot be computed: ") + e.what());
  }
  std::string out = element("h2", run.name) + "\n";
  if (run.summary && run.summary->status == "failed") out += element("p", "Failed: " + run.summary->reason, "warn") + "\n";
  for (const std::string& text : findings(run, layers)) out += element("p", text) + "\n";
  for (const std::string& text : missing) out += element("p", text, "grey") + "\n";
  out += "<h3>Machine and versions</h3>\n" + devices_table(run);
  if (run.summary)
    out +=
        element("p",
                fmt::format("Began {}, ended {} (UTC), motley {}.", run.summary->started.empty() ? "unknown" : run.summary->started,
                            run.summary->ended.empty() ? "unknown" : run.summary->ended,
                            run.summary->motley.empty() ? "of an unknown version" : run.summary->motley),
                "grey") +
        "\n";
  if (run.plan) {
    out += "<h3>Plan</h3>\n" + cuts_table(*run.plan);
    out += "<div style=\"height:16px\"></div>" + card(plan_svg(*run.plan, run.profile), " plan");
  }
  const int ranks = run.plan ? run.plan->mesh().ranks() : run.timeline ? static_cast<int>(run.timeline->ranks.size()) : 0;
  const std::string no_step = "The timeline of a step: not recorded.", no_plan = ": needs the run's plan and its profile.";
  out += "<h3>Where a step's time goes</h3>\n<div class=\"charts\">\n";
  out += picture_or_words([&] { return report::layer_bars(layers, ranks); }, "Seconds by layer" + no_plan);
  out += picture_or_words([&] { return report::step_timeline(run); }, no_step);
  out += picture_or_words([&] { return report::waiting_bars(run); }, "How each rank spends a step: known when a run has ended.");
  out += picture_or_words([&] { return report::staircases(run, layers); },
                          run.profile.empty()
                              ? "Staircases of the devices: need the run's profile."
                              : "Staircases of the devices: the profile has no kernel of this network in several sizes.");
  out += picture_or_words([&] { return report::memory_curves(run); }, "Memory over the step: needs the run's plan.");
  out += picture_or_words([&] { return report::exchange_bars(run); },
                          run.plan ? "No exchange moves bytes in a step." : "Bytes of each exchange: need the run's plan.");
  return out + "</div>\n";
}

}  // namespace

std::string report_page(const std::vector<ReportedRun>& runs) {
  std::string title = "motley report: " + runs.front().name;
  if (runs.size() > 1) title += fmt::format(" and {} more", runs.size() - 1);
  std::string out = std::string(kPageStart) + "\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
                    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
                    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n" +
                    element("title", title) + "\n<style>" + style_sheet() + "</style>\n</head>\n<body>\n";
  out += element("h1", runs.size() == 1 ? "motley report" : fmt::format("motley report of {} runs", runs.size())) + "\n";
  out += element("p", fmt::format("Written {} (UTC) by motley {}.", utc_now(), kMotleyVersion), "grey") + "\n";
  out += runs_table(runs);
  out += "<h2>Training</h2>\n<div class=\"charts\">\n";
  const std::string no_step = ": no step is done yet.";
  out += picture_or_words([&] { return report::loss_curves(runs); }, "Loss" + no_step);
  out += picture_or_words([&] { return report::accuracy_curves(runs); },
                          "Test accuracy: no step has one (train.evaluate_every_epochs).");
  out += picture_or_words([&] { return report::rate_curves(runs); }, "Learning rate" + no_step);
  out += picture_or_words([&] { return report::seconds_curves(runs); }, "Seconds per step" + no_step);
  out += "</div>\n";
  for (const ReportedRun& run : runs) out += section_of(run);
  return out + "</body>\n</html>\n";
}

}  // namespace motley
