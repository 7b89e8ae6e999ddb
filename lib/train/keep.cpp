// SPDX-License-Identifier: Apache-2.0
#include "train/keep.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/at.h"
#include "base/hash.h"
#include "graph/update_form.h"
#include "mesh/control.h"
#include "run/agreed.h"
#include "run/gather.h"
#include "run/planned.h"
#include "train/dump.h"
#include "weights/foreign_names.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

// UserError (65). name: by which the tensor is known.
void require_floats(const fs::path& file, const StoredTensor& tensor, const std::string& name) {
  if (tensor.dtype.starts_with("I"))
    throw UserError(fmt::format("{}: {}: {} values; expected floats", file.string(), shown(name), tensor.dtype), Exit::data);
}

std::string dtype_of(DType dtype) {
  return dtype == DType::f64 ? "F64" : "F32";
}

std::vector<Index> extents_of(const Shape& shape) {
  std::vector<Index> out;
  for (const Dim& d : shape.dims()) out.push_back(d.size);
  return out;
}

NpyData in_dtype(DType dtype, std::vector<double> values) {
  if (dtype == DType::f64) return values;
  return std::vector<float>(values.begin(), values.end());
}

std::string label(const std::string& name, const std::string& slot) {
  return slot.empty() ? name : name + " (" + slot + ")";
}

static_assert(std::string_view(kAverage) == kAverageSlot);

// The slot that is written as a parameter's weight: the average if there is one.
std::string weight_slot(const State& state, const std::string& name) {
  return state.has(name, kAverage) ? kAverage : "";
}

// The slots except "", which is the parameter itself.
std::string named(const std::set<std::string>& slots) {
  std::string out;
  for (const std::string& slot : slots)
    if (!slot.empty()) out += (out.empty() ? "" : " and ") + shown(slot);
  return out.empty() ? "nothing" : out;
}

// Parameters and statistics as a file has them.
std::vector<StoredTensor> tensors_of(const State& state) {
  std::vector<StoredTensor> out;
  for (const StateEntry& e : state.entries())
    if (e.slot.empty()) out.push_back({e.name, dtype_of(e.dtype), extents_of(e.shape)});
  return out;
}

// Weights of any origin, with which a training begins.
bool is_weights_alone(const Manifest& checkpoint) {
  return checkpoint.step == 0 &&
         std::all_of(checkpoint.entries.begin(), checkpoint.entries.end(), [](const StoredEntry& e) { return e.slot.empty(); });
}

std::vector<NamedShape> shapes_of(const std::vector<StoredTensor>& tensors) {
  std::vector<NamedShape> out;
  for (const StoredTensor& t : tensors) out.push_back({t.name, t.extents});
  return out;
}

}  // namespace

std::string differences(const std::vector<NamedShape>& state, const std::vector<NamedShape>& file) {
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
  constexpr std::size_t kMost = 20;
  std::size_t count = 0;
  std::string out;
  const auto add = [&](const auto& line) {  // makes only those that are shown
    if (count++ < kMost) out += "\n  " + line();
  };
  const auto meant = [](const std::string& name, const std::vector<std::string>& list) {
    const std::string found = probably_meant(name, list);
    return found.empty() ? "" : "; did you mean " + shown(found) + "?";
  };
  for (const std::string& name : missing)
    add([&] { return shown(name) + " " + to_text(*in_state.at(name)) + " is missing" + meant(name, besides); });
  for (const std::string& name : besides)
    add([&] { return shown(name) + " " + to_text(*in_file.at(name)) + " is not in the network" + meant(name, missing); });
  for (const NamedShape& one : state)
    if (const auto its = in_file.find(one.name); its != in_file.end() && *its->second != one.extents)
      add([&] { return fmt::format("{}: {}, expected {}", shown(one.name), to_text(*its->second), to_text(one.extents)); });
  return count <= kMost ? out : out + fmt::format("\n  and {} more", count - kMost);
}

std::vector<NamedShape> parameters_of(const Passes& passes) {
  std::vector<NamedShape> out;
  for (const int p : passes.parameters) out.push_back({at(passes.tensors, p).name, extents_of(at(passes.tensors, p).shape)});
  return out;
}

void require_same_network(const std::string& checkpoint, const Manifest& its, const std::vector<NamedShape>& parameters) {
  if (is_weights_alone(its)) return;
  std::vector<NamedShape> there;
  for (const StoredEntry& e : its.entries)
    if (e.slot.empty()) there.push_back({e.tensor.name, e.tensor.extents});
  if (const std::string wrong = differences(parameters, there); !wrong.empty())
    throw UserError(checkpoint + ": saved with another network; its tensors are not those of this job's network:" + wrong,
                    Exit::data);
}

void save_weights(Runtime& rt, const State& state, const fs::path& path) {
  rt.phase("saving weights");
  const std::vector<StoredTensor> tensors = tensors_of(state);
  std::unique_ptr<WeightsWriter> writer;
  on_rank_0(rt.transport(), [&] {
    if (path.extension() != ".safetensors" && path.extension() != ".npz")
      throw UserError(path.string() + ": expected a name that ends in .safetensors or .npz");
    writer = path.extension() == ".npz" ? new_npz(path, tensors) : new_safetensors(path, tensors, metadata_of(state.classes()));
  });
  std::optional<UserError> failed;
  for (const StateEntry& e : state.entries()) {
    if (!e.slot.empty()) continue;
    std::vector<double> values =
        put_together(e.shape, state.shard(e.name, weight_slot(state, e.name)), rt.transport(), Gathered::on_rank_0);
    if (!writer || failed) continue;
    try {
      writer->add(in_dtype(e.dtype, std::move(values)));
    } catch (const UserError& error) {  // the other ranks still send the remaining tensors
      failed = error;
    }
  }
  on_rank_0(rt.transport(), [&] {
    if (failed) throw UserError(*failed);
    writer->finish();
  });
}

void load_weights(Runtime& rt, State& state, const fs::path& path) {
  rt.phase("loading weights");
  std::unique_ptr<WeightsFile> file;
  const auto each = [&](auto&& use) {
    for (const StateEntry& e : state.entries()) {
      if (!e.slot.empty()) continue;
      const std::vector<Box> boxes = state.boxes(e.name);
      if (boxes.empty()) continue;
      const int tensor = file->find(e.name);
      require_floats(path, at(file->tensors(), tensor), e.name);
      auto values = file->read_boxes(tensor, boxes, extents_of(e.shape));
      std::vector<BoxValues> out;
      for (std::size_t b = 0; b < boxes.size(); b++) out.push_back({boxes[b], std::move(values[b])});
      use(e, out);
    }
  };
  // What is fused may hide them: the greater of 0 and a NaN is 0 in some libraries.
  const auto require_valid = [&](const StateEntry& e, const std::vector<BoxValues>& all) {
    for (const BoxValues& values : all) {
      for (const double v : values.values)
        if (!std::isfinite(e.dtype == DType::f64 ? v : static_cast<double>(static_cast<float>(v))))
          throw UserError(fmt::format("{}: {} has a value, {}, that is not finite{}", path.string(), shown(e.name), v,
                                      std::isfinite(v) ? " in " + to_string(e.dtype) : ""),
                          Exit::data);
      if (is_variance(e.name)) require_variances(path.string(), e.name, values.values);
    }
  };
  agreed(rt.transport(), [&] {
    const std::vector<StoredTensor> wanted = tensors_of(state);
    file = in_own_names(open_weights(path), wanted);
    if (const std::string wrong = differences(shapes_of(wanted), shapes_of(file->tensors())); !wrong.empty())
      throw UserError(file->name() + ": its tensors are not those of the network:" + wrong, Exit::data);
    each(require_valid);  // damaged values are found before any are overwritten
  });
  agreed(rt.transport(), [&] {
    if (std::vector<std::string> names = file->classes(); state.classes().empty()) state.set_classes(std::move(names));
    each([&](const StateEntry& e, const std::vector<BoxValues>& values) {
      state.set_shard(e.name, values);
      if (state.has(e.name, kAverage)) state.set_shard(e.name, values, kAverage);
    });
  });
}

StoredTensor stored_tensor(const StateEntry& entry) {
  return {entry.name, dtype_of(entry.dtype), extents_of(entry.shape)};
}

Manifest load_checkpoint(Runtime& rt, State& state, const fs::path& directory, const std::string& optimizer) {
  rt.phase("loading a checkpoint");
  std::optional<Checkpoint> from;
  std::map<std::pair<std::string_view, std::string_view>, const StoredEntry*> entries;  // by name and slot
  bool averages = true;  // whether the checkpoint keeps averages; else they begin as the parameters
  // use(a box of the State, the file's entry)
  const auto each = [&](auto&& use) {
    for (const StoredBox& box : state.stored()) {
      const auto its = entries.find({box.as.name, box.slot == kAverage && !averages ? "" : std::string_view(box.slot)});
      check(its != entries.end(), "the entries of a checkpoint are compared before they are read");
      use(box, *its->second);
    }
  };
  std::set<std::string> its_slots, own_slots;
  agreed(rt.transport(), [&] {
    from.emplace(directory);
    for (const StateEntry& e : state.entries()) own_slots.insert(e.slot);
    for (const StoredEntry& e : from->manifest().entries) {
      its_slots.insert(e.slot);
      entries[{e.tensor.name, e.slot}] = &e;
    }
  });
  same_everywhere(rt.transport(), hash_bytes(to_text(from->manifest())), "another checkpoint");
  if (is_weights_alone(from->manifest())) {
    load_weights(rt, state, directory);
    return from->manifest();
  }
  agreed(rt.transport(), [&] {
    require_same_network(directory.string(), from->manifest(), shapes_of(tensors_of(state)));
    averages = its_slots.contains(kAverage);
    if (!averages) own_slots.erase(kAverage);
    const bool left_out = averages && !own_slots.contains(kAverage);  // this job keeps none: its weights go on alone
    if (left_out) its_slots.erase(kAverage);
    if (its_slots != own_slots)
      throw UserError(fmt::format("{}: saved with another optimizer: its state of a parameter is {}, expected {}",
                                  directory.string(), named(its_slots), named(own_slots)),
                      Exit::data);
    if (const std::string& its = from->manifest().optimizer; !its.empty() && its != optimizer)
      throw UserError(
          fmt::format("{}: saved with another optimizer: {}, expected {}", directory.string(), shown(its), shown(optimizer)),
          Exit::data);
    std::vector<NamedShape> wanted, there;
    for (const StateEntry& e : state.entries())
      if (e.slot != kAverage || averages) wanted.push_back({label(e.name, e.slot), extents_of(e.shape)});
    for (const StoredEntry& e : from->manifest().entries) {
      if (left_out && e.slot == kAverage) continue;
      require_floats(directory, e.tensor, e.tensor.name);
      there.push_back({label(e.tensor.name, e.slot), e.tensor.extents});
    }
    if (const std::string wrong = differences(wanted, there); !wrong.empty())
      throw UserError(directory.string() + ": its tensors are not those of the network and its optimizer:" + wrong, Exit::data);
    // Damaged values are found before any value is overwritten.
    each([&](const StoredBox& box, const StoredEntry& its) {
      from->check(its, box.as.box);
      if (!is_variance(its.tensor.name)) return;
      std::string bytes(static_cast<std::size_t>(volume(box.as.box) * bytes_of_dtype(its.tensor.dtype)), '\0');
      from->read(its, box.as.box, std::as_writable_bytes(std::span(bytes)));
      require_variances(directory.string(), its.tensor.name, values_of({"", its.tensor.dtype, {volume(box.as.box)}}, bytes));
    });
  });
  if (state.classes().empty()) state.set_classes(from->manifest().classes);
  agreed(rt.transport(), [&] {
    std::vector<std::byte> room;  // of the largest box
    each([&](const StoredBox& box, const StoredEntry& its) {
      const auto bytes = static_cast<std::size_t>(volume(box.as.box) * bytes_of_dtype(its.tensor.dtype));
      const bool same_type = dtype_of(box.as.dtype) == its.tensor.dtype;
      if (same_type && state.device() == nullptr && box.as.format == Format::plain)
        return from->read(its, box.as.box, {box.memory.get(), bytes});
      if (bytes > room.size()) room.resize(bytes);
      const auto values = std::span(room).first(bytes);
      from->read(its, box.as.box, values);
      if (same_type) return state.overwrite(box, values.data());
      const StoredTensor as{"", its.tensor.dtype, {volume(box.as.box)}};
      const auto converted = [&](auto kind) {
        return std::visit([](const auto& list) { return NpyData(std::vector<decltype(kind)>(list.begin(), list.end())); },
                          values_of(as, {reinterpret_cast<const char*>(values.data()), values.size()}));
      };
      state.overwrite(box, bytes_in(box.as.dtype == DType::f64 ? converted(double{}) : converted(float{})).data());
    });
  });
  return from->manifest();
}

}  // namespace motley
