// SPDX-License-Identifier: Apache-2.0
// The pictures of a page about runs, as SVG. Empty text: there is nothing to draw.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "report/reported_run.h"

namespace motley::report {

// ---- over all runs

std::string loss_curves(const std::vector<ReportedRun>& runs);  // of training, with dots for the loss on the test samples
std::string accuracy_curves(const std::vector<ReportedRun>& runs);
std::string rate_curves(const std::vector<ReportedRun>& runs);
std::string seconds_curves(const std::vector<ReportedRun>& runs);

// ---- of one run

// A layer's seconds in a step: of its kernels, by rank. The last micro-batch's, where there are several.
struct LayerTimes {
  std::string layer{};
  std::vector<std::optional<double>> measured{}, predicted{};  // by rank; nothing: not known
  double seconds(std::size_t rank) const;                      // measured, else predicted, else 0
  double slowest() const;                                      // of the rank that takes longest
  int slowest_rank() const;
};
// The slowest layer first. Measured: the medians over the timeline's steps; without a timeline predicted by plan and profile alone.
std::vector<LayerTimes> layer_times(const ReportedRun& run);
std::string layer_bars(const std::vector<LayerTimes>& layers, int ranks);

// Of the kept steps the one of median length, measured, and below it the simulated step.
std::string step_timeline(const ReportedRun& run);
// How the ranks spend a step: computing, waiting, neither; reading inputs.
std::string waiting_bars(const ReportedRun& run);
// Bytes in use in each rank's block of memory at each point of the step.
std::string memory_curves(const ReportedRun& run);
std::string exchange_bars(const ReportedRun& run);
// Seconds of the forward kernel of the slowest convolution or dense layer against its number of filters, on each device.
std::string staircases(const ReportedRun& run, const std::vector<LayerTimes>& layers);

}  // namespace motley::report
