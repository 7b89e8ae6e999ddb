// SPDX-License-Identifier: Apache-2.0
#include "graph/update_form.h"

#include <algorithm>

#include "graph/name_patterns.h"
#include "graph/optimizers.h"

namespace motley {

Index update_scalars(const Optimizer& o, bool averages) {
  return kUpdateScalars + (o.scalars.code.empty() ? 0 : result_count(o.scalars)) + (averages ? 1 : 0);
}

OwnScalars own_scalars(const UpdateScalars& s, const std::string& parameter, bool decays) {
  const double left = decays || s.decay == Decay::all ? s.weight_decay : 0;
  const auto group =
      std::find_if(s.groups.begin(), s.groups.end(), [&](const ParameterGroup& g) { return matches_name(g.match, parameter); });
  if (group == s.groups.end()) return {1, left};
  return {group->learning_rate_factor, group->weight_decay.value_or(left)};
}

std::vector<std::string> update_slots(const Passes& passes) {
  std::vector<std::string> out = passes.optimizer.slots;
  if (passes.averages) out.emplace_back(kAverage);
  return out;
}

UpdateForm update_form(const Optimizer& o, bool averages) {
  const int own = static_cast<int>(update_scalars(o, false)), scalars = static_cast<int>(update_scalars(o, averages)),
            slots = static_cast<int>(o.slots.size());
  const auto average = [&](int slot, const Value& w) {  // kept is the last of the scalars
    const Value kept = scalar(scalars - 1);
    return kept * operand(slot) + (1.0 - kept) * w;
  };
  UpdateForm out;
  if (o.direction.code.empty()) {
    std::vector<Value> results = apply(o.update, [&](int k) {
      const bool is_parameter = k == own + 1 + slots;
      return operand(k + (averages ? (is_parameter ? 2 : 1) : 0));
    });
    if (averages) results.insert(results.end() - 1, average(scalars + 1 + slots, results.back()));
    out.update = formula(results);
    return out;
  }
  out.update = formula(apply(o.update, [&](int k) { return operand(k - own + scalars); }));
  const Value length = apply(o.direction, [&](int k) { return operand(k - own + scalars); }).front();
  out.squared = formula({length * length});
  const Value moves = apply(o.direction, [&](int k) {
                        const bool is_parameter = k == own + slots;
                        return operand(k - own + scalars + 1 + (averages && is_parameter ? 1 : 0));
                      }).front();
  const Value w = operand(scalars + 1 + slots + (averages ? 1 : 0)) - learning_rate() * (scalar(scalars) * moves);
  out.move = averages ? formula({average(scalars + 1 + slots, w), w}) : formula({w});
  return out;
}

std::vector<Formula> formulas_of(const std::vector<Optimizer>& optimizers) {
  std::vector<Formula> out;
  for (const Optimizer& o : optimizers)
    for (const bool averages : {false, true}) {
      const UpdateForm form = update_form(o, averages);
      for (const Formula& f : {form.update, form.squared, form.move})
        if (!f.code.empty()) out.push_back(f);
    }
  return out;
}

}  // namespace motley
