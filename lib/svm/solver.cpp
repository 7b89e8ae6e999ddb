// SPDX-License-Identifier: Apache-2.0
#include "svm/solver.h"

#include <motley/error.h>
#include <motley/partition.h>

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/clock.h"
#include "profiler/run_clock.h"

namespace motley::svm {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Index kLeastRows = 32;   // of a cache: the rows of an iteration, and those computed with them, stay in it
constexpr Index kMostWrong = 10;   // checks that found wrongly eliminated samples; after them none are eliminated
constexpr Index kMostStalled = 5;  // checks of all samples in turn that found no smaller gap
constexpr double kMargin = 0.9;  // of epsilon: what rounding of the rows adds to the gap seldom needs a second check of all samples
constexpr double kTellSeconds = 0.25;

std::size_t at(Index i) {
  return static_cast<std::size_t>(i);
}

void count(RankReport& report, double& seconds, const RunClock& clock) {
  const RunTime time = clock.stop();
  seconds += time.wall;
  report.processor_seconds += time.cpu;
}

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

// One rank's sample that may move up with the least F, and the greatest F of those that may move down.
template <class T>
struct Solver<T>::First {
  double up = kInfinity, low = -kInfinity;
  Index id = -1, active = 0;
  bool stop = false, missed = false;
  Proposals proposals{};
};

// One rank's best sample to move down with the first one.
template <class T>
struct Solver<T>::Partner {
  double gain = -kInfinity, f = 0, with_first = 0, diagonal = 0;
  Index id = -1;
};

// Of all ranks.
template <class T>
struct Solver<T>::Chosen {
  Index id = -1, active = 0;
  Bounds bounds{kInfinity, -kInfinity};
  bool stop = false;
};

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

// These samples of this rank take part from now on; f: by id.
template <class T>
void Solver<T>::activate(std::vector<Index> ids, const std::vector<double>& f) {
  const bool same = ids == active_ && !f_.empty();
  if (!same) {
    for (const Index id : active_) position_of_[at(id)] = -1;
    active_ = std::move(ids);
    std::vector<Index> rows;
    for (const Index id : active_) rows.push_back(pair_.samples[at(id)]);
    source_.use(rows);
    cache_.clear(padded(static_cast<Index>(active_.size())));
  }
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
  count(report_, report_.row_seconds, clock);
  return out.back();
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
  if (gone_count_ > std::max<Index>(kRowGranule, static_cast<Index>(active_.size()) / 8)) compact();
}

// Removes eliminated samples from all arrays and from cached rows.
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
  cache_.keep(kept, n);
  source_.use(rows);
}

// Computes F of all samples from scratch. Collective.
template <class T>
void Solver<T>::check_all() {
  const RunClock clock;
  const Partition parts = Partition::proportional(size_, tools_.check_speeds);
  const Range own = parts.range(tools_.rt.rank());
  std::vector<Index> ids(at(own.size()));
  std::iota(ids.begin(), ids.end(), own.begin);
  const std::vector<double> mine = gradients(tools_, pair_, out_.alpha, ids);
  count(report_, report_.check_seconds, clock);
  const auto all = tools_.rt.transport().gather_all(std::as_bytes(std::span(mine)));
  for (int r = 0; r < parts.parts(); r++) {
    const std::vector<std::byte>& its = all[at(r)];
    check(its.size() == at(parts.range(r).size()) * sizeof(double), "every rank has as many gradients as samples");
    if (!its.empty()) std::memcpy(&out_.f[at(parts.range(r).begin)], its.data(), its.size());
  }
  out_.machine.reconstructions++;
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
  check_all();
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
    if (now.stop || out_.machine.iterations >= most) {
      check_all();
      break;
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
