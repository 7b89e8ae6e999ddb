// SPDX-License-Identifier: Apache-2.0
// Figures of metrics.jsonl over the steps, of several runs in one picture.
#include "report/chart.h"
#include "report/pictures.h"

namespace motley::report {

namespace {

using Figure = std::optional<double> MetricsPoint::*;

// dots: a figure that few steps have.
std::string curves(const std::vector<ReportedRun>& runs, LineChart chart, Figure figure, Figure dots = nullptr) {
  for (std::size_t k = 0; k < runs.size(); k++) {
    Series series{.name = runs[k].name, .colour = static_cast<int>(k)};
    for (const MetricsPoint& p : runs[k].metrics) {
      if (figure != nullptr && p.*figure) series.points.emplace_back(static_cast<double>(p.step), *(p.*figure));
      if (dots != nullptr && p.*dots) series.dots.emplace_back(static_cast<double>(p.step), *(p.*dots));
    }
    chart.series.push_back(std::move(series));
  }
  return draw(chart);
}

}  // namespace

std::string loss_curves(const std::vector<ReportedRun>& runs) {
  return curves(runs, {.title = "Loss", .x = "step", .y = "line: training; dots: on the test samples"}, &MetricsPoint::loss,
                &MetricsPoint::test_loss);
}

std::string accuracy_curves(const std::vector<ReportedRun>& runs) {
  return curves(runs, {.title = "Test accuracy", .x = "step", .y = "share of the test samples", .most = 1.0},
                &MetricsPoint::test_accuracy, &MetricsPoint::test_accuracy);
}

std::string rate_curves(const std::vector<ReportedRun>& runs) {
  return curves(runs, {.title = "Learning rate", .x = "step", .y = "of the step's update", .from_zero = true},
                &MetricsPoint::learning_rate);
}

std::string seconds_curves(const std::vector<ReportedRun>& runs) {
  return curves(runs, {.title = "Seconds per step", .x = "step", .y = "of rank 0", .from_zero = true}, &MetricsPoint::seconds);
}

}  // namespace motley::report
