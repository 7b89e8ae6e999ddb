// SPDX-License-Identifier: Apache-2.0
#include "balance/choose_apart.h"

#include <algorithm>
#include <utility>

#include "balance/needed_kernels.h"
#include "program/compile.h"
#include "program/predict.h"

namespace motley {

namespace {

// A smaller difference is noise.
constexpr double kNoise = 1.02;

}  // namespace

void choose_apart(PlanData& data, const Profile& profile) {
  const auto pays = [&](int rank, const Fusion& f) {
    double fused = 0, apart = 0;
    bool known = true;
    for (const auto& [list, sum] : {std::pair{&f.fused, &fused}, {&f.apart, &apart}})
      for (const KernelSpec& spec : *list) {
        if (list == &f.fused && !profile.supports(rank, spec)) return false;
        const Estimate estimate = profile.seconds(rank, spec);
        known = known && estimate.known != Known::modelled;
        *sum += estimate.seconds;
      }
    return !known || fused <= apart * kNoise;
  };
  data.apart.clear();
  if (profile.empty()) return;
  const std::vector<std::vector<KernelSpec>> none(data.predicted.size());
  data.apart = none;
  for (bool more = true; more;) {  // a map that stays apart may be fused with another one
    more = false;
    std::vector<std::vector<Fusion>> made;
    predict(data, profile, made);
    for (std::size_t r = 0; r < made.size(); r++)
      for (Fusion& f : made[r]) {
        if (pays(static_cast<int>(r), f)) continue;
        for (KernelSpec& spec : f.fused) {
          if (std::find(data.apart[r].begin(), data.apart[r].end(), spec) != data.apart[r].end()) continue;
          data.apart[r].push_back(std::move(spec));
          more = true;
        }
      }
  }
  if (data.apart == none) data.apart.clear();
}

}  // namespace motley
