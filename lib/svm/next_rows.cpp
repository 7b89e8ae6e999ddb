// SPDX-License-Identifier: Apache-2.0
// Kernel rows of an iteration, and with them those that are likely to be needed soon.
#include <algorithm>
#include <limits>

#include "profiler/run_clock.h"
#include "svm/index.h"
#include "svm/solver.h"

namespace motley::svm {

// The samples of this rank that are likely to be chosen soon and whose rows the cache lacks: those with the least F that may move
// up and with the greatest F that may move down.
template <class T>
void Solver<T>::propose() {
  proposals_ = {};
  if (source_.batch() == 1) return;
  for (auto& list : proposals_) list.fill({std::numeric_limits<float>::infinity(), -1});
  const auto offer = [](auto& list, double value, Index id) {
    std::size_t k = kProposals - 1;
    for (; k > 0 && value < list[k - 1].value; k--) list[k] = list[k - 1];
    list[k] = {static_cast<float>(value), static_cast<std::int32_t>(id)};
  };
  for (std::size_t k = 0; k < active_.size(); k++) {
    const double up = f_[k] + up_[k], down = -(f_[k] + low_[k]);
    const bool is_up = up < proposals_[0].back().value, is_down = down < proposals_[1].back().value;
    if ((!is_up && !is_down) || cache_.has(active_[k])) continue;
    if (is_up) offer(proposals_[0], up, active_[k]);
    if (is_down) offer(proposals_[1], down, active_[k]);
  }
}

// The most likely of all ranks' proposals, to move up and down in turn.
template <class T>
void Solver<T>::merge(const std::vector<First>& all) {
  std::array<std::vector<Proposal>, 2> lists;
  for (const First& its : all)
    for (std::size_t way = 0; way < 2; way++)
      for (const Proposal& one : its.proposals[way])
        if (one.id >= 0) lists[way].push_back(one);
  for (auto& list : lists) std::sort(list.begin(), list.end());
  next_.clear();
  for (std::size_t k = 0; k < kProposals; k++)
    for (const auto& list : lists)
      if (k < list.size()) next_.push_back(list[k].id);
}

// This rank's part of the kernel row of a sample; the row before it stays valid. Rows that may be needed soon are computed with it.
template <class T>
const T* Solver<T>::row(Index id) {
  if (const T* const found = cache_.find(id)) {
    report_.row_hits++;
    return found;
  }
  const RunClock clock;
  missed_ = true;
  std::vector<Index> of;
  std::vector<T*> out;
  const auto add = [&](Index its) {
    of.push_back(pair_.samples[at(its)]);
    out.push_back(cache_.insert(its));
  };
  for (const Index its : next_)
    if (static_cast<Index>(of.size()) + 1 < source_.batch() && its != id && !cache_.has(its)) add(its);
  add(id);
  if (active_.empty()) return out.back();
  source_.rows(of, out);
  report_.rows += static_cast<Index>(of.size());
  kernel_values_ += static_cast<Index>(of.size() * active_.size());
  count(report_.row_seconds, clock);
  return out.back();
}

template void Solver<float>::propose();
template void Solver<float>::merge(const std::vector<First>&);
template const float* Solver<float>::row(Index);
template void Solver<double>::propose();
template void Solver<double>::merge(const std::vector<First>&);
template const double* Solver<double>::row(Index);

}  // namespace motley::svm
