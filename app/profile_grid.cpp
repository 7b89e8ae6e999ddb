// SPDX-License-Identifier: Apache-2.0
// motley profile without a job: a grid of convolution shapes on every device of a mesh, and the links.
#include <fmt/format.h>
#include <motley/measure.h>

#include <algorithm>

#include "app/rank_verbs.h"
#include "profiler/join.h"
#include "profiler/measure_kernels.h"

namespace motley::app {

namespace {

// Layers as they occur in networks for small and middle-sized images: numbers of filters around the granules of the kernels (8,
// 16), so that a cut's sizes can be computed from them. n is scaled down if the full grid does not fit the budget.
std::vector<KernelSpec> grid(Index batch) {
  struct Layer {
    Index channels, extent;
  };
  std::vector<KernelSpec> out;
  for (const Layer layer : {Layer{3, 32}, Layer{16, 28}, Layer{64, 14}, Layer{128, 7}})
    for (const Index window : {1, 3, 5})
      for (const Index filters : {8, 16, 32, 64, 128})
        for (const PassKind pass : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter}) {
          KernelSpec s;
          s.pass = pass;
          s.roles = {.n = batch,
                     .c = layer.channels,
                     .h = layer.extent,
                     .w = layer.extent,
                     .f = filters,
                     .r = window,
                     .s = window,
                     .p = layer.extent,
                     .q = layer.extent};
          s.padding = {window / 2, window / 2, window / 2, window / 2};
          s.x_format = s.y_format = Format::channels_last;
          out.push_back(std::move(s));
        }
  return out;
}

Measurement measured(Runtime& rt, Backend& backend, const Options& options, Console& console) {
  KernelTimingOptions how;
  how.budget_seconds = options.budget_seconds;
  how.progress = [&console](const MeasureProgress& p) {
    if (p.total == 0) return;
    console.progress(fmt::format("measured {} of {} kernel runs{}", p.done, p.total,
                                 p.seconds_left ? ", about " + seconds_text(*p.seconds_left) + " left" : ""));
  };
  for (Index batch = 32;; batch /= 2) {
    Measurement made = measure_kernels(backend, 0, grid(batch), how, [&](Wish mine) {
      return static_cast<Wish>(agree(rt.transport(), static_cast<int>(mine)).status);
    });
    if (agree(rt.transport(), made.fits ? 0 : 1).status == 0) return made;
    if (batch == 1)
      throw UserError(
          fmt::format("three rounds of the grid do not fit a budget of {:g} s; raise --budget-seconds", options.budget_seconds));
    console.say(LogLevel::info, fmt::format("a batch of {} does not fit the budget of {} s; trying half of that batch", batch,
                                            options.budget_seconds));
  }
}

Profile profile_of_grid(Runtime& rt, const Mesh& mesh, const Options& options, Console& console) {
  const StopsAtOnce nothing_to_save;
  Backend& backend = rt.backend(mesh);
  Profile mine;
  mine.devices = {facts_of(mesh.device(rt.rank()), backend)};
  const Measurement made = measured(rt, backend, options, console);
  for (const KernelPoint& point : made.points) mine.add(point);
  mine.notes = made.notes;
  mine.device_links = own_device_links(backend, rt.transport(), options.budget_seconds);
  Profile all = joined(rt.transport(), mine);
  add_links(all, backend, rt.transport(), options.budget_seconds);
  return all;
}

}  // namespace

void profile_grid(Runtime& rt, const Mesh& mesh, const Options& options, Console& console) {
  rt.phase("measuring");
  const Profile all = profile_of_grid(rt, mesh, options, console);
  console.progress_done();
  if (rt.rank() == 0) give_result(all.json() + "\n", options.output, console);
}

}  // namespace motley::app
