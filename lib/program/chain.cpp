// SPDX-License-Identifier: Apache-2.0
// Consecutive maps, such as a layer norm's sums and what is computed with them, run block by block along an index that all of them
// have: what one map reads or makes is then in the second-level cache for the next one. Only where each block of a map uses the
// same block of what another one makes and nothing else of it, and where a count of bytes predicts that it is faster. No bit
// changes: a block's elements are computed as they would be together with all others.
#include <motley/error.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/at.h"
#include "kernels/map_extents.h"
#include "kernels/operands.h"
#include "program/compile.h"
#include "program/cpu_costs.h"

namespace motley {

namespace {

constexpr Index kBlockBytes = Index{1} << 19;   // of all operands: half of a small second-level cache
constexpr Index kLeastBytes = 4 * kBlockBytes;  // of a chain: less stays in a cache anyway
constexpr int kMostSteps = 64;                  // of a chain

// A map whose first index has so many positions, along which every result varies; no other index steps from one position to the
// next.
struct Blocked {
  KernelSpec spec{};
  Index stride(std::size_t operand) const { return spec.operands[operand].strides.front(); }
};

// Nothing: the map does not have such an index.
std::optional<Blocked> blocked(const KernelSpec& spec, Index positions) {
  if (spec.op != KernelOp::map || reads_position(spec.formula, -1)) return std::nullopt;
  std::vector<MapExtent> all = extents_of(spec);
  join(all);
  for (std::size_t i = 0; i < all.size(); i++) {
    if (all[i].size < positions || all[i].size % positions != 0) continue;
    std::vector<MapExtent> order = all;
    MapExtent first = order[i];
    order[i].size /= positions;
    for (Index& stride : first.strides) stride *= order[i].size;
    first.size = positions;
    if (order[i].size == 1) order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
    bool apart = true;
    for (std::size_t k = 0; k < spec.operands.size() && apart; k++) {
      Index reach = 1;
      for (const MapExtent& other : order) reach += (other.size - 1) * std::abs(other.strides[k]);
      apart = first.strides[k] == 0 ? k < input_count(spec) : first.strides[k] >= reach;
    }
    if (!apart) continue;
    order.insert(order.begin(), std::move(first));
    Blocked out{spec};
    out.spec.extents.clear();
    for (MapOperand& operand : out.spec.operands) operand.strides.clear();
    for (const MapExtent& e : order) {
      out.spec.extents.push_back(e.size);
      for (std::size_t k = 0; k < e.strides.size(); k++) out.spec.operands[k].strides.push_back(e.strides[k]);
    }
    return out;
  }
  return std::nullopt;
}

// Consecutive kernels that may run block by block, from one step on.
class ChainCandidate {
 public:
  ChainCandidate(const Program& program, int begin, Index positions) : program_(program), begin_(begin), positions_(positions) {}

  // False: the next step cannot be added.
  bool add() {
    const int step = begin_ + static_cast<int>(kernels_.size());
    const auto* run = std::get_if<RunKernel>(&at(program_.steps, step).what);
    if (run == nullptr || kernels_.size() == kMostSteps) return false;
    auto next = blocked(run->spec, positions_);
    if (!next || !is_in_step(*run, *next)) return false;
    const std::size_t inputs = input_count(next->spec);
    for (std::size_t k = 0; k < run->operands.size(); k++) {
      Touched& t = touched_[run->operands[k].buffer];
      const Index bytes = bytes_of(next->spec, next->spec.operands[k]), stride = next->stride(k);
      if (t.steps.empty()) t.element = run->operands[k].element, t.stride = stride;
      t.aligned = t.aligned && t.element == run->operands[k].element && t.stride == stride;
      t.written = t.written || k >= inputs;
      t.bytes = std::max(t.bytes, bytes);
      t.steps.insert(step);
    }
    kernels_.push_back(std::move(*next));
    return true;
  }

  // Seconds saved compared with kernel after kernel; for Chained::all the number of kernels.
  double gain(Chained which) const {
    if (which == Chained::all) return kernels_.size() < 2 ? 0 : static_cast<double>(kernels_.size());
    const Index all = walked_bytes();
    if (kernels_.size() < 2 || all < kLeastBytes || all / positions_ > kBlockBytes) return 0;
    Index again = 0;
    for (const auto& [buffer, t] : touched_)
      if (t.stride != 0) again += t.bytes * static_cast<Index>(t.steps.size() - 1);
    const double read = static_cast<double>(again) * (1 / kMemoryBytesPerSecond - 1 / kCacheBytesPerSecond);
    return read - static_cast<double>(kernels_.size()) * static_cast<double>(all) / kBlockBytes * kStartSeconds;
  }

  Chain chain(Chained which) const {
    Chain out;
    out.begin = begin_, out.end = begin_ + static_cast<int>(kernels_.size());
    const Index wanted = which == Chained::all ? 3 : (walked_bytes() + kBlockBytes - 1) / kBlockBytes,
                each = (positions_ + wanted - 1) / wanted;
    out.blocks = (positions_ + each - 1) / each;
    for (std::size_t i = 0; i < kernels_.size(); i++) {
      const KernelSpec& spec = kernels_[i].spec;
      Chain::Part part{spec, spec, {}};
      part.spec.extents.front() = each;
      part.last.extents.front() = positions_ - each * (out.blocks - 1);
      if (!is_read_later(i)) part.spec.whole = part.last.whole = volume_of(spec);
      for (std::size_t k = 0; k < spec.operands.size(); k++) part.advance.push_back(each * kernels_[i].stride(k));
      out.parts.push_back(std::move(part));
    }
    return out;
  }

 private:
  struct Touched {
    Index element = 0, stride = 0, bytes = 0;
    bool aligned = true, written = false;  // every use of the buffer has this stride and begins here; some step writes it
    std::set<int> steps{};
  };
  // Bytes of the buffers that have the index.
  Index walked_bytes() const {
    Index out = 0;
    for (const auto& [buffer, t] : touched_) out += t.stride == 0 ? 0 : t.bytes;
    return out;
  }
  // Whether each block uses only its own part of what this step writes, or another step has written.
  bool is_in_step(const RunKernel& run, const Blocked& next) const {
    const std::size_t inputs = input_count(next.spec);
    for (std::size_t k = 0; k < run.operands.size(); k++) {
      const auto known = touched_.find(run.operands[k].buffer);
      const bool writes = k >= inputs;
      if (known != touched_.end() && (writes || known->second.written) &&
          !(known->second.aligned && known->second.stride != 0 && known->second.stride == next.stride(k) &&
            known->second.element == run.operands[k].element))
        return false;
      for (std::size_t other = inputs; other < run.operands.size(); other++)  // in the same memory as itself
        if (other != k && run.operands[other].buffer == run.operands[k].buffer &&
            (run.operands[other].element != run.operands[k].element || next.stride(other) != next.stride(k)))
          return false;
    }
    return true;
  }
  bool is_read_later(std::size_t kernel) const {
    const int step = begin_ + static_cast<int>(kernel);
    const auto& run = std::get<RunKernel>(at(program_.steps, step).what);
    return std::any_of(run.operands.begin() + static_cast<std::ptrdiff_t>(input_count(run.spec)), run.operands.end(),
                       [&](const Place& p) { return *touched_.at(p.buffer).steps.rbegin() > step; });
  }
  static Index volume_of(const KernelSpec& spec) {
    Index out = 1;
    for (Index e : spec.extents) out *= e;
    return out;
  }

  const Program& program_;
  const int begin_;
  const Index positions_;
  std::vector<Blocked> kernels_{};
  std::map<int, Touched> touched_{};  // by buffer
};

// Whether a step before `end` accesses a buffer, more than one element of it, that this one accesses too: else a chain without this
// one gains more.
bool shares(const Program& program, int step, int end) {
  const auto& run = std::get<RunKernel>(at(program.steps, step).what);
  for (std::size_t k = 0; k < run.operands.size(); k++) {
    const std::vector<Index>& strides = run.spec.operands[k].strides;
    if (std::all_of(strides.begin(), strides.end(), [](Index stride) { return stride == 0; })) continue;
    for (int s = step + 1; s < end; s++)
      for (const Place& p : std::get<RunKernel>(at(program.steps, s).what).operands)
        if (p.buffer == run.operands[k].buffer) return true;
  }
  return false;
}

// The steps from which, and up to which, chains may run: consecutive maps of one part of the step that run equally often.
struct Maps {
  explicit Maps(const Program& program) : end(program.steps.size()), bytes(end.size() + 1, 0) {
    const int parts[]{program.forward_steps, program.combine_begin, program.update_begin, program.move_begin};
    const auto map_at = [&](std::size_t s) {
      const auto* run = std::get_if<RunKernel>(&program.steps[s].what);
      return run != nullptr && run->spec.op == KernelOp::map ? run : nullptr;
    };
    for (std::size_t s = 0; s < end.size(); s++)
      bytes[s + 1] = bytes[s] + (map_at(s) != nullptr ? bytes_touched(map_at(s)->spec) : 0);
    for (std::size_t s = end.size(); s-- > 0;) {
      const int next = static_cast<int>(s) + 1;
      const bool goes_on = s + 1 < end.size() && map_at(s + 1) != nullptr && program.steps[s + 1].once == program.steps[s].once &&
                           std::find(std::begin(parts), std::end(parts), next) == std::end(parts);
      end[s] = map_at(s) == nullptr ? next - 1 : goes_on ? end[s + 1] : next;
    }
  }
  std::vector<int> end;      // per step: after the last map that may follow it; the step itself if it is no map
  std::vector<Index> bytes;  // per step: touched by all maps before it
};

// The best chain from this step on; nothing: there is no gain.
std::optional<Chain> chain_from(const Program& program, const Maps& maps, int begin, Chained which) {
  const int end = std::min(at(maps.end, begin), begin + kMostSteps);
  const Index bytes = at(maps.bytes, end) - at(maps.bytes, begin);
  if (which == Chained::paying && (bytes < kLeastBytes || !shares(program, begin, end))) return std::nullopt;
  std::set<Index> sizes;
  for (int s = begin; s < std::min(end, begin + 2); s++) {
    Index size = 1;
    for (const Index extent : std::get<RunKernel>(at(program.steps, s).what).spec.extents) sizes.insert(size *= extent);
  }
  Index by = 0;  // of the best chain: its positions and number of kernels
  int kernels = 0;
  double most = 0;
  for (const Index positions : sizes) {
    if (positions < 2) continue;
    ChainCandidate candidate(program, begin, positions);
    for (int s = begin; s < end && candidate.add(); s++)
      if (const double gain = candidate.gain(which); gain > most) most = gain, by = positions, kernels = s + 1 - begin;
  }
  if (kernels == 0) return std::nullopt;
  ChainCandidate best(program, begin, by);
  for (int i = 0; i < kernels; i++) check(best.add(), "a kernel that has been in the chain");
  return best.chain(which);
}

}  // namespace

void chain(Program& program, Chained which) {
  const Maps maps(program);
  for (int s = 0; s < static_cast<int>(program.steps.size());) {
    std::optional<Chain> found = chain_from(program, maps, s, which);
    s = found ? found->end : s + 1;
    if (found) program.chains.push_back(std::move(*found));
  }
}

}  // namespace motley
