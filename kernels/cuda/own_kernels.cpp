// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own_kernels.h"

#include <motley/error.h>

#include <algorithm>

#include "kernels/cuda/map_text.h"
#include "kernels/operands.h"

namespace motley::cuda {
namespace {

std::uint64_t word(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}
std::uint64_t word(Index number) {
  return static_cast<std::uint64_t>(number);
}

Index blocks(Index elements, Index per_block) {
  const Index out = (elements + per_block - 1) / per_block;
  if (out > kMostBlocksX) throw DeviceError("a kernel of " + std::to_string(elements) + " elements is more than a GPU launches");
  return out;
}

// A thread per element; arguments as in window_text.h.
void launch_each(const Loaded& loaded, const void* in0, const void* in1, const void* bias, void* out, Index elements,
                 Index samples) {
  if (elements == 0) return;
  const std::array<std::uint64_t, 7> arguments{word(in0),      word(in1),      word(bias),   word(out),
                                               word(elements), word(Index{0}), word(samples)};
  loaded.launch(0, blocks(elements, kBlockThreads), 1, arguments);
}

class MapKernel final : public Kernel {
 public:
  MapKernel(const KernelSpec& spec, TextCompiler& compiler)
      : map_(map_text(spec)), loaded_(compiler.load(map_.text, map_.kernels)) {
    map_.text.clear();
    arguments_.resize(map_.inputs + map_.results + 5);
  }
  std::size_t workspace_bytes() const override { return map_.parts_bytes(); }
  std::string implementation() const override { return "motley:map"; }
  void run(std::span<void* const> operands, void* workspace) override {
    if (map_.elements == 0) return;
    for (std::size_t k = 0; k < operands.size(); k++) arguments_[k] = word(operands[k]);
    arguments_[operands.size()] = word(workspace);
    map_.reduces ? reduce() : compute(operands);
  }

 private:
  void launch(std::size_t kernel, Index n, Index first, Index per_block, Index parts) {
    const std::size_t at = map_.inputs + map_.results + 1;
    arguments_[at] = word(n);
    arguments_[at + 1] = word(first);
    arguments_[at + 2] = word(map_.terms);
    arguments_[at + 3] = word(map_.parts);
    loaded_->launch(kernel, blocks(n, per_block), parts, arguments_);
  }
  void reduce() {
    launch(0, map_.elements, 0, map_.kept_lanes, map_.parts);
    if (map_.parts > 1) launch(1, map_.elements, 0, map_.combine_kept_lanes, 1);
  }
  void compute(std::span<void* const> operands) {
    Index first = 0;
    if (map_.vector > 1 && is_aligned(operands)) {
      const Index vectors = map_.elements / map_.vector;
      first = vectors * map_.vector;
      if (vectors > 0) launch(1, vectors, 0, kBlockThreads, 1);
    }
    if (first < map_.elements) launch(0, map_.elements - first, first, kBlockThreads, 1);
  }
  bool is_aligned(std::span<void* const> operands) const {
    for (std::size_t k = 0; k < operands.size(); k++)
      if (word(operands[k]) % map_.alignment[k] != 0) return false;
    return true;
  }

  MapText map_;
  std::shared_ptr<const Loaded> loaded_;
  std::vector<std::uint64_t> arguments_{};
};

// In a batch of products each is one launch.
class WindowKernel final : public Kernel {
 public:
  WindowKernel(const KernelSpec& spec, TextCompiler& compiler)
      : spec_(one_product(spec)),
        products_(spec.op == KernelOp::dense ? spec.roles.g : 1),
        loaded_(compiler.load(window_kernel_text(spec_), {"run"})) {
    const Slices s = slices_of(spec_);
    for (const Slice* slice : forward()                               ? std::array{&s.x, &s.w, &s.y}
                              : spec_.pass == PassKind::backward_data ? std::array{&s.y, &s.w, &s.x}
                                                                      : std::array{&s.x, &s.y, &s.w})
      elements_.push_back(slice->elements);
  }
  std::string implementation() const override { return "motley:direct"; }
  void run(std::span<void* const> operands, void*) override {
    const bool pool = is_pool(spec_.op);
    const void* const bias = forward() && spec_.bias ? operands[2] : nullptr;  // a batch of products has none
    const bool one_input = pool && operands.size() == 2;
    for (Index i = 0; i < products_; i++)
      launch_each(*loaded_, of_product(operands[0], i, 0, input_dtype(spec_)),
                  one_input ? nullptr : of_product(operands[1], i, 1, input_dtype(spec_)), bias,
                  of_product(operands.back(), i, 2, result_dtype(spec_)), elements_[2], spec_.roles.n);
  }

 private:
  static KernelSpec one_product(KernelSpec spec) {
    if (spec.op == KernelOp::dense) spec.roles.g = 1;
    return spec;
  }
  bool forward() const { return spec_.pass == PassKind::forward; }
  void* of_product(void* operand, Index product, std::size_t which, DType dtype) const {
    return static_cast<std::byte*>(operand) + product * elements_[which] * static_cast<Index>(bytes_of(dtype));
  }

  KernelSpec spec_;
  Index products_;
  std::shared_ptr<const Loaded> loaded_;
  std::vector<Index> elements_{};  // of operands 0 and 1 and the result, of one product
};

}  // namespace

Mover::Mover(const MoveOptions& options, DType dtype, TextCompiler& compiler)
    : loaded_(compiler.load(move_text(options, dtype), {"run"})), elements_(options.to.elements) {}
void Mover::run(const void* from, void* to) const {
  launch_each(*loaded_, from, nullptr, nullptr, to, elements_, 0);
}

Finisher::Finisher(const EpilogueOptions& options, TextCompiler& compiler)
    : loaded_(compiler.load(epilogue_text(options), {"run"})), elements_(options.to.elements) {}
void Finisher::run(const void* bias, const void* sum, void* y) const {
  launch_each(*loaded_, sum, nullptr, bias, y, elements_, 0);
}

Conversion conversion_by(TextCompiler& compiler) {
  const auto widen = compiler.load(conversion_text(DType::bf16, DType::f32), {"run"}),
             narrow = compiler.load(conversion_text(DType::f32, DType::bf16), {"run"});
  return {[widen](const Bf16* from, float* to, Index n) { launch_each(*widen, from, nullptr, nullptr, to, n, 0); },
          [narrow](const float* from, Bf16* to, Index n) { launch_each(*narrow, from, nullptr, nullptr, to, n, 0); }};
}

bool supports_own_kernel(const KernelSpec& spec) {
  return spec.op == KernelOp::map ? supports_map(spec) : spec.dtype != DType::i32;
}

std::unique_ptr<Kernel> own_kernel(const KernelSpec& spec, TextCompiler& compiler) {
  if (spec.op == KernelOp::map) return std::make_unique<MapKernel>(spec, compiler);
  if (spec.dtype == DType::i32) throw DeviceError("kernels compute in f32, f64 or bf16");
  return std::make_unique<WindowKernel>(spec, compiler);
}

}  // namespace motley::cuda
