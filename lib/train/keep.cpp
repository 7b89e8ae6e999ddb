// SPDX-License-Identifier: Apache-2.0
#include "train/keep.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/at.h"
#include "base/hash.h"
#include "graph/name_patterns.h"
#include "graph/update_form.h"
#include "mesh/control.h"
#include "run/agreed.h"
#include "run/gather.h"
#include "run/planned.h"
#include "train/dump.h"
#include "train/same_network.h"

namespace motley {

namespace {

namespace fs = std::filesystem;

// UserError (65). name: by which the tensor is known.
void require_floats(const fs::path& file, const StoredTensor& tensor, const std::string& name) {
  if (tensor.dtype.starts_with("I"))
    throw UserError(fmt::format("{}: {}: {} values; expected floats", file.string(), shown(name), tensor.dtype), Exit::data);
}

NpyData in_dtype(DType dtype, std::vector<double> values) {
  if (dtype == DType::f64) return values;
  return std::vector<float>(values.begin(), values.end());
}

static_assert(std::string_view(kAverage) == kAverageSlot);

// The slot that is written as a parameter's weight: the average if there is one.
std::string weight_slot(const State& state, const std::string& name) {
  return state.has(name, kAverage) ? kAverage : "";
}

// Parameters and statistics as a file has them.
std::vector<StoredTensor> tensors_of(const State& state) {
  std::vector<StoredTensor> out;
  for (const StateEntry& e : state.entries())
    if (e.slot.empty()) out.push_back(stored_tensor(e));
  return out;
}

// Where the State's values of a box are in a checkpoint.
struct ReadBoxFrom {
  const StoredBox* box = nullptr;
  const StoredEntry* entry = nullptr;  // null: it begins at 0
};

// UserError (65): a chunk is damaged, a value is none that the tensor can have.
void check_values(const Checkpoint& from, const StoredEntry& its, const Box& box) {
  require_floats(from.path(), its.tensor, its.tensor.name);
  from.check(its, box);
  if (!is_variance(its.tensor.name)) return;
  std::string bytes(static_cast<std::size_t>(volume(box) * bytes_of_dtype(its.tensor.dtype)), '\0');
  from.read(its, box, std::as_writable_bytes(std::span(bytes)));
  require_variances(from.path().string(), its.tensor.name, values_of({"", its.tensor.dtype, {volume(box)}}, bytes));
}

// its: null: the values are 0. room: memory to use.
void read_box(State& state, const Checkpoint& from, const StoredBox& box, const StoredEntry* its, std::vector<std::byte>& room) {
  const std::string own = box.as.dtype == DType::f64 ? "F64" : "F32", type = its == nullptr ? own : its->tensor.dtype;
  const auto bytes = static_cast<std::size_t>(volume(box.as.box) * bytes_of_dtype(type));
  if (its != nullptr && type == own && state.device() == nullptr && box.as.format == Format::plain)
    return from.read(*its, box.as.box, {box.memory.get(), bytes});
  if (bytes > room.size()) room.resize(bytes);
  const auto values = std::span(room).first(bytes);
  if (its == nullptr)
    std::fill(values.begin(), values.end(), std::byte{0});
  else
    from.read(*its, box.as.box, values);
  if (type == own) return state.overwrite(box, values.data());
  const StoredTensor as{"", type, {volume(box.as.box)}};
  const auto converted = [&](auto kind) {
    return std::visit([](const auto& list) { return NpyData(std::vector<decltype(kind)>(list.begin(), list.end())); },
                      values_of(as, {reinterpret_cast<const char*>(values.data()), values.size()}));
  };
  state.overwrite(box, bytes_in(box.as.dtype == DType::f64 ? converted(double{}) : converted(float{})).data());
}

// Collective. name: says by its end what kind of file; where(), on rank 0: the file.
void save(Runtime& rt, const State& state, const std::string& name, const std::function<FileIn()>& where) {
  rt.phase("saving weights");
  const std::vector<StoredTensor> tensors = tensors_of(state);
  std::unique_ptr<WeightsWriter> writer;
  on_rank_0(rt.transport(), [&] {
    const FileIn file = where();
    writer = fs::path(name).extension() == ".npz" ? new_npz(file, tensors)
                                                  : new_safetensors(file, tensors, metadata_of(state.classes()));
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

}  // namespace

void save_weights(Runtime& rt, const State& state, const fs::path& path) {
  save(rt, state, path.string(), [&]() -> FileIn {
    if (path.extension() != ".safetensors" && path.extension() != ".npz")
      throw UserError(path.string() + ": expected a name that ends in .safetensors or .npz");
    return path;
  });
}

void save_weights(Runtime& rt, const State& state, const FileIn& file) {
  save(rt, state, file.name, [&] { return file; });
}

void load_weights(Runtime& rt, State& state, const fs::path& path, const LoadWeightsOptions& options) {
  rt.phase("loading weights");
  std::unique_ptr<WeightsFile> file;
  const auto each = [&](auto&& use) {
    for (const StateEntry& e : state.entries()) {
      if (!e.slot.empty() || matches_any(options.fresh, e.name)) continue;
      const std::vector<Box> boxes = state.boxes(e.name);
      if (boxes.empty()) continue;
      const int tensor = file->find(e.name);
      require_floats(path, at(file->tensors(), tensor), e.name);
      auto values = file->read_boxes(tensor, boxes, stored_tensor(e).extents);
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
    file = open_weights_of(path, state.entries(), options.fresh);
    each(require_valid);  // damaged values are found before any are overwritten
  });
  agreed(rt.transport(), [&] {
    // Fresh tensors may be a new head, for other classes than the file's.
    if (state.classes().empty() && options.fresh.empty()) state.set_classes(file->classes());
    each([&](const StateEntry& e, const std::vector<BoxValues>& values) {
      state.set_shard(e.name, values);
      if (state.has(e.name, kAverage)) state.set_shard(e.name, values, kAverage);
    });
  });
  state.changed();  // on ranks that own nothing too
}

Manifest load_checkpoint(Runtime& rt, State& state, const fs::path& directory, const std::string& optimizer) {
  rt.phase("loading a checkpoint");
  std::optional<Checkpoint> from;
  agreed(rt.transport(), [&] { from.emplace(directory); });
  same_everywhere(rt.transport(), hash_bytes(to_text(from->manifest())), "another checkpoint");
  if (is_weights_alone(from->manifest())) {
    load_weights(rt, state, directory);
    return from->manifest();
  }
  std::vector<ReadBoxFrom> boxes;
  agreed(rt.transport(), [&] {
    const ResumedEntries how = resumed_entries(directory.string(), from->manifest(), state.entries(), optimizer);
    const std::set<std::string> thawed(how.thawed.begin(), how.thawed.end());
    std::map<std::pair<std::string_view, std::string_view>, const StoredEntry*> entries;  // by name and slot
    for (const StoredEntry& e : from->manifest().entries) entries[{e.tensor.name, e.slot}] = &e;
    for (const StoredBox& box : state.stored()) {
      const bool is_new = thawed.contains(box.as.name) && !box.slot.empty(), average = box.slot == kAverage;
      if (is_new && !average) {
        boxes.push_back({&box});
        continue;
      }
      // Averages that the checkpoint does not keep begin as the parameters.
      const auto its = entries.find({box.as.name, average && (is_new || !how.averages) ? "" : std::string_view(box.slot)});
      check(its != entries.end(), "the entries of a checkpoint are compared before they are read");
      boxes.push_back({&box, its->second});
    }
    // Damaged values are found before any value is overwritten.
    for (const auto& [box, its] : boxes)
      if (its != nullptr) check_values(*from, *its, box->as.box);
  });
  if (state.classes().empty()) state.set_classes(from->manifest().classes);
  agreed(rt.transport(), [&] {
    std::vector<std::byte> room;  // of the largest box
    for (const auto& [box, its] : boxes) read_box(state, *from, *box, its, room);
  });
  state.changed();
  return from->manifest();
}

}  // namespace motley
