// SPDX-License-Identifier: Apache-2.0
// Open layout rules (LayoutRules::open): how each bundle of layers may be cut, and the rules that say so.
#pragma once
#include <motley/mesh.h>
#include <motley/rules.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "balance/bundles.h"
#include "base/at.h"
#include "plan/plan_data.h"

namespace motley {

// One way to cut a bundle: dims and the axes that each is cut over, no axis twice. A dim of the weights alone (input channels)
// makes partial sums. None: what no rule cuts is computed where that is cheapest.
using DimAxes = std::pair<std::string, std::vector<std::string>>;
struct LayoutChoice {
  std::vector<DimAxes> cuts{};
  bool given = false;  // as the rules say that are not open
  bool operator==(const LayoutChoice&) const = default;
};

// Of a weight two dims of which the rules of a layout would cut over the same axes: as the choice of its bundle says, or, as where
// a user cuts both dims, along the one that the planner finds cheaper.
enum class Weights : std::uint8_t { as_chosen, as_is_cheaper };

class LayoutChoices {
 public:
  // Rules are valid. Keeps references.
  LayoutChoices(const Passes& passes, const Mesh& mesh, const LayoutRules& rules);
  const Bundles& bundles() const { return bundles_; }
  const std::vector<LayoutChoice>& of(int bundle) const { return at(choices_, bundle); }
  // The rules under which each bundle is cut as its choice says: no longer open, parts by profile. chosen: per bundle, an index.
  LayoutRules rules(const std::vector<int>& chosen, Weights weights = Weights::as_chosen) const;
  // Uniform choices, one per bundle: the batch over all axes; what each layer makes (output channels); where rows are choices,
  // these; pairs of layers, the first by what it makes, the second by what it reads, from the first or the second layer on; on
  // several axes also the batch over the first and what each layer makes over the others. Only different ones.
  std::vector<std::vector<int>> uniform() const;
  // "conv2d_1 to conv2d_8 by batch; dense_9 by hidden": for people, at most 8 runs of layers.
  std::string text(const std::vector<int>& chosen) const;
  std::string text_of(int bundle, int choice) const;  // "by batch", "by its input's filters1", "not cut"
  // The same in a plan: "on fast alone" where its cuts leave one rank, "not cut, on fast".
  std::string text_of(int bundle, int choice, const std::vector<CutChoice>& cuts, const PlanData& plan) const;
  // The one rank that computes a bundle's contractions, pools and attention in a plan; -1: several do, or there are none.
  int rank_alone(int bundle, const PlanData& plan) const;
  // As the plan cuts their weights, where both Weights are possible.
  std::vector<int> as_planned(std::vector<int> chosen, const PlanData& plan) const;
  std::string name_of(int bundle) const;  // "conv2d_1 to max_pool2d_3"; empty: layers of the loss, which no one has named

 private:
  std::vector<LayoutChoice> choices_of(int bundle) const;
  std::vector<std::string> dims_of(int bundle) const;
  std::vector<DimAxes> cuts_of(const StepTensor& tensor, const LayoutChoice& choice) const;
  std::vector<std::string> names_of(const std::string& dim) const;  // itself, then the dims that it is derived from
  std::string source_of(const std::string& dim) const;              // the last of these: a choice names it
  std::string own_name(int bundle, const std::string& dim) const;
  bool is_open(int bundle) const;
  std::vector<std::string> named_layers(int bundle) const;  // without those of the loss, which no one has named
  int find(int bundle, const std::vector<DimAxes>& cuts) const;

  const Passes& passes_;
  const Mesh& mesh_;
  const LayoutRules& given_;
  Bundles bundles_;
  std::string batch_;
  std::set<std::string> slid_;  // dims that windows slide over
  bool with_slid_ = false;      // whether these are choices
  std::map<std::string, Index> sizes_;
  std::map<std::string, std::vector<std::string>> sources_{};  // of derived dims
  std::vector<std::vector<std::string>> made_{}, read_{};      // per bundle: dims of its weights that its result has, and has not
  std::vector<std::vector<LayoutChoice>> choices_{};
};

}  // namespace motley
