// SPDX-License-Identifier: Apache-2.0
// What lower.cpp and lower_index_maps.cpp share.
#pragma once
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan/kernel_of.h"
#include "plan/tiles.h"
#include "program/draft.h"

namespace motley {

class Lowerer {
 public:
  explicit Lowerer(Draft& draft) : draft_(draft), plan_(draft.plan) {}
  void run();

 private:
  void emit_move(Move move, const MovedTogether* together);  // of one tensor, or of these
  void emit_pass(int p);
  bool takes_epilogue(int p, const WorkPart& whole, int bias, int next);
  void emit_part(int p, const WorkPart& part, int bias, int next);
  void emit_window(int p, KernelSpec spec, const std::vector<View>& views, const View* bias);
  void emit_dense(int p, KernelSpec spec, const std::vector<View>& views, const View* bias);
  void emit_map(int p, const std::vector<Range>& work, const std::vector<View>& views);
  void emit_index_maps(int p, const std::vector<View>& views);
  void emit_updates();
  int norm_of(const Slice& slice, const Place& gradient);
  // The operand with its dims in `order` (positions in the view; -1: absent) as one block of `strides_of(format, extents)`.
  Place dense(const View& view, const std::vector<int>& order, Format format, const std::string& name);
  std::pair<Place, View> dense_result(const View& view, const std::vector<int>& order, Format format, const std::string& name);

  Draft& draft_;
  const LocalPlan& plan_;
  std::set<int> fused_{};   // passes that another kernel computes on this rank
  std::set<int> inside_{};  // tensors that on this rank exist only inside a kernel
};

}  // namespace motley
