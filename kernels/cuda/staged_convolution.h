// SPDX-License-Identifier: Apache-2.0
// A convolution by an engine that takes channels-last operands and no negative padding: other operands are first moved into the
// workspace, and the result is moved back. The engine is cuDNN's (convolution.cpp), or the reference where kernels are checked on
// the host.
#pragma once
#include <optional>

#include "kernels/cuda/own_kernels.h"
#include "kernels/cuda/reach.h"

namespace motley::cuda {

inline bool has_same_layout(const Slice& a, const Slice& b) {
  for (int d = 0; d < 4; d++)
    if (a.extents[d] != b.extents[d] || (a.extents[d] > 1 && a.strides[d] != b.strides[d])) return false;
  return true;
}

// Engine: name(), scratch_bytes(), result() (what it writes: f32 where bf16 is to be rounded after more work), takes_bias(),
// takes_epilogue(), takes_sum() - done inside execute(data, bias, scratch), where data is x w y; a sum only if y is as the engine
// takes it.
template <class Engine>
class StagedConvolution final : public Kernel {
 public:
  StagedConvolution(const KernelSpec& spec, Engine engine, TextCompiler& compiler) : spec_(spec), engine_(std::move(engine)) {
    const Roles& e = spec.roles;
    const Reach reach = reach_of(spec);
    const Slices g = slices_of(spec);
    result_ = spec.pass == PassKind::backward_data ? 0 : spec.pass == PassKind::backward_filter ? 1 : 2;
    side(0, g.x, {e.n, e.g * e.c, reach.h, reach.w}, reach.below, reach.right);
    side(1, g.w, {e.g * e.f, e.c, e.r, e.s}, 0, 0);
    side(2, g.y, {e.n, e.g * e.f, e.p, e.q}, 0, 0);
    for (std::size_t k = 0; k < 3; k++)
      if (sides_[k].moves && k != result_) movers_[k].emplace(sides_[k].there, input_dtype(spec), compiler);
    if (const MoveOptions& m = sides_[result_].there; spec.pass != PassKind::forward) {
      if (sides_[result_].moves)
        movers_[result_].emplace(MoveOptions{m.to, m.from, -m.below, -m.right}, engine_.result(), compiler);
    } else if (const bool epilogue = !engine_.takes_epilogue() && !spec.epilogue.code.empty();
               sides_[2].moves || (spec.bias && !engine_.takes_bias()) || epilogue) {
      finisher_.emplace(EpilogueOptions{m.to, m.from, engine_.result(), result_dtype(spec), spec.bias && !engine_.takes_bias(),
                                        adds_after(), epilogue ? spec.epilogue : Formula{}},
                        compiler);
    }
    scratch_ = bytes_;
    bytes_ += aligned(engine_.scratch_bytes());
  }
  std::size_t workspace_bytes() const override { return bytes_; }
  std::string implementation() const override { return engine_.name(); }

  void run(std::span<void* const> operands, void* workspace) override {
    // Positions of x, w and y among the operands.
    const std::size_t x = spec_.pass == PassKind::backward_data ? 2 : 0, w = spec_.pass == PassKind::backward_filter ? 2 : 1;
    const std::size_t y = spec_.pass == PassKind::forward ? operands.size() - 1 : 3 - x - w;
    const std::size_t at[3] = {x, w, y};
    const void* bias = spec_.bias ? operands[2] : nullptr;
    void* data[3];
    for (std::size_t k = 0; k < 3; k++) {
      const Side& s = sides_[k];
      data[k] = s.moves ? static_cast<std::byte*>(workspace) + s.offset : operands[at[k]];
      if (s.moves && k != result_) movers_[k]->run(operands[at[k]], data[k]);
    }
    engine_.execute(data, bias, static_cast<std::byte*>(workspace) + scratch_);
    if (finisher_) return finisher_->run(engine_.takes_bias() ? nullptr : bias, data[2], operands[y]);
    if (sides_[result_].moves) movers_[result_]->run(data[result_], operands[at[result_]]);
  }

 private:
  // An operand as in the spec, and as it is given to the engine.
  struct Side {
    MoveOptions there{};
    bool moves = false;
    std::size_t offset = 0;  // in the workspace, if it is moved
  };
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  bool adds_after() const { return spec_.accumulate && !engine_.takes_sum(); }

  void side(std::size_t k, const Slice& given, const std::vector<Index>& taken, Index below, Index right) {
    Side& s = sides_[k];
    s.there = {given, slice_of(Format::channels_last, taken), below, right};
    const bool other_type = k == result_ && engine_.result() != result_dtype(spec_);
    s.moves = other_type || (k == 2 && adds_after()) || !has_same_layout(s.there.from, s.there.to);
    if (!s.moves) return;
    s.offset = bytes_;
    const DType dtype = k == result_ ? engine_.result() : input_dtype(spec_);
    bytes_ += aligned(static_cast<std::size_t>(s.there.to.elements) * bytes_of(dtype));
  }

  KernelSpec spec_;
  Engine engine_;
  Side sides_[3]{};                     // x w y
  std::optional<Mover> movers_[3]{};    // into the workspace; the result: out of it
  std::optional<Finisher> finisher_{};  // a forward result that is not yet what is stored
  std::size_t result_ = 2, bytes_ = 0, scratch_ = 0;
};

}  // namespace motley::cuda
