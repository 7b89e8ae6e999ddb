// SPDX-License-Identifier: Apache-2.0
// Samples that cannot move are left out; gradients of all samples from scratch say whether that was right.
#include <motley/error.h>
#include <motley/partition.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "profiler/run_clock.h"
#include "svm/index.h"
#include "svm/solver.h"

namespace motley::svm {

namespace {

constexpr Index kMostWrong = 10;        // checks that found wrongly eliminated samples; after them none are eliminated
constexpr Index kCheckedAtOnce = 2048;  // samples, between looks for a request to stop
constexpr Index kMostStalled = 5;       // checks of all samples in turn that found no smaller gap

}  // namespace

template <class T>
bool Solver<T>::due() const {
  return out_.machine.iterations >= next_check_ && wrong_checks_ < kMostWrong;
}

// Whether a sample at a bound can only move away from optimality.
static bool cannot_move(double f, bool up, bool low, const Bounds& bounds) {
  return (!low && f > bounds.low) || (!up && f < bounds.up);
}

template <class T>
void Solver<T>::eliminate(const Chosen& now) {
  next_check_ = out_.machine.iterations + interval_;
  for (std::size_t k = 0; k < active_.size(); k++) {
    if (gone_[k]) continue;
    const bool out = cannot_move(f_[k], up_[k] == 0, low_[k] == 0, now.bounds);
    if (out && (seen_[k] || tools_.options.shrink != Shrink::adaptive)) {
      gone_[k] = true;
      gone_count_++;
      set_room(static_cast<Index>(k));
    }
    seen_[k] = out;
  }
  Index gone_of_all = 0;
  for (const Index its : tools_.meeting.all(gone_count_)) gone_of_all += its;
  if (gone_of_all > std::max<Index>(kRowGranule, (now.active + gone_of_all) / 8)) compact();
}

// Removes eliminated samples from all arrays and from cached rows. Collective.
template <class T>
void Solver<T>::compact() {
  std::vector<Index> kept, ids, rows;
  for (std::size_t k = 0; k < active_.size(); k++) {
    position_of_[at(active_[k])] = gone_[k] ? -1 : static_cast<Index>(kept.size());
    if (gone_[k]) continue;
    kept.push_back(static_cast<Index>(k));
    ids.push_back(active_[k]);
    rows.push_back(pair_.samples[at(active_[k])]);
  }
  const Index n = padded(static_cast<Index>(kept.size()));
  const auto keep = [&](auto& values, auto padding) {
    for (std::size_t k = 0; k < kept.size(); k++) values[k] = values[at(kept[k])];
    values.resize(kept.size());
    values.resize(at(n), padding);
  };
  keep(f_, 0.0);
  keep(up_, kInfinity);
  keep(low_, -kInfinity);
  keep(diagonal_, 1.0);
  keep(gone_, false);
  keep(seen_, false);
  gone_count_ = 0;
  active_ = std::move(ids);
  cache_.keep(kept, n, std::max(rows_for(n), cache_.capacity()));
  source_.use(rows);
}

// Computes F of all samples from scratch. False: a stop was requested meanwhile, and F is as it was. Collective.
template <class T>
bool Solver<T>::check_all() {
  const RunClock clock;
  const Partition parts = Partition::proportional(size_, tools_.check_speeds);
  const Range own = parts.range(tools_.rt.rank());
  std::vector<double> mine;
  bool breaks_off = false;
  for (Index first = own.begin; first < own.end && !breaks_off; first += kCheckedAtOnce) {
    std::vector<Index> ids(at(std::min(kCheckedAtOnce, own.end - first)));
    std::iota(ids.begin(), ids.end(), first);
    const std::vector<double> part = gradients(tools_, pair_, out_.alpha, ids);
    mine.insert(mine.end(), part.begin(), part.end());
    breaks_off = !out_.stopped && tools_.rt.stop_requested();
  }
  count(report_.check_seconds, clock);
  for (const int its : tools_.meeting.all(breaks_off ? 1 : 0))
    if (its != 0) return false;
  const auto all = tools_.rt.transport().gather_all(std::as_bytes(std::span(mine)));
  for (int r = 0; r < parts.parts(); r++) {
    const std::vector<std::byte>& its = all[at(r)];
    check(its.size() == at(parts.range(r).size()) * sizeof(double), "every rank has as many gradients as samples");
    if (!its.empty()) std::memcpy(&out_.f[at(parts.range(r).begin)], its.data(), its.size());
  }
  out_.machine.reconstructions++;
  return true;
}

// Of this rank.
template <class T>
std::vector<Index> Solver<T>::wrongly_eliminated(const Bounds& bounds) const {
  std::vector<Index> out;
  for (const Index id : shares_[at(tools_.rt.rank())]) {
    const Index k = position_of_[at(id)];
    if (k >= 0 && !gone_[at(k)]) continue;
    const double alpha = out_.alpha[at(id)], sign = pair_.signs[at(id)], c = tools_.options.c;
    if (!cannot_move(out_.f[at(id)], moves_up(alpha, sign, c), moves_down(alpha, sign, c), bounds)) out.push_back(id);
  }
  return out;
}

// Whether training is over: the gap over all samples is small enough, or no further checks make it smaller. If it is not, training
// goes on from the new gradients, with the samples that were eliminated wrongly. Collective.
template <class T>
bool Solver<T>::certify() {
  if (!check_all()) return false;
  const Bounds bounds = bounds_of(pair_, out_.alpha, out_.f, tools_.options.c);
  out_.machine.gap = bounds.gap();
  if (!(bounds.gap() > tools_.options.epsilon)) return true;
  stalled_ = bounds.gap() < 0.9 * least_gap_ ? 0 : stalled_ + 1;
  least_gap_ = std::min(least_gap_, bounds.gap());
  if (stalled_ >= kMostStalled) {
    out_.machine.converged = false;
    return true;
  }
  const std::vector<Index> wrong = wrongly_eliminated(bounds);
  Index wrong_of_all = 0;
  for (const Index its : tools_.meeting.all(static_cast<Index>(wrong.size()))) wrong_of_all += its;
  if (wrong_of_all > 0) {
    wrong_checks_++;
    interval_ *= tools_.options.shrink == Shrink::adaptive ? 2 : 1;
  }
  next_check_ = std::max(next_check_, out_.machine.iterations + 1);
  std::vector<Index> ids = active_;
  if (!wrong.empty()) {
    ids.clear();
    for (std::size_t k = 0; k < active_.size(); k++)
      if (!gone_[k]) ids.push_back(active_[k]);
    ids.insert(ids.end(), wrong.begin(), wrong.end());
    std::sort(ids.begin(), ids.end());
    f_.clear();  // none of the samples is eliminated now
  }
  activate(std::move(ids), out_.f);
  return false;
}

template bool Solver<float>::due() const;
template void Solver<float>::eliminate(const Chosen&);
template void Solver<float>::compact();
template bool Solver<float>::check_all();
template std::vector<Index> Solver<float>::wrongly_eliminated(const Bounds&) const;
template bool Solver<float>::certify();
template bool Solver<double>::due() const;
template void Solver<double>::eliminate(const Chosen&);
template void Solver<double>::compact();
template bool Solver<double>::check_all();
template std::vector<Index> Solver<double>::wrongly_eliminated(const Bounds&) const;
template bool Solver<double>::certify();

}  // namespace motley::svm
