// SPDX-License-Identifier: Apache-2.0
#include "explain/layer_table.h"

#include <fmt/format.h>
#include <algorithm>

#include "base/units.h"
#include "base/utf8.h"
#include "explain/describe.h"

namespace motley {

namespace {

constexpr std::size_t kMostLayers = 20, kMostRankColumns = 4, kName = 34;

std::string time_or_dash(double seconds) {
  return seconds > 0 ? seconds_text(seconds) : "-";
}

std::string row(const LayerSeconds& layer, double step_seconds) {
  std::string out = "  " + padded(first_characters(layer.layer, kName), kName);
  const std::vector<double>& busy = layer.busy;
  if (busy.size() <= kMostRankColumns) {
    for (const double seconds : busy) out += fmt::format("{:>11}", time_or_dash(seconds));
  } else {
    const auto [least, most] = std::minmax_element(busy.begin(), busy.end());
    out += fmt::format("{:>11}{:>11}{:>11}", time_or_dash(*least), time_or_dash(*most),
                       *most > 0 ? "rank " + std::to_string(most - busy.begin()) : "-");
  }
  return out + fmt::format("{:>11}{:>7}\n", time_or_dash(layer.exchange_seconds()), percent_text(layer.slowest() / step_seconds));
}

}  // namespace

std::string layer_table(const StepByLayer& step, PlanDetail detail) {
  if (step.layers.empty()) return "";
  std::vector<const LayerSeconds*> slowest;
  for (const LayerSeconds& layer : step.layers) slowest.push_back(&layer);
  std::stable_sort(slowest.begin(), slowest.end(),
                   [](const LayerSeconds* a, const LayerSeconds* b) { return a->slowest() > b->slowest(); });
  const std::size_t ranks = step.layers.front().busy.size();
  std::string out = "  " + padded("", kName);
  if (ranks <= kMostRankColumns)
    for (std::size_t r = 0; r < ranks; r++) out += fmt::format("{:>11}", "rank " + std::to_string(r));
  else
    out += fmt::format("{:>11}{:>11}{:>11}", "least", "most", "on");
  out = "layers" + out.substr(6) + fmt::format("{:>11}{:>7}\n", "exchange", "share");
  // The row for the rest is one of the 20.
  const std::size_t shown = detail == PlanDetail::full || slowest.size() <= kMostLayers ? slowest.size() : kMostLayers - 1;
  for (std::size_t i = 0; i < shown; i++) out += row(*slowest[i], step.step_seconds);
  if (shown == slowest.size()) return out;
  LayerSeconds rest{"and " + std::to_string(slowest.size() - shown) + " more; --full lists them", std::vector<double>(ranks, 0),
                    std::vector<double>(ranks, 0)};
  for (std::size_t i = shown; i < slowest.size(); i++)
    for (std::size_t r = 0; r < ranks; r++) {
      rest.busy[r] += slowest[i]->busy[r];
      rest.waiting[r] += slowest[i]->waiting[r];
    }
  return out + row(rest, step.step_seconds);
}

Json layers_json(const StepByLayer& step) {
  if (step.layers.empty()) return nullptr;
  Json out{Json::Array{}};
  for (const LayerSeconds& layer : step.layers) {
    Json one;
    one.set("layer", layer.layer).set("seconds", Json::Array(layer.busy.begin(), layer.busy.end()));
    one.set("share", layer.slowest() / step.step_seconds).set("exchange_seconds", layer.exchange_seconds());
    out.push(std::move(one));
  }
  return out;
}

}  // namespace motley
