// SPDX-License-Identifier: Apache-2.0
#include "kernels/loops/one_hot_kernel.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/loops/parallel.h"
#include "kernels/one_hot.h"
#include "kernels/operands.h"

namespace motley::cpu {
namespace {

// An extent, and the steps along it in the integers, in x and in the result.
struct Extent {
  Index size = 1, index = 0, from = 0, result = 0;
};
struct Offsets {
  Index index = 0, from = 0, result = 0;
};

Index volume_of(const std::vector<Extent>& extents) {
  Index out = 1;
  for (const Extent& e : extents) out *= e.size;
  return out;
}

Offsets offsets_at(const std::vector<Extent>& extents, Index position) {
  Offsets out;
  for (std::size_t i = extents.size(); i-- > 0;) {
    const Extent& e = extents[i];
    const Index here = position % e.size;
    position /= e.size;
    out.index += here * e.index;
    out.from += here * e.from;
    out.result += here * e.result;
  }
  return out;
}

template <class From, class To>
class OneHotKernel final : public Kernel {
 public:
  OneHotKernel(const KernelSpec& spec, const OneHot& form, int threads) : form_(form), scale_(spec.scale) {
    const auto extent = [&](std::size_t i) {
      return Extent{spec.extents[i], spec.operands[form.index].strides[i], spec.operands[form.from].strides[i],
                    spec.operands.back().strides[i]};
    };
    hot_ = extent(form.extent);
    origin_ = spec.origin[form.extent];
    std::size_t row = spec.extents.size();  // the longest kept extent along which t is the same
    for (std::size_t i = 0; i < spec.extents.size(); i++)
      if (const Extent e = extent(i); i != form.extent && e.result != 0 && (e.index == 0 || e.size == 1))
        if (row == spec.extents.size() || e.size >= extent(row).size) row = i;
    if (row < spec.extents.size()) row_ = extent(row);
    for (std::size_t i = 0; i < spec.extents.size(); i++)
      if (i != form.extent && i != row) (extent(i).result != 0 ? outer_ : inner_).push_back(extent(i));
    const Index results = row_.size * volume_of(outer_) * (hot_.result != 0 ? hot_.size : 1);
    threads_ = std::max(results, row_.size * volume_of(inner_)) >= kElementsWorthAThread ? threads : 1;
  }
  std::string implementation() const override { return "motley:rows"; }
  std::size_t workspace_bytes() const override {
    const Index offsets = hot_.result == 0 ? 0 : hot_.size + 1 + volume_of(inner_);
    return static_cast<std::size_t>(threads_ * row_.size) * sizeof(double) + static_cast<std::size_t>(offsets) * sizeof(Index);
  }

  void run(std::span<void* const> operands, void* workspace) override {
    const auto* index = static_cast<const std::int32_t*>(operands[form_.index]);
    const auto* from = static_cast<const From*>(operands[form_.from]);
    auto* result = static_cast<To*>(operands.back());
    if (row_.size == 0) return;
    auto* const sums = static_cast<double*>(workspace);  // for one row, per thread
    hot_.result == 0 ? take(index, from, result, sums)
                     : give(index, from, result, sums, reinterpret_cast<Index*>(sums + threads_ * row_.size));
  }

 private:
  // result[outer, row] = sum over inner of x[v = t[outer, inner], row]
  void take(const std::int32_t* index, const From* from, To* result, double* workspace) const {
    const Index inner = volume_of(inner_);
    for_numbered_parts(threads_, volume_of(outer_), [&](int part, Index begin, Index end) {
      double* const sums = workspace + part * row_.size;
      for (Index o = begin; o < end; o++) {
        const Offsets at = offsets_at(outer_, o);
        std::fill_n(sums, row_.size, 0.0);
        for (Index k = 0; k < inner; k++) {
          const Offsets more = offsets_at(inner_, k);
          const Index v = Index{index[at.index + more.index]} - origin_;
          if (v >= 0 && v < hot_.size) add(sums, from + at.from + more.from + v * hot_.from);
        }
        store(sums, result + at.result);
      }
    });
  }

  // result[v, outer, row] = sum over those inner with t == v of x[inner, outer, row]
  void give(const std::int32_t* index, const From* from, To* result, double* workspace, Index* ends) const {
    const Index inner = volume_of(inner_), outer = volume_of(outer_);
    Index* const list = ends + hot_.size + 1;  // x's offsets by v, those of each v in order
    std::fill(ends, ends + hot_.size + 1, Index{0});
    const auto named = [&](Index k, const auto& use) {
      const Offsets at = offsets_at(inner_, k);
      const Index v = Index{index[at.index]} - origin_;
      if (v >= 0 && v < hot_.size) use(v, at.from);
    };
    for (Index k = 0; k < inner; k++) named(k, [&](Index v, Index) { ends[v + 1]++; });
    for (Index v = 0; v < hot_.size; v++) ends[v + 1] += ends[v];
    // Filled from the first position of each v: ends[v], where v begins, advances to where it ends.
    for (Index k = 0; k < inner; k++) named(k, [&](Index v, Index offset) { list[ends[v]++] = offset; });
    for_numbered_parts(threads_, hot_.size, [&](int part, Index begin, Index end) {
      double* const sums = workspace + part * row_.size;
      for (Index v = begin; v < end; v++)
        for (Index o = 0; o < outer; o++) {
          const Offsets at = offsets_at(outer_, o);
          std::fill_n(sums, row_.size, 0.0);
          for (Index k = v == 0 ? 0 : ends[v - 1]; k < ends[v]; k++) add(sums, from + list[k] + at.from + v * hot_.from);
          store(sums, result + v * hot_.result + at.result);
        }
    });
  }

  void add(double* sums, const From* from) const {
    for (Index i = 0; i < row_.size; i++) sums[i] += static_cast<double>(from[i * row_.from]);
  }
  void store(const double* sums, To* to) const {
    for (Index i = 0; i < row_.size; i++) to[i * row_.result] = static_cast<To>(scale_ * sums[i]);
  }

  const OneHot form_;
  const double scale_;
  Extent hot_{}, row_{};
  std::vector<Extent> outer_{}, inner_{};  // kept and reduced extents, without v and the row
  Index origin_ = 0;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> one_hot_kernel(const KernelSpec& spec, int threads) {
  const auto form = one_hot_of(spec);
  if (!form) return nullptr;
  const bool from = spec.operands[form->from].dtype == DType::f64, to = spec.operands.back().dtype == DType::f64;
  if (from) {
    if (to) return std::make_unique<OneHotKernel<double, double>>(spec, *form, threads);
    return std::make_unique<OneHotKernel<double, float>>(spec, *form, threads);
  }
  if (to) return std::make_unique<OneHotKernel<float, double>>(spec, *form, threads);
  return std::make_unique<OneHotKernel<float, float>>(spec, *form, threads);
}

}  // namespace motley::cpu
