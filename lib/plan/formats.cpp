// SPDX-License-Identifier: Apache-2.0
#include "plan/formats.h"

#include <motley/program.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "kernels/operands.h"
#include "plan/kernel_of.h"
#include "plan/planner.h"
#include "run/compiler.h"

namespace motley {

namespace {

constexpr double kWorthBlocks = 0.01;  // of a rank's kernels: two measurements of one kernel differ by less

// What lies in blocks would be: every box of it that this rank touches has the same channels, in whole blocks, and nothing of it moves.
bool may_lie_in_blocks(const PlanData& data, int tensor, int rank, Index block) {
  const auto at = static_cast<std::size_t>(tensor), r = static_cast<std::size_t>(rank);
  const StepTensor& t = data.passes.tensors[at];
  const TensorPlan& plan = data.tensors[at];
  if (data.formats[at] != Format::channels_last || (t.role != TensorRole::activation && t.role != TensorRole::gradient)) return false;
  if (std::find(data.passes.outputs.begin(), data.passes.outputs.end(), tensor) != data.passes.outputs.end()) return false;
  if (std::any_of(plan.by.begin(), plan.by.end(), [](const Schedule& by) { return by != Schedule{}; })) return false;  // it goes in chunks
  std::optional<Range> channels;
  auto fits = [&](const Box& box) {
    if (!channels) channels = box[1];
    return box[1] == *channels && box[1].size() % block == 0 && box[1].size() > 0;
  };
  for (const auto* list : {&plan.rest, &plan.tiles, &plan.needs})
    for (const Held& h : *list)
      if (h.rank == rank && !fits(h.box)) return false;
  for (const auto* messages : {&plan.first, &plan.second, &plan.third})
    for (const BoxMessage& m : *messages)
      if ((m.from == rank || m.to == rank) && (m.from != m.to || !fits(m.box))) return false;
  for (std::size_t p = 0; p < data.passes.passes.size(); p++) {
    const Pass& pass = data.passes.passes[p];
    const auto& work = data.pass_plans[p].work;
    if (work.empty() || !work[r].any) continue;
    auto touches = [&](const PassOperand& o) { return o.tensor == tensor; };
    auto good = [&](const PassOperand& o) {
      if (!touches(o)) return true;
      const bool channel = !is_window(pass.op) || o.indices[1] == pass.roles[1] || o.indices[1] == pass.roles[4];
      return channel && fits(operand_box(o, work[r].box));
    };
    if (!touches(pass.writes) && std::none_of(pass.reads.begin(), pass.reads.end(), touches)) continue;
    if (!is_window(pass.op) && (pass.op != KernelOp::fold || pass.class_index >= 0 || !pass.ties.empty())) return false;
    if (!good(pass.writes) || !std::all_of(pass.reads.begin(), pass.reads.end(), good)) return false;
  }
  return channels.has_value();
}

PlanData with(PlanData data, int rank, const std::vector<int>& group, Format format) {
  for (int t : group) data.own_formats[static_cast<std::size_t>(rank)][t] = format;
  return data;
}

// Of a rank's kernels; nothing: the profile does not know a convolution or pool among them.
std::optional<double> kernel_seconds(const PlanData& data, int rank, const Profile& profile) {
  double seconds = 0;
  for (const ProgramStep& s : Compiler(data, rank, {}).compile().steps) {
    const auto* run = std::get_if<RunKernel>(&s.what);
    if (run == nullptr) continue;
    const Estimate e = profile.seconds(rank, run->spec);
    if (is_window(run->spec.op) && e.known != Known::measured) return std::nullopt;
    seconds += e.seconds;
  }
  return seconds;
}

}  // namespace

std::vector<Format> common_formats(const Passes& passes, const Mesh& mesh, DType dtype) {
  std::vector<Format> formats(passes.tensors.size(), Format::plain);
  if (dtype == DType::f64) return formats;  // the reference reads better so
  for (std::size_t t = 0; t < passes.tensors.size(); t++)
    if (passes.tensors[t].shape.rank() == 4 && passes.tensors[t].dtype != DType::i32) formats[t] = Format::channels_last;
  const bool gpu = std::any_of(mesh.devices().begin(), mesh.devices().end(), has_own_memory);
  for (const Pass& p : passes.passes)  // a convolution's weights: a CPU's kernels pack them
    if (!gpu && p.op == KernelOp::conv2d && p.kind == PassKind::forward) formats[static_cast<std::size_t>(p.reads[1].tensor)] = Format::plain;
  for (std::size_t t = 0; t < passes.tensors.size(); t++)
    if (passes.tensors[t].of >= 0) formats[t] = formats[static_cast<std::size_t>(passes.tensors[t].of)];
  return formats;
}

std::vector<Format> formats_on(const PlanData& data, int rank) {
  std::vector<Format> out = data.formats;
  if (data.own_formats.empty()) return out;
  for (const auto& [tensor, format] : data.own_formats[static_cast<std::size_t>(rank)]) out[static_cast<std::size_t>(tensor)] = format;
  return out;
}

std::vector<std::vector<int>> groups_in_blocks(const PlanData& data, int rank, Format format) {
  const auto count = static_cast<int>(data.tensors.size());
  std::vector<int> group(static_cast<std::size_t>(count), -1);  // by its first tensor
  for (int t = 0; t < count; t++)
    if (may_lie_in_blocks(data, t, rank, block_of(format))) group[static_cast<std::size_t>(t)] = t;
  for (std::size_t p = 0; p < data.passes.passes.size(); p++) {
    const Pass& pass = data.passes.passes[p];
    const auto& work = data.pass_plans[p].work;
    if (work.empty() || !work[static_cast<std::size_t>(rank)].any) continue;
    if (is_pool(pass.op) && pass.kind == PassKind::forward) continue;
    std::vector<int> joined{group[static_cast<std::size_t>(pass.writes.tensor)]};
    for (const PassOperand& o : pass.reads) joined.push_back(group[static_cast<std::size_t>(o.tensor)]);
    if (is_pool(pass.op)) joined.erase(joined.begin() + 1);  // x and dx alone: kernels take them in one format
    std::erase(joined, -1);
    for (int& g : group)
      if (std::find(joined.begin(), joined.end(), g) != joined.end()) g = *std::min_element(joined.begin(), joined.end());
  }
  std::vector<std::vector<int>> out;
  for (int first = 0; first < count; first++) {
    std::vector<int> members;
    for (int t = 0; t < count; t++)
      if (group[static_cast<std::size_t>(t)] == first) members.push_back(t);
    if (!members.empty()) out.push_back(std::move(members));
  }
  return out;
}

std::vector<PlanData> plans_in_blocks(const PlanData& data, int rank, Format format) {
  const std::vector<std::vector<int>> groups = groups_in_blocks(data, rank, format);
  std::vector<PlanData> out;
  PlanData all = data;
  for (const auto& group : groups) {
    out.push_back(with(data, rank, group, format));
    all = with(std::move(all), rank, group, format);
  }
  if (groups.size() > 1) out.push_back(std::move(all));
  return out;
}

void choose_formats(PlanData& data, const Profile& profile) {
  if (profile.empty() || data.dtype != DType::f32) return;
  bool any = false;
  for (std::size_t r = 0; r < data.predicted.size(); r++) {
    const int rank = static_cast<int>(r);
    const std::optional<double> before = kernel_seconds(data, rank, profile);
    if (!before) continue;
    double least = *before;
    for (Format format : {Format::blocked8, Format::blocked16})
      for (const auto& group : groups_in_blocks(data, rank, format)) {
        PlanData tried = with(data, rank, group, format);
        const std::optional<double> seconds = kernel_seconds(tried, rank, profile);
        if (!seconds || *seconds > least - kWorthBlocks * *before) continue;
        least = *seconds;
        data = std::move(tried);
      }
    const std::size_t tensors = data.own_formats[r].size();
    if (tensors == 0) continue;
    any = true;
    char note[160];
    std::snprintf(note, sizeof note, "rank %d: %zu tensors are stored in blocks of channels: kernel time %.1f ms, channels last %.1f ms", rank, tensors, least * 1e3, *before * 1e3);
    data.notes.push_back(note);
  }
  if (any) predict(data, profile);
}

}  // namespace motley
