// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/weights.h"

#include <limits>
#include <optional>

#include "kernels/cpu/convolution_choice.h"
#include "kernels/loops/parallel.h"

namespace motley::cpu {
namespace {

enum : dnnl_dim_t { kO = 0, kI = 1 };

// o and i may be blocked, with (o i), (i o) or (o) as the order inside a block; 1: not blocked.
struct Layout {
  Index block_o = 1, block_i = 1;
  bool o_innermost = false;
};

std::optional<Layout> layout_of(const vendor::Blocking& blocking) {
  Layout layout;
  if (blocking.sizes.empty() || blocking.sizes.size() > 2) return std::nullopt;
  for (std::size_t i = 0; i < blocking.sizes.size(); i++) {
    if (blocking.dims[i] != kO && blocking.dims[i] != kI) return std::nullopt;
    Index& block = blocking.dims[i] == kO ? layout.block_o : layout.block_i;
    if (block != 1) return std::nullopt;  // split twice
    block = blocking.sizes[i];
  }
  layout.o_innermost = blocking.dims.back() == kO;
  return layout;
}

struct PackPlan {
  PackLoop loop{};  // its offsets are set to the list's before it runs
  std::vector<std::int32_t> offsets{};
  Index units = 0;
};

// Empty: not one of the layouts that our loops support (o innermost, in blocks; or i innermost and w channels-last).
std::optional<PackPlan> plan_packing(const KernelSpec& spec, const dnnl::memory::desc& packed) {
  const Roles& e = spec.roles;
  const vendor::Blocking blocking = vendor::blocking_of(packed);
  const std::optional<Layout> layout = layout_of(blocking);
  const bool channels_last = spec.w_format == Format::channels_last;
  if (e.g != 1 || type_of(spec, spec.pass == PassKind::backward_filter) != dnnl::memory::data_type::f32) return std::nullopt;
  if (!layout || (!channels_last && spec.w_format != Format::plain)) return std::nullopt;
  if (!layout->o_innermost && !channels_last) return std::nullopt;
  PackPlan plan;
  PackLoop& loop = plan.loop;
  loop.pack = spec.pass != PassKind::backward_filter;
  loop.f = e.f, loop.k = e.c * e.r * e.s, loop.c = e.c;
  loop.block = layout->block_o;
  loop.block_stride = blocking.strides[kO];
  loop.run = layout->o_innermost ? 1 : layout->block_i;
  // The filters' blocks must be outermost: then only they have padding.
  const Index blocks = (e.f + loop.block - 1) / loop.block;
  if (static_cast<Index>(packed.get_size() / sizeof(float)) != blocks * loop.block_stride) return std::nullopt;
  if (loop.block_stride > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  loop.padded = loop.block_stride != loop.block * loop.k || e.f % loop.block != 0;
  const Index inner_i = layout->o_innermost ? layout->block_o : 1;
  const auto offset = [&](Index c, Index r, Index s) {
    return static_cast<std::int32_t>(c / layout->block_i * blocking.strides[kI] + c % layout->block_i * inner_i +
                                     r * blocking.strides[2] + s * blocking.strides[3]);
  };
  plan.offsets.reserve(static_cast<std::size_t>(loop.k));
  if (channels_last) {
    for (Index r = 0; r < e.r; r++)
      for (Index s = 0; s < e.s; s++)
        for (Index c = 0; c < e.c; c++) plan.offsets.push_back(offset(c, r, s));
  } else {
    for (Index c = 0; c < e.c; c++)
      for (Index r = 0; r < e.r; r++)
        for (Index s = 0; s < e.s; s++) plan.offsets.push_back(offset(c, r, s));
  }
  plan.units = blocks;
  return plan;
}

}  // namespace

void add_packing(Sequence& sequence, const KernelSpec& spec, const Vendor& vendor, const dnnl::memory::desc& packed,
                 Sequence::Place given, Sequence::Place packed_place) {
  const dnnl::memory::desc plain = desc_of_w(spec);
  if (auto plan = plan_packing(spec, packed)) {
    sequence.add_work(given, packed_place,
                      [plan = std::move(*plan), loops = vendor.loops, threads = vendor.threads](void* w, void* to) {
                        PackLoop loop = plan.loop;
                        loop.offsets = plan.offsets.data();
                        for_parts(threads, plan.units, [&](Index begin, Index end) {
                          loops->pack_weights(loop, static_cast<float*>(w), static_cast<float*>(to), begin, end);
                        });
                      });
  } else if (spec.pass == PassKind::backward_filter) {
    sequence.add_reorder(packed, packed_place, plain, given);
  } else {
    sequence.add_reorder(plain, given, packed, packed_place);
  }
}

}  // namespace motley::cpu
