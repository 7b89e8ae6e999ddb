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
  const CommonPlan plan = data;
  for (std::size_t r = 0; r < none.size(); r++) {
    std::vector<KernelSpec>& apart = data.apart[r];
    for (std::size_t before = apart.size() + 1; before != apart.size();) {  // a map that stays apart may be fused with another one
      before = apart.size();
      std::vector<Fusion> made;
      compile(plan, static_cast<int>(r), &made);
      for (Fusion& f : made) {
        if (pays(static_cast<int>(r), f)) continue;
        for (KernelSpec& spec : f.fused)
          if (std::find(apart.begin(), apart.end(), spec) == apart.end()) apart.push_back(std::move(spec));
      }
    }
  }
  if (data.apart == none)
    data.apart.clear();
  else
    predict(data, profile);
}

}  // namespace motley
