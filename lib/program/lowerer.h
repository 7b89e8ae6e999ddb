// SPDX-License-Identifier: Apache-2.0
// Shared by lower.cpp and lower_index_maps.cpp.
#pragma once
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/update_form.h"
#include "plan/kernel_of.h"
#include "plan/tiles.h"
#include "program/draft.h"

namespace motley {

class Lowerer {
 public:
  explicit Lowerer(Draft& draft) : draft_(draft), plan_(draft.plan) {}
  void run();

 private:
  void emit_move(Move move, const MovedTogether* together);  // of one tensor, or of this group
  void emit_pass(int p);
  std::vector<int> made_with(int p) const;
  bool takes_epilogue(int p, const WorkPart& whole, int bias, int next);
  void emit_part(int p, const WorkPart& part, int bias, int next);
  void emit_window(int p, KernelSpec spec, const std::vector<View>& views, const View* bias);
  void emit_attention(const std::vector<int>& passes, KernelSpec spec, const std::vector<View>& views);
  void emit_dense(int p, KernelSpec spec, const std::vector<View>& views, const View* bias);
  void emit_map(int p, const Box& work, const std::vector<View>& views);
  void emit_index_maps(int p, const std::vector<View>& views);
  void emit_updates();
  void emit_moved(const Slice& s, const Statistic& statistic, const Place& to);
  void emit_update(int slice, const Place& gradient);
  void emit_move_along(int slice);
  struct Elements {  // a map over a slice's elements; operands that the formula does not read come last
    Formula formula{};
    std::vector<Place> scalars{}, its{}, results{};  // operands of one f64 element, then of the slice; results in their dtypes
    Combine combine = Combine::set;                  // else into one element
  };
  void emit_elements(const Slice& slice, Elements of, const std::string& what);
  std::vector<Place> update_scalar_places(int slice) const;
  int norm_of(const Slice& slice, const Place& gradient);
  // The operand with its dims in `order` (positions in the view; -1: absent) as one block with the strides
  // `strides_of(format, extents)`.
  Place dense(const View& view, const std::vector<int>& order, Format format, const std::string& name);
  std::pair<Place, View> dense_result(const View& view, const std::vector<int>& order, Format format, const std::string& name);

  Draft& draft_;
  const LocalPlan& plan_;
  std::set<int> fused_{};             // passes that another kernel computes on this rank
  std::map<int, View> made_early_{};  // pass -> its result, made by the kernel of an earlier pass
  std::set<int> inside_{};            // tensors that on this rank exist only inside a kernel
};

}  // namespace motley
