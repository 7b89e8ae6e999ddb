// SPDX-License-Identifier: Apache-2.0
#include "config/remaining.h"

#include <motley/partition.h>

#include <algorithm>
#include <numeric>

#include "base/at.h"
#include "mesh/mesh_json.h"
#include "plan/rules_json.h"
#include "profiler/part_of.h"

namespace motley {

namespace {

// All devices with one coordinate along one axis.
struct LostSlice {
  std::size_t axis = 0;
  int index = 0;
};

bool holds(const LostSlice& slice, const Mesh& mesh, int rank) {
  return at(mesh.coord(rank), slice.axis) == slice.index;
}

// The slice with the greatest part of lost devices; nothing: every slice is the whole mesh.
std::optional<LostSlice> most_lost(const Mesh& mesh, const std::vector<int>& gone) {
  std::optional<LostSlice> best;
  double best_part = 0;
  for (std::size_t axis = 0; axis < mesh.axes().size(); axis++) {
    const int size = mesh.axes()[axis].size;
    for (int index = 0; index < size && size > 1; index++) {
      const LostSlice slice{axis, index};
      const auto lost = std::count_if(gone.begin(), gone.end(), [&](int rank) { return holds(slice, mesh, rank); });
      const double part = static_cast<double>(lost) * size / mesh.ranks();
      if (part > best_part) {
        best = slice;
        best_part = part;
      }
    }
  }
  return best;
}

// For a flat list over these axes, ranks row-major: which entries are outside the slice.
std::vector<bool> staying(const Mesh& mesh, const std::vector<std::string>& axes, const LostSlice& slice) {
  std::vector<bool> out{true};
  for (const std::string& name : axes) {
    const auto axis = static_cast<std::size_t>(mesh.axis(name));
    const int size = mesh.axes()[axis].size;
    std::vector<bool> finer;
    for (const bool stays : out)
      for (int i = 0; i < size; i++) finer.push_back(stays && !(axis == slice.axis && i == slice.index));
    out = std::move(finer);
  }
  return out;
}

template <class T>
std::vector<T> kept(const std::vector<T>& list, const std::vector<bool>& stays) {
  std::vector<T> out;
  for (std::size_t i = 0; i < list.size(); i++)
    if (at(stays, i)) out.push_back(list[i]);
  return out;
}

std::vector<Index> shared_out(const std::vector<Index>& sizes, const std::vector<bool>& stays) {
  const Index unit = std::max<Index>(1, std::accumulate(sizes.begin(), sizes.end(), Index{0}, std::gcd<Index, Index>));
  const Index units = std::accumulate(sizes.begin(), sizes.end(), Index{0}) / unit;
  const std::vector<Index> left = kept(sizes, stays);
  const std::vector<double> shares(left.begin(), left.end());
  const bool any = std::any_of(shares.begin(), shares.end(), [](double s) { return s > 0; });
  std::vector<Index> out =
      (any ? Partition::proportional(units, shares) : Partition::even(units, static_cast<int>(shares.size()))).sizes();
  for (Index& size : out) size *= unit;
  return out;
}

Parts parts_without(const Rule& rule, const Mesh& mesh, const LostSlice& slice) {
  const std::vector<bool> stays = staying(mesh, rule.axes.names, slice);
  if (const auto* sizes = std::get_if<Sizes>(&rule.parts)) return Sizes{shared_out(sizes->of, stays)};
  if (const auto* shares = std::get_if<Shares>(&rule.parts)) {
    Shares out{kept(shares->of, stays)};
    if (std::all_of(out.of.begin(), out.of.end(), [](double s) { return s == 0; })) return CutBy::even;
    return out;
  }
  if (const auto* jagged = std::get_if<Jagged>(&rule.parts)) {
    Jagged out = *jagged;
    if (static_cast<std::size_t>(mesh.axis(out.per)) == slice.axis)
      out.of.erase(out.of.begin() + slice.index);
    else
      for (std::vector<Index>& sizes : out.of) sizes = shared_out(sizes, stays);
    return out;
  }
  return rule.parts;
}

Remaining without(const Remaining& from, const LostSlice& slice) {
  std::vector<Axis> axes = from.mesh.axes();
  at(axes, slice.axis).size--;
  std::vector<Device> devices;
  Remaining out{from.mesh, from.rules, {}};
  for (int r = 0; r < from.mesh.ranks(); r++) {
    if (holds(slice, from.mesh, r)) continue;
    devices.push_back(from.mesh.device(r));
    out.ranks.push_back(at(from.ranks, r));
  }
  out.mesh = Mesh(std::move(axes), std::move(devices));
  for (Rule& rule : out.rules.split) rule.parts = parts_without(rule, from.mesh, slice);
  for (auto& [tensor, rules] : out.rules.tensors)
    for (Rule& rule : rules) rule.parts = parts_without(rule, from.mesh, slice);
  for (auto& [layer, on] : out.rules.places)
    std::erase_if(on, [&](const std::string& name) {
      return std::none_of(out.mesh.devices().begin(), out.mesh.devices().end(), [&](const Device& d) { return d.name == name; });
    });
  std::erase_if(out.rules.places, [](const auto& one) { return one.second.empty(); });
  return out;
}

void put(Json& object, const std::string& key, Json value) {
  for (Json::Member& member : std::get<Json::Object>(object.value))
    if (member.key == key) {
      member.value = std::move(value);
      return;
    }
  object.set(key, std::move(value));
}

}  // namespace

std::optional<Remaining> without(const Mesh& mesh, const LayoutRules& rules, const std::vector<int>& gone) {
  Remaining out{mesh, rules, std::vector<int>(static_cast<std::size_t>(mesh.ranks()))};
  std::iota(out.ranks.begin(), out.ranks.end(), 0);
  for (;;) {
    std::vector<int> lost;
    for (int r = 0; r < out.mesh.ranks(); r++)
      if (std::find(gone.begin(), gone.end(), at(out.ranks, r)) != gone.end()) lost.push_back(r);
    if (lost.empty()) return out;
    const std::optional<LostSlice> slice = most_lost(out.mesh, lost);
    if (!slice) return std::nullopt;
    out = without(out, *slice);
  }
}

Job on(const Remaining& remaining, const Job& job, const Profile& profile, const std::string& file) {
  Json joined = job.joined;
  put(joined, "mesh", to_json(remaining.mesh));
  if (joined.find("layout") != nullptr) put(joined, "layout", to_json(remaining.rules));
  if (!profile.devices.empty()) {
    part_of(profile, remaining.ranks).save(file);
    put(joined, "profile", std::move(Json().set("path", file).set("measure", "if_missing")));
  }
  return parse_job("the job on the devices that are left", to_text(joined, 2));
}

}  // namespace motley
