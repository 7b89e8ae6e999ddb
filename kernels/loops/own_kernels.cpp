// SPDX-License-Identifier: Apache-2.0
#include "kernels/loops/own_kernels.h"

#include <motley/error.h>

#include <cstring>

#include "kernels/loops/map_plan.h"
#include "kernels/loops/one_hot_kernel.h"
#include "kernels/loops/parallel.h"
#include "kernels/operands.h"

namespace motley::cpu {
namespace {

std::string name_of(const Loops& loops) {
  return std::string("motley:") + loops.name;
}

class MapKernel final : public Kernel {
 public:
  MapKernel(const KernelSpec& spec, const Loops& loops, int threads)
      : loops_(loops), plan_(plan_map(spec, loops, threads)), threads_(plan_->elements >= kElementsWorthAThread ? threads : 1) {}
  std::string implementation() const override { return name_of(loops_); }
  void run(std::span<void* const> operands, void*) override {
    for_parts(threads_, plan_->units, [&](Index begin, Index end) { loops_.map(plan_->loop, operands.data(), begin, end); });
  }

 private:
  const Loops& loops_;
  std::unique_ptr<const MapPlan> plan_;
  int threads_;
};

// Divides a pool operand [n c h w] into images [h w lanes] with contiguous lanes.
class PoolOperand {
 public:
  PoolOperand(Format format, const std::vector<Index>& extents) : format_(format), strides_(strides_of(format, extents)) {}
  // Channels c..c+lanes-1 are contiguous in this format.
  Index most_lanes(Index channels) const { return format_ == Format::channels_last ? channels : 1; }
  Index offset(Index n, Index c) const { return n * strides_[0] + c * strides_[1]; }
  Index row() const { return strides_[2]; }
  Index col() const { return strides_[3]; }

 private:
  Format format_;
  std::vector<Index> strides_;
};

class PoolKernel final : public Kernel {
 public:
  PoolKernel(const KernelSpec& spec, const Loops& loops, int threads)
      : loops_(loops),
        spec_(spec),
        x_(spec.x_format, {spec.roles.n, spec.roles.c, spec.roles.h, spec.roles.w}),
        wide_(spec.x_format,
              {spec.roles.n, spec.roles.c, spec.roles.h + spec.halo[0] + spec.halo[1], spec.roles.w + spec.halo[2] + spec.halo[3]}),
        y_(spec.y_format, {spec.roles.n, spec.roles.c, spec.roles.p, spec.roles.q}) {
    const Roles& e = spec.roles;
    loop_.max = spec.op == KernelOp::max_pool2d;
    loop_.h = e.h, loop_.w = e.w, loop_.r = e.r, loop_.s = e.s, loop_.p = e.p, loop_.q = e.q;
    for (int i = 0; i < 2; i++) {
      const auto axis = static_cast<std::size_t>(i);
      loop_.stride[i] = spec.stride[axis];
      loop_.dilation[i] = spec.dilation[axis];
      loop_.padding[i] = spec.padding[2 * axis];
    }
    set_windows();
    loop_.x_stride[0] = x_.row(), loop_.x_stride[1] = x_.col();
    loop_.y_stride[0] = y_.row(), loop_.y_stride[1] = y_.col();
    loop_.wide_stride[0] = wide_.row(), loop_.wide_stride[1] = wide_.col();
    std::copy(spec.halo.begin(), spec.halo.end(), loop_.halo);
    loop_.beyond = std::any_of(spec.halo.begin(), spec.halo.end(), [](Index m) { return m > 0; });
    lanes_ = std::max<Index>(1, std::min(x_.most_lanes(e.c), y_.most_lanes(e.c)));
    groups_ = (e.c + lanes_ - 1) / lanes_;
    threads_ = e.n * e.c * e.h * e.w >= kElementsWorthAThread ? threads : 1;
  }
  std::string implementation() const override { return name_of(loops_); }

  void run(std::span<void* const> operands, void*) override {
    if (spec_.pass == PassKind::forward) {
      for_images([&](const PoolLoop& loop, Index n, Index c) {
        loops_.pool_forward(loop, at(operands[0], x_, n, c), at(operands[1], y_, n, c));
      });
    } else {
      for_images([&](const PoolLoop& loop, Index n, Index c) {
        loops_.pool_backward(loop, at(operands[0], y_, n, c), loop.max ? at(operands[1], wide_, n, c) : nullptr,
                             at(operands.back(), x_, n, c));
      });
    }
  }

 private:
  static float* at(void* data, const PoolOperand& operand, Index n, Index c) {
    return static_cast<float*>(data) + operand.offset(n, c);
  }

  void set_windows() {
    loop_.tiles = true;
    const Index extents[2] = {loop_.h, loop_.w}, windows[2] = {loop_.r, loop_.s}, outputs[2] = {loop_.p, loop_.q};
    for (int i = 0; i < 2; i++) {
      const Index stride = loop_.stride[i], padding = loop_.padding[i], reach = (windows[i] - 1) * loop_.dilation[i] + 1;
      const Index first = padding <= 0 ? 0 : (padding + stride - 1) / stride, room = extents[i] + padding - reach;
      loop_.full[i] = {std::min(first, outputs[i]), room < 0 ? 0 : std::min(outputs[i], room / stride + 1)};
      if (windows[i] == 0) loop_.full[i] = {0, 0};
      loop_.overlaps = loop_.overlaps || reach > stride;
      loop_.tiles = loop_.tiles && padding == 0 && reach == stride && windows[i] == stride && extents[i] == outputs[i] * stride;
    }
  }

  template <class Image>
  void for_images(Image&& image) const {
    for_parts(threads_, spec_.roles.n * groups_, [&](Index begin, Index end) {
      PoolLoop loop = loop_;
      for (Index i = begin; i < end; i++) {
        const Index n = i / groups_, c = i % groups_ * lanes_;
        loop.c = std::min(lanes_, spec_.roles.c - c);
        image(loop, n, c);
      }
    });
  }

  const Loops& loops_;
  KernelSpec spec_;
  PoolOperand x_, wide_, y_;  // wide_: the x that includes the halo
  PoolLoop loop_{};
  Index lanes_ = 1, groups_ = 0;
  int threads_ = 1;
};

// conv2d and dense with an extent of 0, without the epilogue.
class EmptyKernel final : public Kernel {
 public:
  EmptyKernel(const KernelSpec& spec, const Loops& loops) : loops_(loops), spec_(spec), bytes_(operands_of(spec).back().bytes()) {
    const OperandUse y = operands_of(spec).back();
    strides_ = strides_of(y.format, y.extents);
    extents_ = y.extents;
    while (extents_.size() < 4) extents_.push_back(1), strides_.push_back(0);
  }
  std::string implementation() const override { return name_of(loops_); }
  void run(std::span<void* const> operands, void*) override {
    if (!spec_.accumulate) std::memset(operands.back(), 0, static_cast<std::size_t>(bytes_));
    if (!spec_.bias || bytes_ == 0) return;
    auto* y = static_cast<float*>(operands.back());
    for (Index n = 0; n < extents_[0]; n++)
      for (Index f = 0; f < extents_[1]; f++) {
        const float bias = static_cast<const float*>(operands[2])[f];
        float* plane = y + n * strides_[0] + f * strides_[1];
        for (Index p = 0; p < extents_[2]; p++)
          for (Index q = 0; q < extents_[3]; q++) plane[p * strides_[2] + q * strides_[3]] += bias;
      }
  }

 private:
  const Loops& loops_;
  KernelSpec spec_;
  Index bytes_;
  std::vector<Index> extents_{}, strides_{};
};

// A contraction, then the epilogue over its result. between: bytes of the contraction's result if that is not in the epilogue's
// result.
class ThenEpilogue final : public Kernel {
 public:
  ThenEpilogue(std::unique_ptr<Kernel> contraction, std::unique_ptr<Kernel> epilogue, std::size_t between)
      : contraction_(std::move(contraction)),
        epilogue_(std::move(epilogue)),
        begin_((contraction_->workspace_bytes() + 63) / 64 * 64),
        between_(between) {}
  std::size_t workspace_bytes() const override { return between_ > 0 ? begin_ + between_ : contraction_->workspace_bytes(); }
  std::string implementation() const override { return contraction_->implementation() + " + " + epilogue_->implementation(); }
  void run(std::span<void* const> operands, void* workspace) override {
    void* const made = between_ > 0 ? static_cast<std::byte*>(workspace) + begin_ : operands.back();
    std::array<void*, 4> own{};
    std::copy(operands.begin(), operands.end(), own.begin());
    own[operands.size() - 1] = made;
    contraction_->run(std::span(own).first(operands.size()), workspace);
    void* const both[] = {made, operands.back()};
    epilogue_->run(both, nullptr);
  }

 private:
  std::unique_ptr<Kernel> contraction_, epilogue_;
  std::size_t begin_, between_;
};

}  // namespace

bool supports(const KernelSpec& spec) {
  if (spec.op == KernelOp::map) return supports_map(spec);
  return spec.dtype == DType::f32 || (spec.dtype == DType::bf16 && (spec.result == DType::f32 || spec.result == DType::bf16));
}

std::unique_ptr<Kernel> own_kernel(const KernelSpec& spec, const Loops& loops, int threads) {
  switch (spec.op) {
    case KernelOp::map:
      if (supports_map(spec))
        if (auto rows = one_hot_kernel(spec, threads)) return rows;
      return std::make_unique<MapKernel>(spec, loops, threads);
    case KernelOp::max_pool2d:
    case KernelOp::avg_pool2d:
      check(spec.pass != PassKind::backward_filter, "a pool has no filter");
      return std::make_unique<PoolKernel>(spec, loops, threads);
    case KernelOp::conv2d:
    case KernelOp::dense: break;
    case KernelOp::attention: throw InternalError("attention has products, which the loops do not have");
  }
  return then_epilogue(std::make_unique<EmptyKernel>(without_epilogue(spec), loops), spec, loops, threads);
}

KernelSpec without_epilogue(KernelSpec spec) {
  if (!spec.epilogue.code.empty()) spec.result = DType::f32;
  spec.epilogue = {};
  return spec;
}

KernelSpec epilogue_of(const KernelSpec& spec, Index elements) {
  KernelSpec map;
  map.op = KernelOp::map;
  map.formula = spec.epilogue;
  map.extents = {elements};
  map.operands = {{DType::f32, {1}}, {operands_of(spec).back().dtype, {1}}};
  return map;
}

std::unique_ptr<Kernel> then_epilogue(std::unique_ptr<Kernel> contraction, const KernelSpec& spec, const Loops& loops,
                                      int threads) {
  if (spec.epilogue.code.empty()) return contraction;
  const OperandUse result = operands_of(spec).back();
  const KernelSpec map = epilogue_of(spec, result.elements);
  const std::size_t between = result.dtype == DType::f32 ? 0 : static_cast<std::size_t>(result.elements) * sizeof(float);
  return std::make_unique<ThenEpilogue>(std::move(contraction), std::make_unique<MapKernel>(map, loops, threads), between);
}

Conversion conversion_by(const Loops& loops, int threads) {
  const auto by = [threads](auto* convert) {
    return [threads, convert](auto* from, auto* to, Index n) {
      constexpr Index kUnit = 4096;  // least elements for one thread
      for_parts(threads, (n + kUnit - 1) / kUnit,
                [&](Index begin, Index end) { convert(from, to, begin * kUnit, std::min(end * kUnit, n)); });
    };
  };
  return {by(loops.widen), by(loops.narrow)};
}

}  // namespace motley::cpu
