// SPDX-License-Identifier: Apache-2.0
// What each choice of each bundle costs, and each change of layout between bundles: tables for least_sum().
#pragma once
#include <deque>
#include <vector>

#include "balance/eliminate.h"
#include "balance/layout_choices.h"
#include "balance/variables.h"
#include "plan/cost.h"
#include "plan/sweep.h"

namespace motley {

// Seconds as a sweep counts them (plan/sweep.h): per pass those of its slowest rank, per tensor those of its messages; a dim's
// parts are the ones that make its kernels, and nothing else, the fastest. Keeps references.
class LayoutTables {
 public:
  LayoutTables(const Passes& passes, const Mesh& mesh, const LayoutChoices& choices, const Cost& cost);
  // Per bundle: how many choices it has.
  std::vector<int> values() const;
  // Where a tensor is read by so many bundles that its table would be large, its messages are counted reader by reader.
  std::vector<CostTable> tables() const;
  // Whether, with the parts of the tables, each rank computes the same of a bundle under both choices.
  bool same_work(int bundle, int a, int b) const;
  // The one rank that computes a bundle's contractions, pools and attention under this choice; -1: several do, or there are none.
  int rank_alone(int bundle, int choice) const;
  // The rules of these choices with the parts that the tables assume.
  LayoutRules with_parts(LayoutRules rules) const;

 private:
  struct Part {  // of a dim over some axes
    std::string dim{};
    std::vector<std::string> axes{};
    std::vector<Index> sizes{};
  };
  std::vector<Layouts> layouts() const;
  void find_parts();
  void add_seconds(int pass, const Part& part, const Variable& v,
                   std::vector<std::vector<std::pair<Index, double>>>& of_rank) const;
  void add_work();
  Pick pick_of(int pass, int choice) const;
  void fill(int pass, int choice, Pick& pick) const;
  CostTable table_of(int tensor, const std::vector<int>& writers, const std::vector<int>& readers) const;
  std::vector<int> bundles_of(int tensor, const std::vector<int>& writers, const std::vector<int>& readers) const;
  double cost_of(int tensor, const std::vector<int>& writers, const std::vector<int>& readers,
                 const std::vector<int>& chosen) const;
  int most_choices() const;

  const Passes& passes_;
  const Mesh& mesh_;
  const LayoutChoices& choices_;
  const Cost& cost_;
  std::vector<Part> parts_{};
  std::vector<Layouts> layouts_{};             // the k-th: every bundle as its k-th choice says (its last, if it has fewer)
  std::deque<Sweeper> sweepers_{};             // of these
  std::vector<std::vector<PassPlan>> work_{};  // [pass][choice of its bundle]
  std::vector<std::vector<int>> writers_{}, readers_{};  // per tensor: passes of some layer
};

}  // namespace motley
