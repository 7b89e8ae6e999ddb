// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/at.h"
#include "base/units.h"
#include "explain/describe.h"
#include "graph/layers.h"
#include "program/compile.h"
#include "program/layer_seconds.h"
#include "program/memory.h"
#include "report/chart.h"
#include "report/pictures.h"
#include "run/trace_summary.h"

namespace motley::report {

namespace {

using picture::number;
using picture::Picture;

constexpr std::size_t kMostLayers = 16, kMostExchanges = 12, kMostRanks = 16, kMostLines = 7;  // that are drawn

std::size_t kept_steps(const ReportedRun& run) {
  return run.timeline ? run.timeline->steps.size() : 0;
}

double length(const TraceSpan& span) {
  return span.end - span.begin;
}

std::string rank_name(std::size_t r, const std::string& device) {
  return fmt::format("rank {}  {}", r, device);
}

// ---- layers

std::vector<LayerTimes> measured_layers(const RunTrace& trace) {
  std::vector<LayerTimes> out;
  std::map<std::string, std::size_t> places;
  const std::size_t ranks = trace.ranks.size(), steps = trace.steps.size();
  for (std::size_t r = 0; r < ranks; r++) {
    const RankTrace& rank = trace.ranks[r];
    std::map<std::string, std::vector<double>> measured;
    std::map<std::string, double> predicted;
    for (std::size_t i = 0; i < rank.items.size(); i++) {
      const TraceItem& item = rank.items[i];
      if (item.kind != TraceItem::Kind::kernel || item.layer.empty()) continue;
      std::vector<double>& its = measured[item.layer];
      its.resize(steps, 0);
      for (std::size_t k = 0; k < steps; k++) its[k] += length(rank.at(k, i));
      if (!rank.simulated.empty()) predicted[item.layer] += length(rank.simulated[i]);
      if (places.emplace(item.layer, out.size()).second)
        out.push_back({item.layer, std::vector<std::optional<double>>(ranks), std::vector<std::optional<double>>(ranks)});
    }
    for (const auto& [layer, seconds] : measured) out[places.at(layer)].measured[r] = quartiles(seconds).median;
    for (const auto& [layer, seconds] : predicted) out[places.at(layer)].predicted[r] = seconds;
  }
  return out;
}

std::vector<LayerTimes> predicted_layers(const Plan& plan, const Profile& profile) {
  std::vector<LayerTimes> out;
  for (const LayerSeconds& layer : layer_seconds(plan.data(), profile).layers) {
    LayerTimes& its = out.emplace_back(LayerTimes{layer.layer, std::vector<std::optional<double>>(layer.busy.size()), {}});
    its.predicted.assign(layer.busy.begin(), layer.busy.end());
  }
  return out;
}

// ---- the timeline of a step

// What an event is drawn as: style, name.
struct Look {
  const char *style, *name;
};
constexpr std::array<Look, 8> kLooks{{{"class=\"k0\"", "forward"},
                                      {"class=\"k5\"", "gradients"},
                                      {"class=\"k4\"", "maps"},
                                      {"class=\"k3\"", "copies, reads of other ranks' memory"},
                                      {"class=\"k2\"", "update"},
                                      {"class=\"wait\"", "waiting for other ranks"},
                                      {"class=\"k1\"", "agreeing on the loss, figures"},
                                      {"class=\"k6\"", "feed, posts"}}};
std::size_t look_of(const TraceItem& item) {
  if (item.kind == TraceItem::Kind::wait) return 5;
  if (item.kind == TraceItem::Kind::post || item.group == "feed") return 7;
  if (item.kind == TraceItem::Kind::part) return 6;
  if (item.group == "update") return 4;
  if (item.group == "copies" || item.group == "reads in place") return 3;
  if (item.group == "maps") return 2;
  return item.group.find("backward") != std::string::npos ? 1 : 0;
}

// Events of one rank in one lane; neighbours of one look that are too narrow to tell apart are one rectangle.
class Lane {
 public:
  Lane(Picture& picture, double left, double per, double y, double high)
      : picture_(picture), left_(left), per_(per), y_(y), high_(high) {}
  void add(const TraceItem& item, TraceSpan span) {
    if (span.end <= span.begin) return;
    const std::size_t look = look_of(item);
    const double x = left_ + per_ * span.begin, w = per_ * length(span);
    if (open_ && look == look_ && w < kNarrow && x - (x_ + w_) < kNarrow) {
      w_ = std::max(w_, x + w - x_);
      seconds_ += length(span);
      count_++;
      return;
    }
    flush();
    open_ = true;
    look_ = look, x_ = x, w_ = w, seconds_ = length(span), count_ = 1;
    name_ = item.name;
  }
  void flush() {
    if (open_ && w_ >= 0.04)
      picture_.rect({x_, y_, std::max(w_, 0.3), high_}, kLooks[look_].style,
                    count_ == 1 ? fmt::format("{}: {}", name_, seconds_text(seconds_))
                                : fmt::format("{} and {} more: {}", name_, count_ - 1, seconds_text(seconds_)));
    open_ = false;
  }

 private:
  static constexpr double kNarrow = 1.2;
  Picture& picture_;
  double left_, per_, y_, high_;
  bool open_ = false;
  std::size_t look_ = 0, count_ = 0;
  double x_ = 0, w_ = 0, seconds_ = 0;
  std::string name_{};
};

// Of the kept steps the one of median length of its slowest rank.
std::size_t typical_step(const RunTrace& trace) {
  std::vector<std::pair<double, std::size_t>> all;
  for (std::size_t k = 0; k < trace.steps.size(); k++) {
    double slowest = 0;
    for (const RankTrace& rank : trace.ranks) slowest = std::max(slowest, length(rank.step(k)));
    all.emplace_back(slowest, k);
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2].second;
}

// In the order of their beginnings; waits first, so that a device's kernels are drawn over them.
template <class At>
void draw_lane(Lane lane, const RankTrace& rank, At&& at) {
  std::vector<std::size_t> order(rank.items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return at(a).begin < at(b).begin; });
  for (const bool waits : {true, false}) {
    for (const std::size_t i : order)
      if ((rank.items[i].kind == TraceItem::Kind::wait) == waits) lane.add(rank.items[i], at(i));
    lane.flush();
  }
}

// ---- memory

// Bytes of the arena that hold something in each step of the Program: places that lifetimes share count once.
std::vector<double> arena_bytes(const Program& program) {
  std::vector<double> out;
  std::vector<std::pair<Index, Index>> live;
  for (int s = 0; s < static_cast<int>(program.steps.size()); s++) {
    live.clear();
    for (const Buffer& b : program.buffers)
      if (b.space == Space::arena && b.first <= s && b.last >= s && b.bytes > 0) live.emplace_back(b.offset, b.offset + b.bytes);
    std::sort(live.begin(), live.end());
    Index bytes = 0, end = 0;
    for (const auto& [from, to] : live) {
      bytes += std::max(to, end) - std::max(from, end);
      end = std::max(end, to);
    }
    out.push_back(static_cast<double>(bytes));
  }
  return out;
}

// When each step of the Program begins, in seconds; empty: there is no step of it, neither measured nor simulated.
std::vector<double> times_of(const ReportedRun& run, std::size_t r, const Program& program) {
  if (kept_steps(run) == 0 || r >= run.timeline->ranks.size()) return {};
  const RankTrace& rank = run.timeline->ranks[r];
  if (rank.items.size() < program.steps.size() + kTraceParts) return {};
  const std::size_t k = typical_step(*run.timeline);
  std::vector<double> out;
  for (std::size_t i = 0; i < program.steps.size(); i++)
    out.push_back(std::max(out.empty() ? 0 : out.back(), rank.at(k, i).begin - rank.step(k).begin));
  return out;
}

// ---- staircases

bool is_contraction(const KernelSpec& spec) {
  return (spec.op == KernelOp::conv2d || spec.op == KernelOp::dense) && spec.pass == PassKind::forward;
}

struct Extent {
  Index Roles::*role;
  const char* name;
};
constexpr std::array<Extent, 3> kExtents{{{&Roles::f, "filters"}, {&Roles::n, "samples"}, {&Roles::c, "channels"}}};

// By rank the largest forward kernel of a layer.
std::vector<std::optional<KernelSpec>> contractions_of(const std::vector<Program>& programs, int layer) {
  std::vector<std::optional<KernelSpec>> out(programs.size());
  for (std::size_t r = 0; r < programs.size(); r++)
    for (const ProgramStep& step : programs[r].steps)
      if (const auto* run = std::get_if<RunKernel>(&step.what);
          run != nullptr && run->layer == layer && is_contraction(run->spec) && (!out[r] || flops(run->spec) > flops(*out[r])))
        out[r] = run->spec;
  return out;
}

// What a device's profile knows of a kernel in so many sizes of one extent.
struct Staircase {
  std::vector<std::pair<double, double>> line{}, measured{};  // size, milliseconds
};
Staircase staircase_of(const Profile& profile, int device, KernelSpec spec, Index Roles::*role) {
  constexpr Index kMostSizes = 240;
  std::set<Index> measured, sizes;
  for (const KernelPoint& point : profile.kernels())
    if (point.device == device && point.spec.op == spec.op && point.spec.pass == spec.pass) sizes.insert(point.spec.roles.*role);
  const auto estimate = [&](Index size) {
    spec.roles.*role = size;
    return profile.seconds(device, spec);
  };
  std::copy_if(sizes.begin(), sizes.end(), std::inserter(measured, measured.end()),
               [&](Index size) { return estimate(size).known == Known::measured; });
  Staircase out;
  if (measured.size() < 2) return out;
  sizes = measured;
  const Index most = *measured.rbegin(), points = std::min(most, kMostSizes);
  for (Index k = 1; k <= points; k++) sizes.insert(most * k / points);
  for (const Index size : sizes) {
    const Estimate its = estimate(size);
    const std::pair point(static_cast<double>(size), 1e3 * its.seconds);
    if (!its.is_guess()) out.line.push_back(point);
    if (its.known == Known::measured) out.measured.push_back(point);
  }
  return out;
}

}  // namespace

double LayerTimes::seconds(std::size_t rank) const {
  return measured[rank] ? *measured[rank] : predicted[rank].value_or(0);
}

int LayerTimes::slowest_rank() const {
  std::size_t slowest = 0;
  for (std::size_t r = 1; r < measured.size(); r++)
    if (seconds(r) > seconds(slowest)) slowest = r;
  return static_cast<int>(slowest);
}

double LayerTimes::slowest() const {
  return measured.empty() ? 0 : seconds(static_cast<std::size_t>(slowest_rank()));
}

std::vector<LayerTimes> layer_times(const ReportedRun& run) {
  std::vector<LayerTimes> out;
  if (kept_steps(run) > 0)
    out = measured_layers(*run.timeline);
  else if (run.plan && !run.profile.empty())
    out = predicted_layers(*run.plan, run.profile);
  std::stable_sort(out.begin(), out.end(), [](const LayerTimes& a, const LayerTimes& b) { return a.slowest() > b.slowest(); });
  return out;
}

std::string layer_bars(const std::vector<LayerTimes>& layers, int ranks) {
  constexpr int kMostBars = 4;  // ranks of which each has its bars; of more the slowest one has
  BarChart chart{.title = "Seconds of each layer in a step, the slowest first"};
  for (int r = 0; r < std::min(ranks, kMostBars) && ranks <= kMostBars; r++) {
    chart.legend.emplace_back(colour(r), fmt::format("rank {}", r));
    chart.legend.emplace_back(colour(r, "predicted"), "predicted");
  }
  if (ranks > kMostBars) chart.legend = {{colour(0), "slowest rank"}, {colour(0, "predicted"), "predicted"}};
  for (std::size_t i = 0; i < std::min(layers.size(), kMostLayers); i++) {
    const LayerTimes& layer = layers[i];
    BarRow row{.name = layer.layer};
    const int first = ranks > kMostBars ? layer.slowest_rank() : 0, end = ranks > kMostBars ? first + 1 : ranks;
    for (int r = first; r < end; r++) {
      const auto measured = at(layer.measured, r), predicted = at(layer.predicted, r);
      const int k = ranks > kMostBars ? 0 : r;
      if (measured) row.bars.push_back({*measured, colour(k), fmt::format("rank {}: {}", r, seconds_text(*measured))});
      if (predicted)
        row.bars.push_back({*predicted, colour(k, "predicted"), fmt::format("rank {}, predicted {}", r, seconds_text(*predicted))});
    }
    const int r = layer.slowest_rank();
    const auto measured = at(layer.measured, r), predicted = at(layer.predicted, r);
    if (measured) row.text = seconds_text(*measured);
    if (predicted) row.text += (row.text.empty() ? "predicted " : ", predicted ") + seconds_text(*predicted);
    chart.rows.push_back(std::move(row));
  }
  if (layers.size() > kMostLayers) chart.title += fmt::format(" ({} of {} layers)", kMostLayers, layers.size());
  return draw(chart);
}

std::string step_timeline(const ReportedRun& run) {
  if (kept_steps(run) == 0) return "";
  constexpr double kHigh = 26, kSimulatedHigh = 14, kLane = 56;
  const RunTrace& trace = *run.timeline;
  const std::size_t k = typical_step(trace), ranks = std::min(trace.ranks.size(), kMostRanks);
  double start = HUGE_VAL, end = 0, simulated_start = HUGE_VAL;
  for (const RankTrace& rank : trace.ranks) {
    for (std::size_t i = 0; i < rank.items.size(); i++) {
      start = std::min(start, rank.at(k, i).begin);
      end = std::max(end, rank.at(k, i).end);
    }
    for (const TraceSpan& s : rank.simulated) simulated_start = std::min(simulated_start, s.begin);
  }
  double whole = end - start;
  for (const RankTrace& rank : trace.ranks)
    for (const TraceSpan& s : rank.simulated) whole = std::max(whole, s.end - simulated_start);
  if (!(whole > 0)) return "";
  Picture picture;
  picture.text(0, 16,
               fmt::format("One step: number {}, {} from its first event to its last", trace.steps[k], seconds_text(end - start)),
               "class=\"title\"");
  std::vector<std::pair<std::string, std::string>> legend;
  for (const Look& look : kLooks) legend.emplace_back(look.style, look.name);
  double y = draw_legend(picture, 0, 28, legend) + 10;
  const double per = kWidth / whole, top = y;
  for (std::size_t r = 0; r < ranks; r++) {
    const RankTrace& rank = trace.ranks[r];
    picture.text(0, y + 10, rank_name(r, rank.device), "class=\"small\"");
    y += 14;
    draw_lane({picture, 0, per, y, kHigh}, rank, [&](std::size_t i) {
      const TraceSpan s = rank.at(k, i);
      return TraceSpan{s.begin - start, s.end - start};
    });
    if (!rank.simulated.empty())
      draw_lane({picture, 0, per, y + kHigh + 1, kSimulatedHigh}, rank, [&](std::size_t i) {
        const TraceSpan s = rank.simulated[i];
        return TraceSpan{s.begin - simulated_start, s.end - simulated_start};
      });
    y += rank.simulated.empty() ? kHigh + 8 : kLane - 8;
  }
  for (const double t : marks(0, whole, 8)) {
    picture.line(per * t, top, per * t, y, "class=\"grid\"");
    picture.text(std::clamp(per * t, 14.0, kWidth - 20), y + 12, t == 0 ? "0" : seconds_text(t),
                 "class=\"small\" text-anchor=\"middle\"");
  }
  const bool predicted =
      std::any_of(trace.ranks.begin(), trace.ranks.end(), [](const RankTrace& rank) { return !rank.simulated.empty(); });
  if (predicted) picture.text(0, y + 28, "Upper lane of each rank: measured. Lower, narrow lane: predicted.", "class=\"small\"");
  if (trace.ranks.size() > ranks)
    picture.text(0, y + 42, fmt::format("The first {} of {} ranks.", ranks, trace.ranks.size()), "class=\"small\"");
  return picture.whole(kWidth, y + 48);
}

std::string waiting_bars(const ReportedRun& run) {
  if (!run.summary) return "";
  BarChart chart{.title = "How each rank spends a step (median)", .stacked = true};
  chart.legend = {{colour(0), "computing"},
                  {"class=\"wait\"", "waiting for other ranks"},
                  {colour(1), "neither"},
                  {colour(6), "reading inputs, before the step"}};
  const std::vector<RankFigures>& ranks = run.summary->ranks;
  for (std::size_t r = 0; r < std::min(ranks.size(), kMostRanks); r++) {
    const RankFigures& f = ranks[r];
    if (!f.measured_step_seconds || !f.busy_seconds || !f.waiting_seconds) continue;
    const double step = *f.measured_step_seconds, neither = std::max(0.0, step - *f.busy_seconds - *f.waiting_seconds);
    BarRow row{.name = run.plan && static_cast<int>(r) < run.plan->mesh().ranks()
                           ? rank_name(r, run.plan->mesh().device(static_cast<int>(r)).name)
                           : fmt::format("rank {}", r)};
    for (const auto& [value, style, what] : {std::tuple(*f.busy_seconds, colour(0), "computing"),
                                             {*f.waiting_seconds, std::string("class=\"wait\""), "waiting"},
                                             {neither, colour(1), "neither"},
                                             {f.feed_seconds.value_or(0), colour(6), "reading inputs"}})
      row.bars.push_back({value, style, fmt::format("{}: {}", what, seconds_text(value))});
    row.text = fmt::format("waits {} of {}", percent_text(*f.waiting_seconds / std::max(step, 1e-12)), seconds_text(step));
    chart.rows.push_back(std::move(row));
  }
  return draw(chart);
}

std::string memory_curves(const ReportedRun& run) {
  constexpr double kMega = 1e6;
  if (!run.plan) return "";
  const std::vector<Program> programs = compile_all(CommonPlan(run.plan->data()));
  LineChart chart{
      .title = "Memory over the step", .y = "MB: parameters and optimizer, values in use, workspace", .from_zero = true};
  bool timed = true;
  for (std::size_t r = 0; r < programs.size(); r++) timed = timed && !times_of(run, r, programs[r]).empty();
  chart.x = timed ? "milliseconds of the step" : "event of the step, in order";
  for (std::size_t r = 0; r < std::min(programs.size(), kMostLines); r++) {
    const Program& program = programs[r];
    const std::vector<double> times = timed ? times_of(run, r, program) : std::vector<double>();
    const double always = static_cast<double>(program.state_bytes + workspace_of(program, run.profile) + flag_bytes(program));
    Series series{
        .name = rank_name(r, run.plan->mesh().device(static_cast<int>(r)).name), .colour = static_cast<int>(r), .stairs = true};
    const std::vector<double> arena = arena_bytes(program);
    for (std::size_t s = 0; s < arena.size(); s++)
      series.points.emplace_back(timed ? 1e3 * times[s] : static_cast<double>(s), (always + arena[s]) / kMega);
    chart.series.push_back(std::move(series));
  }
  return draw(chart);
}

std::string exchange_bars(const ReportedRun& run) {
  if (!run.plan) return "";
  std::vector<std::pair<Index, Described>> all;
  for (Described& d : describe_exchanges(run.plan->data(), run.plan->mesh().ranks()))
    if (const Index bytes = std::accumulate(d.bytes.begin(), d.bytes.end(), Index{0}); bytes > 0)
      all.emplace_back(bytes, std::move(d));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  BarChart chart{.title = "Bytes that each exchange moves in a step"};
  if (all.size() > kMostExchanges) chart.title += fmt::format(", the largest {} of {}", kMostExchanges, all.size());
  for (std::size_t i = 0; i < std::min(all.size(), kMostExchanges); i++) {
    const auto& [bytes, exchange] = all[i];
    chart.rows.push_back({exchange.tensor,
                          bytes_text(static_cast<double>(bytes)) + "  " + to_string(exchange.kind),
                          {{static_cast<double>(bytes), colour(0), exchange.tensor}}});
  }
  return draw(chart);
}

std::string staircases(const ReportedRun& run, const std::vector<LayerTimes>& layers) {
  if (!run.plan || run.profile.empty()) return "";
  const std::vector<Program> programs = compile_all(CommonPlan(run.plan->data()));
  const std::vector<std::string> names = layers_of(run.plan->data().passes).names;
  for (const LayerTimes& layer : layers) {
    const auto number = std::find(names.begin(), names.end(), layer.layer) - names.begin();
    const auto specs = contractions_of(programs, static_cast<int>(number));
    const auto any = std::find_if(specs.begin(), specs.end(), [](const auto& spec) { return spec.has_value(); });
    if (any == specs.end()) continue;
    for (const Extent& extent : kExtents) {
      LineChart chart{.title = fmt::format("Staircases: {} forward, by number of {}", layer.layer, extent.name),
                      .x = fmt::format("{} (dots: measured)", extent.name),
                      .y = "milliseconds",
                      .from_zero = true};
      for (std::size_t r = 0; r < std::min(specs.size(), kMostLines); r++) {
        Staircase its = staircase_of(run.profile, static_cast<int>(r), specs[r] ? *specs[r] : **any, extent.role);
        if (its.line.empty()) continue;
        const std::string has = specs[r] ? fmt::format(", has {}", specs[r]->roles.*extent.role) : ", has none";
        chart.series.push_back({.name = rank_name(r, run.plan->mesh().device(static_cast<int>(r)).name) + has,
                                .colour = static_cast<int>(r),
                                .points = std::move(its.line),
                                .dots = std::move(its.measured)});
      }
      if (const std::string drawn = draw(chart); !drawn.empty()) return drawn;
    }
  }
  return "";
}

}  // namespace motley::report
