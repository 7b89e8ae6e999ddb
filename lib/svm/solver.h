// SPDX-License-Identifier: Apache-2.0
// Sequential minimal optimisation of one pair of classes over all ranks: second-order choice of two samples at each iteration (Fan,
// Chen, Lin: "Working Set Selection Using Second Order Information for Training SVM", JMLR 6, 2005).
#pragma once
#include <motley/runtime.h>

#include <array>
#include <limits>
#include <span>
#include <vector>

#include "profiler/run_clock.h"
#include "svm/meeting.h"
#include "svm/row_cache.h"
#include "svm/rows.h"

namespace motley::svm {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Two classes. A sample's id is its position in these lists.
struct Pair {
  std::vector<Index> samples{};  // rows of the data, ascending
  std::vector<double> signs{};   // 1 or -1
  Index size() const { return static_cast<Index>(samples.size()); }
};

// What a rank computes with.
struct Tools {
  Runtime& rt;
  Meeting& meeting;
  const Samples& samples;
  const Options& options;
  const cpu::SmoLoops& loops;
  int threads = 1;  // of the host's loops
  Index cache_bytes = 0;
  std::vector<double> check_speeds{};  // by rank: shares of the samples whose gradients it computes from scratch
};

// Which samples of a pair each rank has, ids ascending.
using Shares = std::vector<std::vector<Index>>;

// F of a sample: the sum over j of alpha[j] sign[j] K(j, sample), less its sign.
struct Solved {
  std::vector<double> alpha{}, f{};  // by id; f as computed last for all samples
  Machine machine{};
  bool stopped = false;
};

// F of these samples from scratch, in f64 and in the order of the ids.
std::vector<double> gradients(const Tools& tools, const Pair& pair, const std::vector<double>& alpha, std::span<const Index> ids);

// The optimality conditions hold within `gap` = low - up. Samples that may move up (low) are those with room in that direction.
struct Bounds {
  double up, low;  // least F that may move up, greatest that may move down
  double gap() const { return low - up; }
};
bool moves_up(double alpha, double sign, double c);
bool moves_down(double alpha, double sign, double c);
Bounds bounds_of(const Pair& pair, const std::vector<double>& alpha, const std::vector<double>& f, double c);

template <class T>
class Solver {
 public:
  Solver(Tools& tools, const Pair& pair, const Shares& shares, RowSource<T>& source, RankReport& report, Progress& progress);
  Solved solve();  // collective

 private:
  struct Proposal {
    float value = 0;       // the less, the more likely
    std::int32_t id = -1;  // -1: none
    auto operator<=>(const Proposal&) const = default;
  };
  static constexpr std::size_t kProposals = 4;                        // to move up, and as many to move down
  using Proposals = std::array<std::array<Proposal, kProposals>, 2>;  // the most likely first
  // One rank's sample that may move up with the least F, and the greatest F of those that may move down.
  struct First {
    double up = kInfinity, low = -kInfinity;
    Index id = -1, active = 0;
    bool stop = false, missed = false;
    Proposals proposals{};
  };

  // One rank's best sample to move down with the first one.
  struct Partner {
    double gain = -kInfinity, f = 0, with_first = 0, diagonal = 0;
    Index id = -1;
  };

  // Of all ranks.
  struct Chosen {
    Index id = -1, active = 0;
    Bounds bounds{kInfinity, -kInfinity};
    bool stop = false;
  };
  void activate(std::vector<Index> ids, const std::vector<double>& f);
  void set_room(Index position);
  cpu::Extremes extremes();
  Chosen choose_first(const cpu::Extremes& mine);
  void iterate(const Chosen& first, cpu::Extremes& extremes);
  double moved(Index i, Index j, double wanted);
  const T* row(Index id);
  void propose();
  void merge(const std::vector<First>& all);
  bool due() const;
  void eliminate(const Chosen& at);
  void compact();
  Index rows_for(Index length) const;
  bool certify();
  bool check_all();
  std::vector<Index> wrongly_eliminated(const Bounds& bounds) const;
  void count(double& seconds, const RunClock& clock) {  // of this rank's report
    const RunTime time = clock.stop();
    seconds += time.wall;
    report_.processor_seconds += time.cpu;
  }
  void tell(const Chosen& at);
  void finish(const Chosen& last);

  Tools& tools_;
  const Pair& pair_;
  const Shares& shares_;
  RowSource<T>& source_;
  RankReport& report_;
  Progress& progress_;
  RowCache<T> cache_;
  Solved out_{};
  Index size_, interval_, next_check_, wrong_checks_ = 0, stalled_ = 0;
  Proposals proposals_{};                   // of this rank
  std::vector<Index> next_{};               // of all ranks, the most likely first
  bool missed_ = false, proposes_ = false;  // whether the cache lacked a row since the last meeting; whether some rank's did
  double start_, told_, first_gap_ = 0, least_gap_ = 0;
  // By position: the samples of this rank that take part, then padding.
  std::vector<Index> active_{};                          // ids, ascending
  std::vector<double> f_{}, up_{}, low_{}, diagonal_{};  // as SmoLoops wants them
  std::vector<bool> gone_{}, seen_{};                    // eliminated; could not move at the check before
  std::vector<Index> position_of_;                       // by id; -1: not in active_
  Index gone_count_ = 0, kernel_values_ = 0;             // of gone_; computed by this rank
};

}  // namespace motley::svm
