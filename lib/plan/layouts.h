// SPDX-License-Identifier: Apache-2.0
// Rules -> the layout of every tensor.
#pragma once
#include <motley/error.h>
#include <motley/layout.h>
#include <motley/rules.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/at.h"
#include "graph/passes.h"

namespace motley {

// Whether the lists of jagged cuts depend on each other's axes in a cycle: such cuts cannot be combined, neither in one tensor nor
// in one pass.
bool in_a_circle(std::vector<const Cut*> cuts);

// The size that a rule's parts refer to: the dim's size in the inputs, else where it first appears.
std::map<std::string, Index> reference_sizes(const Passes& passes);
// The dim whose explicit parts are rescaled when its size changes.
std::string batch_dim(const Passes& passes);

// Dims over which windows slide.
std::set<std::string> slid_dims(const Passes& passes);

// A rule's cut of its dim, parts resolved; the dim's size is that of reference_sizes.
Cut cut_of(const Passes& passes, const Mesh& mesh, const Rule& rule);

// Layer -> the ranks of the devices on which it is placed.
std::map<std::string, std::vector<int>> ranks_of_places(const Mesh& mesh, const LayoutRules& rules);

// Which parts of a cut over these axes belong to the given ranks (at coordinate `here` of the axis `per`; -1: any).
std::vector<bool> parts_of_ranks(const Mesh& mesh, const std::vector<int>& axes, int per, int here, const std::vector<int>& ranks);
// Parts of `size` in proportion to the shares of the open ones, even where these are all 0; the others get nothing.
Partition dealt(std::vector<double> shares, const std::vector<bool>& open, Index size);
// Whether the cut gives something to a rank that is not placed.
bool reaches_others(const Mesh& mesh, const Cut& cut, const std::vector<int>& placed);

// A layout that is impossible, caused by the rule of this dim of this tensor.
struct LayoutError : UserError {
  LayoutError(std::string of, std::string along, const std::string& text)
      : UserError(text), tensor(std::move(of)), dim(std::move(along)) {}
  std::string tensor, dim;
};

class Layouts {
 public:
  // Every rule's parts must be resolved (no CutBy::profile or proportional left). UserError: rules that do not fit.
  Layouts(const Passes& passes, const Mesh& mesh, const LayoutRules& rules);
  const Layout& of(int tensor) const { return options_[root(tensor)][choice_[root(tensor)]]; }
  // A parameter with two cuts on one axis may keep either: the options are the maximal compatible sets, in dim order.
  std::size_t options(int tensor) const { return options_[root(tensor)].size(); }
  void choose(int tensor, std::size_t option) { choice_[root(tensor)] = option; }
  std::size_t chosen(int tensor) const { return choice_[root(tensor)]; }
  const std::vector<int>& place(const std::string& layer) const;  // ranks of a layer; all ranks if no rule places it
  bool placed(const std::string& layer) const { return places_.contains(layer); }
  // Where another plan stores a parameter; nothing: the rules decide it.
  const std::vector<Shard>* home(const std::string& parameter) const;
  const std::vector<int>& busy() const {
    return busy_;
  }  // ranks that have a part of some tensor that the rules cut (of a parameter where they cut nothing else); all without rules

 private:
  std::size_t root(int tensor) const { return at(roots_, tensor); }
  void set_busy(const std::set<int>& with_part);
  std::vector<std::size_t> roots_{};  // a gradient has its tensor's, an inner tensor its layer's output's
  std::vector<std::vector<Layout>> options_{};
  std::vector<std::size_t> choice_{};
  std::map<std::string, std::vector<int>> places_{};
  std::map<std::string, std::vector<Shard>> homes_{};
  std::vector<int> all_{}, busy_{};
};

}  // namespace motley
