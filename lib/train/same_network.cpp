// SPDX-License-Identifier: Apache-2.0
#include "train/same_network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <motley/error.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/at.h"
#include "graph/name_patterns.h"
#include "graph/update_form.h"
#include "weights/foreign_names.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostShown = 20;  // differences

std::string dtype_of(DType dtype) {
  return dtype == DType::f64 ? "F64" : "F32";
}

std::vector<Index> extents_of(const Shape& shape) {
  std::vector<Index> out;
  for (const Dim& d : shape.dims()) out.push_back(d.size);
  return out;
}

std::string label(const std::string& name, const std::string& slot) {
  return slot.empty() ? name : name + " (" + slot + ")";
}

// The slots except "", which is the parameter itself.
std::string named(const std::set<std::string>& slots) {
  std::string out;
  for (const std::string& slot : slots)
    if (!slot.empty()) out += (out.empty() ? "" : " and ") + shown(slot);
  return out.empty() ? "nothing" : out;
}

std::vector<NamedShape> shapes_of(const std::vector<StoredTensor>& tensors) {
  std::vector<NamedShape> out;
  for (const StoredTensor& t : tensors) out.push_back({t.name, t.extents});
  return out;
}

std::vector<std::string> dim_names(const Shape& shape) {
  std::vector<std::string> out;
  for (const Dim& d : shape.dims()) out.push_back(d.name);
  return out;
}

// The dims of the network's tensor whose sizes the other does not have: ` (dim "classes")`; empty: unknown.
std::string unlike_dims(const NamedShape& one, std::vector<Index> other) {
  while (other.size() > one.dims.size() && other.front() == 1) other.erase(other.begin());
  if (one.dims.size() != other.size() || one.extents.size() != other.size()) return "";
  std::vector<std::string> unlike;
  for (std::size_t i = 0; i < other.size(); i++)
    if (one.extents[i] != other[i]) unlike.push_back(shown(one.dims[i]));
  return fmt::format(" ({} {})", unlike.size() == 1 ? "dim" : "dims", fmt::join(unlike, ", "));
}

// Patterns of the tensors that only one of them has, or that have another shape: a layer's (`fc.*`) where none of its tensors fits.
std::vector<std::string> patterns_of_unlike(const std::vector<NamedShape>& network, const std::vector<NamedShape>& file) {
  std::map<std::string, std::vector<const std::vector<Index>*>> shapes;  // by name, in either
  for (const auto* list : {&network, &file})
    for (const NamedShape& one : *list) shapes[one.name].push_back(&one.extents);
  std::set<std::string> unlike, fitting;  // names; of what fits also the names of the layers and groups that it is in
  for (const auto& [name, found] : shapes) {
    if (found.size() != 2 || *found[0] != *found[1])
      unlike.insert(name);
    else
      for (std::size_t end = name.size(); end != std::string::npos; end = end == 0 ? end - 1 : name.rfind('.', end - 1))
        fitting.insert(name.substr(0, end));
  }
  std::set<std::string> out;
  for (const std::string& name : unlike) {
    const std::size_t dot = name.rfind('.');
    const bool alone = dot == std::string::npos || fitting.contains(name.substr(0, dot));
    out.insert(alone ? name : name.substr(0, dot) + ".*");
  }
  return {out.begin(), out.end()};
}

// Names that a few lines can show: "a, b and 7 more".
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 3;
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size())));
  const std::string out = fmt::format("{}", fmt::join(first, ", "));
  return names.size() <= kMost ? out : out + fmt::format(" and {} more", names.size() - kMost);
}

}  // namespace

std::vector<std::string> differences(const std::vector<NamedShape>& state, const std::vector<NamedShape>& file) {
  using ByName = std::unordered_map<std::string, const std::vector<Index>*>;
  const auto by_name = [](const std::vector<NamedShape>& list) {
    ByName out;
    for (const NamedShape& one : list) out.emplace(one.name, &one.extents);
    return out;
  };
  const ByName in_state = by_name(state), in_file = by_name(file);
  const auto others = [](const std::vector<NamedShape>& list, const ByName& than) {
    std::vector<std::string> out;
    for (const NamedShape& one : list)
      if (!than.contains(one.name)) out.push_back(one.name);
    return out;
  };
  const std::vector<std::string> missing = others(state, in_file), besides = others(file, in_state);
  std::vector<std::string> out;
  const auto meant = [&](const std::string& name, const std::vector<std::string>& list) {
    const std::string found = out.size() < kMostShown ? probably_meant(name, list) : "";  // slow for long lists
    return found.empty() ? "" : "; did you mean " + shown(found) + "?";
  };
  for (const std::string& name : missing)
    out.push_back(shown(name) + " " + to_text(*in_state.at(name)) + " is missing" + meant(name, besides));
  for (const std::string& name : besides)
    out.push_back(shown(name) + " " + to_text(*in_file.at(name)) + " is not in the network" + meant(name, missing));
  for (const NamedShape& one : state)
    if (const auto its = in_file.find(one.name); its != in_file.end() && *its->second != one.extents)
      out.push_back(fmt::format("{}: {}, expected {}{}", shown(one.name), to_text(*its->second), to_text(one.extents),
                                unlike_dims(one, *its->second)));
  return out;
}

std::string to_text(const std::vector<std::string>& differences) {
  std::string out;
  for (std::size_t i = 0; i < std::min(kMostShown, differences.size()); i++) out += "\n  " + differences[i];
  return differences.size() <= kMostShown ? out : out + fmt::format("\n  and {} more", differences.size() - kMostShown);
}

StoredTensor stored_tensor(const StateEntry& entry) {
  return {entry.name, dtype_of(entry.dtype), extents_of(entry.shape)};
}

std::vector<StateEntry> entries_of(const Passes& passes, DType dtype) {
  std::vector<StateEntry> out;
  for (const int p : passes.parameters) {
    const StepTensor& t = at(passes.tensors, p);
    StateEntry entry{t.name, "", t.shape, dtype, t.frozen, {}};
    for (const std::string& layer : t.shared_by) entry.also.push_back(layer + ".weight");
    out.push_back(entry);
    if (!passes.trains || !passes.is_trained(p)) continue;
    for (const std::string& slot : update_slots(passes)) {
      entry.slot = slot;
      out.push_back(entry);
    }
  }
  return out;
}

OpenWeights compared_weights(const fs::path& path, const std::vector<StateEntry>& network, const std::vector<std::string>& fresh) {
  std::vector<StoredTensor> wanted;
  std::vector<NamedShape> in_network;
  std::map<std::string, std::string> tied;
  for (const StateEntry& e : network) {
    if (!e.slot.empty()) continue;
    wanted.push_back(stored_tensor(e));
    in_network.push_back({e.name, extents_of(e.shape), dim_names(e.shape)});
    for (const std::string& name : e.also) tied.emplace(name, e.name);
  }
  OpenWeights out{in_own_names(open_weights(path), wanted, tied)};
  std::vector<NamedShape> in_file = shapes_of(out.file->tensors());
  std::vector<std::string> names;
  for (auto* list : {&in_network, &in_file}) {
    for (const NamedShape& one : *list) names.push_back(one.name);
    std::erase_if(*list, [&](const NamedShape& one) { return matches_any(fresh, one.name); });
  }
  for (const std::string& pattern : fresh)
    if (std::string wrong = wrong_pattern(pattern, names); !wrong.empty()) out.unknown_fresh.push_back(std::move(wrong));
  out.differences = differences(in_network, in_file);
  out.mends = patterns_of_unlike(in_network, in_file);
  return out;
}

std::unique_ptr<WeightsFile> open_weights_of(const fs::path& path, const std::vector<StateEntry>& network,
                                             const std::vector<std::string>& fresh) {
  OpenWeights out = compared_weights(path, network, fresh);
  if (!out.unknown_fresh.empty()) throw UserError(out.unknown_fresh.front());
  if (!out.differences.empty())
    throw UserError(out.file->name() + ": its tensors are not those of the network:" + to_text(out.differences), Exit::data);
  return std::move(out.file);
}

bool is_weights_alone(const Manifest& checkpoint) {
  return checkpoint.step == 0 &&
         std::all_of(checkpoint.entries.begin(), checkpoint.entries.end(), [](const StoredEntry& e) { return e.slot.empty(); });
}

namespace {

// The slots of each parameter there; none: it is a statistic, or was frozen.
std::map<std::string, std::set<std::string>> slots_in(const Manifest& checkpoint) {
  std::map<std::string, std::set<std::string>> out;
  for (const StoredEntry& e : checkpoint.entries) {
    std::set<std::string>& slots = out[e.tensor.name];
    if (!e.slot.empty()) slots.insert(e.slot);
  }
  return out;
}

void require_same_optimizer(const std::string& checkpoint, const Manifest& its, const std::set<std::string>& its_slots,
                            const std::set<std::string>& own_slots, const std::string& optimizer) {
  if (its_slots != own_slots)
    throw UserError(fmt::format("{}: saved with another optimizer: its state of a parameter is {}, expected {}", checkpoint,
                                named(its_slots), named(own_slots)),
                    Exit::data);
  if (!its.optimizer.empty() && its.optimizer != optimizer)
    throw UserError(
        fmt::format("{}: saved with another optimizer: {}, expected {}", checkpoint, shown(its.optimizer), shown(optimizer)),
        Exit::data);
}

}  // namespace

ResumedEntries resumed_entries(const std::string& checkpoint, const Manifest& its, const std::vector<StateEntry>& entries,
                               const std::string& optimizer) {
  ResumedEntries out;
  const auto there = slots_in(its);
  std::vector<NamedShape> network, saved;
  for (const StateEntry& e : entries)
    if (e.slot.empty()) network.push_back({e.name, extents_of(e.shape), dim_names(e.shape)});
  for (const StoredEntry& e : its.entries)
    if (e.slot.empty()) saved.push_back({e.tensor.name, e.tensor.extents});
  if (const auto wrong = differences(network, saved); !wrong.empty())
    throw UserError(checkpoint + ": saved with another network; its tensors are not those of this job's network:" + to_text(wrong),
                    Exit::data);
  std::set<std::string> its_slots, own_slots, frozen, thawed;
  for (const StateEntry& e : entries) {
    if (!e.slot.empty()) own_slots.insert(e.slot);
    if (e.frozen && !there.at(e.name).empty()) frozen.insert(e.name);
    if (!e.slot.empty() && there.at(e.name).empty()) thawed.insert(e.name);
  }
  for (const auto& [name, slots] : there) its_slots.insert(slots.begin(), slots.end());
  out.averages = its_slots.contains(kAverage);
  const bool left_out = out.averages && !own_slots.contains(kAverage);  // this job keeps none: its weights go on alone
  own_slots.erase(kAverage);
  its_slots.erase(kAverage);
  require_same_optimizer(checkpoint, its, its_slots, own_slots, optimizer);
  std::vector<NamedShape> wanted, found;
  for (const StateEntry& e : entries)
    if (e.slot.empty() || ((e.slot != kAverage || out.averages) && !thawed.contains(e.name)))
      wanted.push_back({label(e.name, e.slot), extents_of(e.shape)});
  for (const StoredEntry& e : its.entries)
    if (e.slot.empty() || ((e.slot != kAverage || !left_out) && !frozen.contains(e.tensor.name)))
      found.push_back({label(e.tensor.name, e.slot), e.tensor.extents});
  if (const auto wrong = differences(wanted, found); !wrong.empty())
    throw UserError(checkpoint + ": its tensors are not those of the network and its optimizer:" + to_text(wrong), Exit::data);
  for (const StateEntry& e : entries) {  // in the order of the step
    if (!e.slot.empty()) continue;
    if (thawed.contains(e.name)) out.thawed.push_back(e.name);
    if (frozen.contains(e.name)) out.dropped.push_back(e.name);
  }
  return out;
}

void require_resumable(const fs::path& checkpoint, const std::vector<StateEntry>& entries, const std::string& optimizer) {
  const Checkpoint its(checkpoint);
  if (is_weights_alone(its.manifest()))
    static_cast<void>(open_weights_of(checkpoint, entries));
  else
    static_cast<void>(resumed_entries(checkpoint.string(), its.manifest(), entries, optimizer));
}

std::vector<std::string> frozen_notes(const ResumedEntries& resumed) {
  std::vector<std::string> out;
  if (!resumed.thawed.empty())
    out.push_back(fmt::format("the checkpoint was saved with {} frozen: the optimizer's state of what is trained now begins at 0",
                              some_of(resumed.thawed)));
  if (!resumed.dropped.empty())
    out.push_back(
        fmt::format("the checkpoint's optimizer state of {} is left out: this job has them frozen", some_of(resumed.dropped)));
  return out;
}

}  // namespace motley
