// SPDX-License-Identifier: Apache-2.0
// One whole network on two unequal ranks: the cut that balance() chooses beside all others, by real training steps.
#pragma once
#include <motley/motley.h>

#include <array>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/support/bound.h"
#include "bench/support/small_networks.h"

namespace motley::bench {

// A round in which other processes had more than kDisturbed of a rank's core is dropped. A row with more than kMostDropped of its
// rounds dropped says nothing; one with fewer than kLeastRounds to name the best cut and as many to time it has no numbers.
inline constexpr double kDisturbed = 0.05, kMostDropped = 0.3;
inline constexpr std::size_t kLeastRounds = 5;

struct NetworkCutsOptions {
  std::string profile{};       // file that the profile is kept in
  double budget_seconds = 12;  // of the profile
  std::size_t rounds = 14;     // of the last comparison: every other one names the best cut, those between time it
};

// Collective over two ranks.
class NetworkCuts {
 public:
  NetworkCuts(Runtime& rt, const Mesh& mesh, const SmallNetwork& net, const NetworkCutsOptions& options);
  Json row();

 private:
  using Cut = std::vector<Index>;  // per cut dim the fast rank's part
  struct Candidate {
    Cut cut{};
    std::unique_ptr<Bound> bound{};  // empty: only the other rank has work
    double estimate = 0;             // seconds of a step when it was made
    std::vector<double> seconds{};   // of a step, per undisturbed round of the last comparison
  };
  Candidate* add(const Plan& plan);
  Candidate* at(const Cut& cut);
  void start(Candidate& candidate, const Plan& plan, Transport& transport, int only = -1);  // a rank: the others rest meanwhile
  bool round(std::vector<Candidate*> order, double least_seconds);
  void compare(const std::vector<Candidate*>& list, std::size_t rounds, double round_seconds);
  Cut explore(const std::set<Cut>& cuts);
  std::set<Cut> along(std::size_t dim, Cut cut) const;
  std::set<Cut> neighbours() const;
  void search();
  std::vector<Candidate*> finalists();
  Json row_of(const std::vector<Candidate*>& list) const;

  Runtime& rt_;
  const Mesh& mesh_;
  const SmallNetwork& net_;
  NetworkCutsOptions options_;
  Step step_;
  Profile profile_{};
  std::unique_ptr<Transport> own_;  // of a rank alone
  std::map<Cut, Candidate> candidates_{};
  std::map<Cut, double> explored_{};  // seconds of a step, from the search
  std::array<Candidate, 2> alone_{};  // per rank
  std::array<double, 2> alone_predicted_{};
  Candidate *chosen_ = nullptr, *even_ = nullptr, *proportional_ = nullptr;
  double predicted_seconds_ = 0;
  std::size_t kept_ = 0, dropped_ = 0;  // rounds of all comparisons
  std::mt19937 random_{1};              // the same order on both ranks
};

}  // namespace motley::bench
