// SPDX-License-Identifier: Apache-2.0
#include "plan/cost.h"

#include "plan/kernel_of.h"
#include "plan/planner.h"

namespace motley {

Cost::Cost(const Passes& passes, const Mesh& mesh, const Profile& profile, std::vector<double> speeds, DType dtype,
           std::vector<Format> formats, double message_weight)
    : passes_(passes),
      profile_(profile),
      speeds_(std::move(speeds)),
      dtype_(dtype),
      formats_(std::move(formats)),
      hosts_(hosts_of(mesh)),
      machines_(machines_of(mesh)),
      message_weight_(message_weight) {
  known_.resize(passes.passes.size() * static_cast<std::size_t>(mesh.ranks()));
}

double Cost::pass(int rank, int pass, const Box& work) const {
  auto& known = known_[static_cast<std::size_t>(rank) * passes_.passes.size() + static_cast<std::size_t>(pass)];
  if (auto found = known.find(work); found != known.end()) return found->second;
  double cost = 0;
  for (const Box& box : kernel_boxes(at(passes_.passes, pass), work)) {
    const auto [spec, count] = timed_kernel_of(passes_, pass, box, dtype_, formats_);
    cost += (measured() ? profile_.seconds(rank, spec).seconds : flops(spec) / at(speeds_, rank)) / count;
  }
  known.emplace(work, cost);
  return cost;
}

MessageSeconds Cost::message(int from, int to, Index bytes) const {
  if (from == to || bytes == 0) return {};
  if (!measured()) return {message_weight_ * 50.0 * static_cast<double>(bytes)};
  if (host(from) == host(to)) return {message_weight_ * profile_.in_place_seconds(from, to, bytes).seconds};
  return {message_weight_ * profile_.seconds(from, to, bytes).seconds, message_weight_ * profile_.card_seconds(from, to, bytes)};
}

double Cost::exchange(int from, int to) const {
  if (from == to || !measured() || host(from) != host(to)) return 0;
  return message_weight_ * profile_.exchange_seconds(from, to).seconds;
}

double Cost::copy(int rank, int tensor, Index elements) const {
  if (!measured() || elements == 0) return 0;
  const DType type = dtype_of(at(passes_.tensors, tensor), dtype_);
  const auto [known, fresh] = known_copies_.try_emplace({rank, type, elements});
  if (fresh) known->second = profile_.seconds(rank, elements_kernel({}, type, elements, {type, type})).seconds;
  return message_weight_ * known->second;
}

Index Cost::item_bytes(int tensor) const {
  return static_cast<Index>(bytes_of(dtype_of(at(passes_.tensors, tensor), dtype_)));
}

std::vector<double> seconds_alone(const Passes& passes, const Mesh& mesh, const Cost& cost) {
  std::vector<double> out(static_cast<std::size_t>(mesh.ranks()), 0.0);
  for (std::size_t p = 0; p < passes.passes.size(); p++) {
    Box all;
    for (const PassIndex& i : passes.passes[p].indices) all.push_back({0, i.size});
    for (int r = 0; r < mesh.ranks(); r++) at(out, r) += cost.pass(r, static_cast<int>(p), all);
  }
  return out;
}

}  // namespace motley
