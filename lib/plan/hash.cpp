// SPDX-License-Identifier: Apache-2.0
// What ranks compare before they trust one plan.
#include "plan/planner.h"

#include <bit>

namespace motley {

namespace {

struct Hash {
  std::uint64_t value = 14695981039346656037ULL;  // FNV-1a
  void mix(const std::string& text) {
    for (char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    value = (value ^ 0xFFU) * 1099511628211ULL;
  }
  void mix(Index v) { mix(std::to_string(v)); }
  void mix(const Rule& rule) {
    mix(rule.dim);
    for (const std::string& a : rule.axes.names) mix(a);
    mix(static_cast<Index>(rule.parts.index()));
    if (const auto* by = std::get_if<CutBy>(&rule.parts)) mix(static_cast<Index>(*by));
    if (const auto* shares = std::get_if<Shares>(&rule.parts))
      for (double s : shares->of) mix(std::bit_cast<Index>(s));
    if (const auto* sizes = std::get_if<Sizes>(&rule.parts))
      for (Index s : sizes->of) mix(s);
    if (const auto* jagged = std::get_if<Jagged>(&rule.parts)) {
      mix(jagged->per);
      for (const auto& list : jagged->of)
        for (Index s : list) mix(s);
    }
  }
};

}  // namespace

std::uint64_t plan_hash(const Step& step, const Mesh& mesh, const LayoutRules& rules) {
  Hash h;
  h.mix(static_cast<Index>(step.hash() >> 1));
  for (const Axis& a : mesh.axes()) {
    h.mix(a.name);
    h.mix(a.size);
  }
  for (const Device& d : mesh.devices()) {
    h.mix(d.name);
    h.mix(d.isa);
    h.mix(d.threads);
  }
  for (const Rule& r : rules.split) h.mix(r);
  for (const auto& [name, overrides] : rules.tensors) {
    h.mix(name);
    for (const Rule& r : overrides) h.mix(r);
  }
  for (const auto& [name, devices] : rules.places) {
    h.mix(name);
    for (const std::string& d : devices) h.mix(d);
  }
  return h.value;
}

}  // namespace motley
