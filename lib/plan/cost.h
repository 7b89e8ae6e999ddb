// SPDX-License-Identifier: Apache-2.0
// The cost of a part of a pass and of a message, for the planner.
#pragma once
#include <motley/profile.h>
#include <motley/schedule.h>

#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/at.h"
#include "base/hash.h"
#include "plan/plan_data.h"

namespace motley {

class Cost {
 public:
  // With a profile: its seconds. Without: flops over speed (relative; the fastest rank's is 1), and a byte costs 50 flops of the
  // fastest rank.
  // message_weight: times the cost of messages; above 1, picks that move less, and so hold less, are the cheapest.
  Cost(const Passes& passes, const Mesh& mesh, const Profile& profile, std::vector<double> speeds, DType dtype,
       std::vector<Format> formats, double message_weight = 1);
  bool measured() const { return !profile_.empty(); }
  double message_weight() const { return message_weight_; }
  double pass(int rank, int pass, const Box& work) const;
  // Between ranks that share memory: of reading in place.
  MessageSeconds message(int from, int to, Index bytes) const;
  // Of an exchange between two ranks, beside its messages: once for every rank from which another one reads in place.
  double exchange(int from, int to) const;
  int host(int rank) const { return at(hosts_, rank); }           // ranks with the same number share memory
  const std::vector<int>& machines() const { return machines_; }  // by rank: those with the same number share a network card
  double copy(int rank, int tensor, Index elements) const;        // within the rank's memory; 0 without a profile
  Index item_bytes(int tensor) const;

 private:
  const Passes& passes_;
  const Profile& profile_;
  std::vector<double> speeds_;
  DType dtype_;
  std::vector<Format> formats_;
  std::vector<int> hosts_, machines_;
  double message_weight_;
  struct HashOfBox {
    std::size_t operator()(const Box& box) const { return hash_bytes(box.begin(), box.size() * sizeof(Range)); }
  };
  mutable std::vector<std::unordered_map<Box, double, HashOfBox>> known_;   // [rank * passes + pass]
  mutable std::map<std::tuple<int, DType, Index>, double> known_copies_{};  // by rank, type, elements
};

// Seconds that each rank would take for all passes on its own.
std::vector<double> seconds_alone(const Passes& passes, const Mesh& mesh, const Cost& cost);

}  // namespace motley
