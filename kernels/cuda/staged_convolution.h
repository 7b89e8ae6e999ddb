// SPDX-License-Identifier: Apache-2.0
// A convolution by an engine that takes channels-last operands and no negative padding: other operands are first moved into the
// workspace, and the result is moved back. The engine is cuDNN's (convolution.cpp), or the reference where kernels are checked on
// the host.
#pragma once
#include "kernels/cuda/own_kernels.h"
#include "kernels/cuda/reach.h"

namespace motley::cuda {

inline bool has_same_layout(const Slice& a, const Slice& b) {
  for (int d = 0; d < 4; d++)
    if (a.extents[d] != b.extents[d] || (a.extents[d] > 1 && a.strides[d] != b.strides[d])) return false;
  return true;
}

// Engine: name(), scratch_bytes(), takes_bias(), takes_epilogue(), takes_sum() - done inside execute(data, bias, scratch), where
// data is x w y; a sum only if y is as the engine takes it -, and move(options, from, to), finish(options, bias, sum, y) for the
// rest.
template <class Engine>
class StagedConvolution final : public Kernel {
 public:
  StagedConvolution(const KernelSpec& spec, Engine engine) : spec_(spec), engine_(std::move(engine)) {
    const Roles& e = spec.roles;
    const Reach reach = reach_of(spec);
    const Window g = window_of(spec);
    sides_[0] = side(g.x, {e.n, e.g * e.c, reach.h, reach.w}, reach.below, reach.right);
    sides_[1] = side(g.w, {e.g * e.f, e.c, e.r, e.s}, 0, 0);
    sides_[2] = side(g.y, {e.n, e.g * e.f, e.p, e.q}, 0, 0, spec.accumulate && !engine_.takes_sum());
    scratch_ = bytes_;
    bytes_ += aligned(engine_.scratch_bytes());
  }
  std::size_t workspace_bytes() const override { return bytes_; }
  std::string implementation() const override { return engine_.name(); }

  void run(std::span<void* const> operands, void* workspace) override {
    // Positions of x, w and y among the operands.
    const std::size_t x = spec_.pass == PassKind::backward_data ? 2 : 0, w = spec_.pass == PassKind::backward_filter ? 2 : 1;
    const std::size_t y = spec_.pass == PassKind::forward ? operands.size() - 1 : 3 - x - w;
    const std::size_t at[3] = {x, w, y}, result = operands.size() - 1;
    const void* bias = spec_.bias ? operands[2] : nullptr;
    void* data[3];
    for (std::size_t k = 0; k < 3; k++) {
      const Side& s = sides_[k];
      data[k] = s.moves ? static_cast<std::byte*>(workspace) + s.offset : operands[at[k]];
      if (s.moves && at[k] != result) engine_.move(s.there, operands[at[k]], data[k]);
    }
    engine_.execute(data, bias, static_cast<std::byte*>(workspace) + scratch_);
    const void* bias_left = engine_.takes_bias() ? nullptr : bias;
    const EpilogueOptions left{sides_[2].there.to, sides_[2].there.from,
                               engine_.takes_epilogue() ? plain_of({}) : plain_of(spec_.epilogue),
                               spec_.accumulate && !engine_.takes_sum()};
    if (spec_.pass == PassKind::forward &&
        (sides_[2].moves || bias_left != nullptr || (!engine_.takes_epilogue() && !spec_.epilogue.code.empty())))
      return engine_.finish(left, bias_left, data[2], operands[result]);
    for (std::size_t k = 0; k < 3; k++)
      if (const MoveOptions& m = sides_[k].there; sides_[k].moves && at[k] == result)
        engine_.move({m.to, m.from, -m.below, -m.right}, data[k], operands[result]);
  }

 private:
  // An operand as in the spec, and as it is given to the engine.
  struct Side {
    MoveOptions there{};
    bool moves = false;
    std::size_t offset = 0;  // in the workspace, if it is moved
  };
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  Side side(const Slice& given, const std::vector<Index>& taken, Index below, Index right, bool apart = false) {
    Side s{{given, slice_of(Format::channels_last, taken), below, right}};
    s.moves = apart || !has_same_layout(s.there.from, s.there.to);
    if (!s.moves) return s;
    s.offset = bytes_;
    bytes_ += aligned(static_cast<std::size_t>(s.there.to.elements) * bytes_of(spec_.dtype));
    return s;
  }

  KernelSpec spec_;
  Engine engine_;
  Side sides_[3]{};  // x w y
  std::size_t bytes_ = 0, scratch_ = 0;
};

}  // namespace motley::cuda
