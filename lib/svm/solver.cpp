// SPDX-License-Identifier: Apache-2.0
#include "svm/solver.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/clock.h"
#include "svm/index.h"

namespace motley::svm {

namespace {

constexpr Index kLeastRows = 32;  // of a cache: the rows of an iteration, and those computed with them, stay in it
constexpr double kMargin = 0.9;  // of epsilon: what rounding of the rows adds to the gap seldom needs a second check of all samples
constexpr double kTellSeconds = 0.25;

// Iterations from one elimination to the next.
Index interval_of(Shrink shrink, Index samples) {
  switch (shrink) {
    case Shrink::adaptive: return std::clamp<Index>(samples, 1, 1000);
    case Shrink::early: return std::max<Index>(1, samples / 20);
    case Shrink::lazy: return std::max<Index>(1, samples / 2);
    case Shrink::never: break;
  }
  return std::numeric_limits<Index>::max();
}

}  // namespace

template <class T>
Solver<T>::Solver(Tools& tools, const Pair& pair, const Shares& shares, RowSource<T>& source, RankReport& report,
                  Progress& progress)
    : tools_(tools),
      pair_(pair),
      shares_(shares),
      source_(source),
      report_(report),
      progress_(progress),
      cache_(tools.cache_bytes, pair.size(), kLeastRows),
      size_(pair.size()),
      interval_(interval_of(tools.options.shrink, pair.size())),
      next_check_(interval_),
      start_(seconds_now()),
      told_(start_),
      least_gap_(kInfinity),
      position_of_(at(pair.size()), -1) {
  out_.alpha.assign(at(size_), 0.0);
  out_.f.reserve(at(size_));
  for (const double sign : pair.signs) out_.f.push_back(-sign);
  out_.machine.least_active = size_;
}

// How many rows every rank keeps of those that have this length here. An iteration takes as long as on the slowest rank: a row
// helps where all ranks have it. Collective.
template <class T>
Index Solver<T>::rows_for(Index length) const {
  const std::vector<Index> all = tools_.meeting.all(cache_.fits(length));
  return *std::min_element(all.begin(), all.end());
}

// These samples of this rank take part from now on; f: by id. Collective.
template <class T>
void Solver<T>::activate(std::vector<Index> ids, const std::vector<double>& f) {
  const bool same = ids == active_ && !f_.empty();
  if (!same) {
    for (const Index id : active_) position_of_[at(id)] = -1;
    active_ = std::move(ids);
    std::vector<Index> rows;
    for (const Index id : active_) rows.push_back(pair_.samples[at(id)]);
    source_.use(rows);
  }
  const Index length = padded(static_cast<Index>(active_.size())), rows = rows_for(length);
  if (same)
    cache_.limit(rows);  // the other ranks' samples may have changed
  else
    cache_.clear(length, rows);
  const auto n = at(padded(static_cast<Index>(active_.size())));
  f_.assign(n, 0.0);
  up_.assign(n, kInfinity);
  low_.assign(n, -kInfinity);
  diagonal_.assign(n, 1.0);
  if (!same) gone_.assign(n, false);
  seen_.assign(n, false);
  gone_count_ = std::count(gone_.begin(), gone_.end(), true);
  for (std::size_t k = 0; k < active_.size(); k++) {
    position_of_[at(active_[k])] = static_cast<Index>(k);
    f_[k] = f[at(active_[k])];
    diagonal_[k] = tools_.samples.diagonal(pair_.samples[at(active_[k])]);
    set_room(static_cast<Index>(k));
  }
}

template <class T>
void Solver<T>::set_room(Index position) {
  const Index id = active_[at(position)];
  const double alpha = out_.alpha[at(id)], sign = pair_.signs[at(id)], c = tools_.options.c;
  const bool gone = gone_[at(position)];
  up_[at(position)] = !gone && moves_up(alpha, sign, c) ? 0 : kInfinity;
  low_[at(position)] = !gone && moves_down(alpha, sign, c) ? 0 : -kInfinity;
}

template <class T>
cpu::Extremes Solver<T>::extremes() {
  cpu::Extremes out{{kInfinity, -1}, {-kInfinity, -1}};
  for (Index k = 0; k < static_cast<Index>(active_.size()); k++) {
    if (up_[at(k)] == 0 && f_[at(k)] < out.up.value) out.up = {f_[at(k)], k};
    if (low_[at(k)] == 0 && f_[at(k)] > out.low.value) out.low = {f_[at(k)], k};
  }
  return out;
}

// The sample that may move up with the least F, of the lowest id among equal ones.
template <class T>
typename Solver<T>::Chosen Solver<T>::choose_first(const cpu::Extremes& mine) {
  First own;
  if (mine.up.at >= 0) own.up = mine.up.value, own.id = active_[at(mine.up.at)];
  if (mine.low.at >= 0) own.low = mine.low.value;
  own.active = static_cast<Index>(active_.size()) - gone_count_;
  own.stop = tools_.rt.stop_requested();
  if (missed_ || proposes_) propose();
  own.missed = missed_;
  own.proposals = proposals_;
  missed_ = proposes_ = false;
  Chosen out;
  const std::vector<First> all = tools_.meeting.all(own);
  merge(all);
  for (const First& its : all) {
    proposes_ = proposes_ || its.missed;
    if (its.id >= 0 && (its.up < out.bounds.up || (its.up == out.bounds.up && its.id < out.id)))
      out.bounds.up = its.up, out.id = its.id;
    out.bounds.low = std::max(out.bounds.low, its.low);
    out.active += its.active;
    out.stop = out.stop || its.stop;
  }
  return out;
}

// Moves sample i up and j down by as much as wanted, or as both have room for; returns how much.
template <class T>
double Solver<T>::moved(Index i, Index j, double wanted) {
  const double c = tools_.options.c;
  double &a = out_.alpha[at(i)], &b = out_.alpha[at(j)];
  const bool i_positive = pair_.signs[at(i)] > 0, j_positive = pair_.signs[at(j)] > 0;
  const double i_room = i_positive ? c - a : a, j_room = j_positive ? b : c - b;
  const double by = std::min({wanted, i_room, j_room});
  a = by == i_room ? (i_positive ? c : 0) : (i_positive ? a + by : a - by);
  b = by == j_room ? (j_positive ? 0 : c) : (j_positive ? b - by : b + by);
  return by;
}

template <class T>
void Solver<T>::iterate(const Chosen& first, cpu::Extremes& extremes) {
  const Index i = first.id;
  const double i_diagonal = tools_.samples.diagonal(pair_.samples[at(i)]);
  const T* const i_row = row(i);
  double start = seconds_now();
  const auto n = static_cast<Index>(f_.size());
  cpu::Found best;
  if constexpr (std::is_same_v<T, float>)
    best = tools_.loops.gain_f32(f_.data(), i_row, diagonal_.data(), low_.data(), first.bounds.up, i_diagonal, n);
  else
    best = tools_.loops.gain_f64(f_.data(), i_row, diagonal_.data(), low_.data(), first.bounds.up, i_diagonal, n);
  report_.step_seconds += seconds_now() - start;
  Partner own, chosen;
  if (best.at >= 0)
    own = {best.value, f_[at(best.at)], static_cast<double>(i_row[best.at]), diagonal_[at(best.at)], active_[at(best.at)]};
  for (const Partner& its : tools_.meeting.all(own))
    if (its.id >= 0 && (its.gain > chosen.gain || (its.gain == chosen.gain && its.id < chosen.id))) chosen = its;
  check(chosen.id >= 0, "where the gap is above 0 there is a sample to move down");
  const double curvature = std::max(i_diagonal + chosen.diagonal - 2 * chosen.with_first, 1e-12);
  const double by = moved(i, chosen.id, (chosen.f - first.bounds.up) / curvature);
  for (const Index id : {i, chosen.id})
    if (const Index k = position_of_[at(id)]; k >= 0) set_room(k);
  const T* const j_row = row(chosen.id);
  start = seconds_now();
  if constexpr (std::is_same_v<T, float>)
    extremes = tools_.loops.step_f32(f_.data(), i_row, j_row, by, up_.data(), low_.data(), n);
  else
    extremes = tools_.loops.step_f64(f_.data(), i_row, j_row, by, up_.data(), low_.data(), n);
  report_.step_seconds += seconds_now() - start;
  out_.machine.iterations++;
}

template <class T>
void Solver<T>::tell(const Chosen& now) {
  const double time = seconds_now();
  if (first_gap_ == 0) first_gap_ = now.bounds.gap();
  if (time - told_ < kTellSeconds || !tools_.options.progress || tools_.rt.rank() != 0) return;
  told_ = time;
  progress_.iterations = out_.machine.iterations;
  progress_.gap = now.bounds.gap();
  progress_.active = now.active;
  progress_.samples = size_;
  // The gap falls about as a power of the iterations' number: in equal times by equal factors, at the end.
  const double done = std::log(first_gap_ / progress_.gap), all = std::log(first_gap_ / tools_.options.epsilon);
  progress_.seconds_left = done > 0 && all > done ? std::optional((time - start_) * (all - done) / done) : std::nullopt;
  tools_.options.progress(progress_);
}

// Objective, threshold and counts from the gradients of all samples, in the order of the ids: the same on every rank.
template <class T>
void Solver<T>::finish(const Chosen& last) {
  Machine& out = out_.machine;
  const double c = tools_.options.c;
  double free_sum = 0;
  Index free = 0;
  for (Index id = 0; id < size_; id++) {
    const double alpha = out_.alpha[at(id)], sign = pair_.signs[at(id)], f = out_.f[at(id)];
    out.objective += alpha * (sign * f - 1) / 2;
    out.balance += sign * alpha;
    if (alpha > 0) out.support_vectors++;
    if (alpha >= c) out.bounded++;
    if (alpha > 0 && alpha < c) free_sum += f, free++;
  }
  const Bounds bounds = bounds_of(pair_, out_.alpha, out_.f, c);
  out.rho = free > 0 ? free_sum / static_cast<double>(free) : (bounds.up + bounds.low) / 2;
  out.gap = bounds.gap();
  out.samples = size_;
  out.converged = !(out.gap > tools_.options.epsilon);
  out.least_active = std::min(out.least_active, last.active);
  for (const Index its : tools_.meeting.all(kernel_values_)) out.kernel_values += its;
  out.seconds = seconds_now() - start_;
}

template <class T>
Solved Solver<T>::solve() {
  activate(shares_[at(tools_.rt.rank())], out_.f);
  const Index most = std::max<Index>(10'000'000, 100 * size_);  // libsvm's limit
  cpu::Extremes mine = extremes();
  Chosen now;
  for (;;) {
    now = choose_first(mine);
    out_.machine.least_active = std::min(out_.machine.least_active, now.active);
    tell(now);
    out_.stopped = now.stop;
    if (now.stop) tools_.rt.phase("saving: the gap over all samples");  // the launcher waits longer for ranks that save
    if (now.stop || out_.machine.iterations >= most) {
      if (check_all()) break;
      continue;
    }
    if (!(now.bounds.gap() > kMargin * tools_.options.epsilon)) {
      if (certify()) break;
      mine = extremes();
      continue;
    }
    if (due()) eliminate(now);
    iterate(now, mine);
  }
  finish(now);
  return std::move(out_);
}

template class Solver<float>;
template class Solver<double>;

}  // namespace motley::svm
