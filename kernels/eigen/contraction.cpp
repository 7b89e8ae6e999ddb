// SPDX-License-Identifier: Apache-2.0
// Convolutions as products of matrices: the columns (columns.h) of a block of y's pixels, as many pixels at a time as fit kColumns.
//   forward          y[f, p q]     = w[f, c r s] columns
//   backward_data    columns       = w^T dy, each added to the element that it was taken from
//   backward_filter  dw[f, c r s] += dy columns^T
// dense: one product. Work is divided among threads in units that depend on the spec alone, so the bits are the same for any number
// of threads: blocks of pixels, whole samples where dx is added to, strips of the result otherwise.
#include "kernels/eigen/contraction.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "kernels/eigen/columns.h"
#include "kernels/eigen/work.h"
#include "kernels/loops/parallel.h"
#include "kernels/loops/this_cpu.h"
#include "kernels/operands.h"

namespace motley::eigen {

namespace {

using Operands = std::span<void* const>;

constexpr Index kColumns = Index{1} << 18;  // elements of a block of columns: 1 MiB of f32
constexpr Index kPixels = 256;  // at least so many per block, so that packing the weights for a block is 1/256 of its work
constexpr Index kStrip = 256;   // taps or features of a strip, for the same reason

Index parts_of(Index extent, Index part) {
  return (extent + part - 1) / part;
}

// Common to both kernels: units of work on threads, each with its part of the workspace.
template <class T>
class Contraction : public Kernel {
 public:
  Contraction(const KernelSpec& spec, const Means& means)
      : spec_(spec),
        products_(products_of<T>(means.simd)),
        epilogue_(plain_of(spec.epilogue)),
        name_("eigen " + cpu::isa_of(means.simd)),
        threads_(flops(spec) >= kFlopsWorthAThread ? means.threads : 1) {}
  std::string implementation() const final { return name_; }
  std::size_t workspace_bytes() const final {
    return static_cast<std::size_t>(shared_ + part_ * std::min<Index>(threads_, units_)) * sizeof(T) + kAlignment;
  }

 protected:
  // Calls unit(number, memory of the team member that does it).
  template <class Unit>
  void for_units(T* workspace, Unit&& unit) const {
    const Index parts = std::min<Index>(threads_, units_);
    cpu::for_parts(threads_, parts, [&](Index begin, Index end) {
      for (Index part = begin; part < end; part++)
        for (Index i = units_ * part / parts; i < units_ * (part + 1) / parts; i++) unit(i, workspace + shared_ + part * part_);
    });
  }
  static T* aligned(void* workspace) {
    const auto at = reinterpret_cast<std::uintptr_t>(workspace);
    return reinterpret_cast<T*>((at + kAlignment - 1) / kAlignment * kAlignment);
  }
  // Initial value of a result's matrix y[f, pixels] (for a dense layer y[n f]^T): b and, in an accumulating pass, the present y.
  void start(const Matrix<T>& y, const T* b) const {
    for_lines(y, [&](T* line, Index count, Index f, Index step) {
      for (Index i = 0; i < count; i++) {
        const T bias = b != nullptr ? b[f + i * step] : T{0};
        line[i] = spec_.accumulate ? line[i] + bias : bias;
      }
    });
  }
  void finish(const Matrix<T>& y) const {
    if (!spec_.epilogue.code.empty())
      for_lines(y, [&](T* line, Index count, Index, Index) {
        for (Index i = 0; i < count; i++) line[i] = apply(epilogue_, line[i]);
      });
  }

  const KernelSpec spec_;
  const Products<T>& products_;
  const PlainFormula epilogue_;
  const std::string name_;
  const int threads_;
  Index units_ = 0, shared_ = 0, part_ = 0;  // elements of the workspace that all share, and of each team member

 private:
  // each(contiguous elements, number, row of the first, rows from one to the next)
  template <class Each>
  static void for_lines(const Matrix<T>& m, Each&& each) {
    if (m.col_stride == 1)
      for (Index f = 0; f < m.rows; f++) each(m.data + f * m.row_stride, m.cols, f, 0);
    else
      for (Index i = 0; i < m.cols; i++) each(m.data + i * m.col_stride, m.rows, 0, 1);
  }
};

template <class T>
class Convolution final : public Contraction<T> {
 public:
  Convolution(const KernelSpec& spec, const Means& means) : Contraction<T>(spec, means), columns_(spec), taps_(columns_.taps()) {
    const Roles& e = spec_.roles;
    const Index wanted = std::max(kPixels, kColumns / std::max<Index>(1, taps_)), in_sample = std::max<Index>(1, e.p * e.q);
    samples_ = std::clamp<Index>(wanted / in_sample, 1, std::max<Index>(1, e.n));
    rows_ = std::clamp<Index>(wanted / std::max<Index>(1, e.q), 1, std::max<Index>(1, e.p));
    rows_ = std::max<Index>(1, parts_of(e.p, parts_of(std::max<Index>(1, e.p), rows_)));  // blocks of about equal size
    staged_ = samples_ > 1 && spec_.y_format == Format::plain;
    ordered_ = spec_.w_format == spec_.x_format || e.c == 1 || e.r * e.s == 1;

    const Block most{0, samples_, 0, rows_};
    const Index pixels = columns_.pixels(most);
    const bool filter = spec_.pass == PassKind::backward_filter;
    const Index taps = filter ? std::min(taps_, kStrip) : taps_;
    switch (spec_.pass) {
      case PassKind::forward: blocks_ = products_.blocks(staged_ ? results(nullptr, most) : in_place(nullptr, most), taps_); break;
      case PassKind::backward_data: blocks_ = products_.blocks(columns_.matrix<T>(nullptr, {0, taps_}, most), e.f); break;
      case PassKind::backward_filter: blocks_ = products_.blocks(weights(nullptr, {0, taps}), pixels); break;
    }
    const Index groups = parts_of(e.n, samples_);
    this->units_ = filter                                  ? parts_of(taps_, kStrip)
                   : spec_.pass == PassKind::backward_data ? groups
                                                           : groups * parts_of(e.p, rows_);
    this->shared_ = ordered_ ? 0 : lined(e.f * taps_);
    columns_elements_ = lined(taps * pixels);
    results_elements_ = staged_ ? lined(e.f * pixels) : 0;
    this->part_ = columns_elements_ + results_elements_ + lined(products_.packed(blocks_));
  }

  void run(Operands operands, void* workspace) override {
    T* memory = this->aligned(workspace);
    switch (spec_.pass) {
      case PassKind::forward: return forward(operands, memory);
      case PassKind::backward_data: return backward_data(operands, memory);
      case PassKind::backward_filter: return backward_filter(operands, memory);
    }
  }

 private:
  using Contraction<T>::spec_;
  using Contraction<T>::products_;
  struct Part {
    T *columns, *results, *packed;
  };
  Part part_at(T* memory) const { return {memory, memory + columns_elements_, memory + columns_elements_ + results_elements_}; }

  Matrix<T> weights(T* data, Range taps) const { return {data + taps.begin, spec_.roles.f, taps.size(), taps_, 1}; }
  Matrix<T> weights_transposed(T* data) const { return {data, taps_, spec_.roles.f, 1, taps_}; }
  static Matrix<T> transposed(const Matrix<T>& m) { return {m.data, m.cols, m.rows, m.col_stride, m.row_stride}; }

  // y[f, pixels of a block]: in place, or copied.
  Matrix<T> in_place(T* y, const Block& block) const {
    const Roles& e = spec_.roles;
    const Index pixels = columns_.pixels(block);
    if (spec_.y_format == Format::channels_last) return {y + (block.n * e.p + block.p) * e.q * e.f, e.f, pixels, 1, e.f};
    return {y + (block.n * e.f * e.p + block.p) * e.q, e.f, pixels, e.p * e.q, 1};
  }
  Matrix<T> results(T* data, const Block& block) const {
    return {data, spec_.roles.f, columns_.pixels(block), columns_.pixels(block), 1};
  }
  // each(pixels of one sample and filter in y, the same pixels in `results`)
  template <class Each>
  void for_results(T* y, const Block& block, T* staged, Each&& each) const {
    const Index size = spec_.roles.p * spec_.roles.q;
    for (Index n = 0; n < block.samples; n++)
      for (Index f = 0; f < spec_.roles.f; f++)
        each(y + ((block.n + n) * spec_.roles.f + f) * size, staged + (f * block.samples + n) * size);
  }
  Matrix<T> read_results(T* y, const Block& block, T* staged) const {
    if (!staged_) return in_place(y, block);
    for_results(y, block, staged, [&](const T* from, T* to) { std::copy_n(from, spec_.roles.p * spec_.roles.q, to); });
    return results(staged, block);
  }

  Block samples_of(Index group) const {
    const Index n = group * samples_;
    return {n, std::min(samples_, spec_.roles.n - n), 0, spec_.roles.p};
  }
  // each(block): the rows of these samples.
  template <class Each>
  void for_blocks(const Block& all, Each&& each) const {
    for (Index p = 0; p < spec_.roles.p; p += rows_) each(Block{all.n, all.samples, p, std::min(rows_, spec_.roles.p - p)});
  }
  // each(weight in the order of the taps, its position in w)
  template <class Each>
  void for_weights(Each&& each) const {
    const Roles& e = spec_.roles;
    const bool last = spec_.w_format == Format::channels_last;
    const Index c_stride = last ? 1 : e.r * e.s, window_stride = last ? e.c : 1;
    Index i = 0;
    for (Index f = 0; f < e.f; f++)
      if (columns_.is_last()) {
        for (Index rs = 0; rs < e.r * e.s; rs++)
          for (Index c = 0; c < e.c; c++) each(i++, f * taps_ + c * c_stride + rs * window_stride);
      } else {
        for (Index c = 0; c < e.c; c++)
          for (Index rs = 0; rs < e.r * e.s; rs++) each(i++, f * taps_ + c * c_stride + rs * window_stride);
      }
  }
  T* read_weights(void* operand, T* ordered) const {
    auto* w = static_cast<T*>(operand);
    if (ordered_) return w;
    for_weights([&](Index i, Index at) { ordered[i] = w[at]; });
    return ordered;
  }

  void forward(Operands operands, T* memory) const {
    const auto* x = static_cast<const T*>(operands[0]);
    T *w = read_weights(operands[1], memory), *y = static_cast<T*>(operands.back());
    const T* b = spec_.bias ? static_cast<const T*>(operands[2]) : nullptr;
    const Index in_sample = parts_of(spec_.roles.p, rows_);
    this->for_units(memory, [&](Index unit, T* own) {
      const Part part = part_at(own);
      Block block = samples_of(unit / in_sample);
      block.p = unit % in_sample * rows_;
      block.rows = std::min(rows_, spec_.roles.p - block.p);
      const bool reads = staged_ && spec_.accumulate;
      const Matrix<T> to = reads     ? read_results(y, block, part.results)
                           : staged_ ? results(part.results, block)
                                     : in_place(y, block);
      this->start(to, b);
      columns_.read(x, {0, taps_}, block, part.columns);
      products_.add(weights(w, {0, taps_}), columns_.matrix(part.columns, {0, taps_}, block), to, blocks_, part.packed);
      this->finish(to);
      if (staged_)
        for_results(y, block, part.results, [&](T* out, const T* from) { std::copy_n(from, spec_.roles.p * spec_.roles.q, out); });
    });
  }

  void backward_data(Operands operands, T* memory) const {
    const Roles& e = spec_.roles;
    T *dy = static_cast<T*>(operands[0]), *w = read_weights(operands[1], memory), *dx = static_cast<T*>(operands[2]);
    this->for_units(memory, [&](Index unit, T* own) {
      const Part part = part_at(own);
      const Block all = samples_of(unit);
      std::fill_n(dx + all.n * e.c * e.h * e.w, all.samples * e.c * e.h * e.w, T{0});
      for_blocks(all, [&](const Block& block) {
        std::fill_n(part.columns, taps_ * columns_.pixels(block), T{0});
        products_.add(weights_transposed(w), read_results(dy, block, part.results),
                      columns_.matrix(part.columns, {0, taps_}, block), blocks_, part.packed);
        columns_.add(part.columns, {0, taps_}, block, dx);
      });
    });
  }

  void backward_filter(Operands operands, T* memory) const {
    const auto* x = static_cast<const T*>(operands[0]);
    T *dy = static_cast<T*>(operands[1]), *dw = static_cast<T*>(operands[2]), *ordered = ordered_ ? dw : memory;
    this->for_units(memory, [&](Index unit, T* own) {
      const Part part = part_at(own);
      const Range taps{unit * kStrip, std::min(taps_, (unit + 1) * kStrip)};
      const Matrix<T> to = weights(ordered, taps);
      for (Index f = 0; f < to.rows; f++) std::fill_n(to.data + f * to.row_stride, to.cols, T{0});
      for (Index n = 0; n < spec_.roles.n; n += samples_)
        for_blocks(samples_of(n / samples_), [&](const Block& block) {
          columns_.read(x, taps, block, part.columns);
          products_.add(read_results(dy, block, part.results), transposed(columns_.matrix(part.columns, taps, block)), to, blocks_,
                        part.packed);
        });
    });
    if (!ordered_) for_weights([&](Index i, Index at) { dw[at] = ordered[i]; });
  }

  const Columns columns_;
  const Index taps_;                                   // c r s
  Index samples_ = 1, rows_ = 1;                       // of y in a block
  bool staged_ = false;                                // y's blocks are not matrices, so they are copied
  bool ordered_ = false;                               // w's taps are in the order of the columns
  Index columns_elements_ = 0, results_elements_ = 0;  // of a team member's memory
  Blocks blocks_{};
};

template <class T>
class Dense final : public Contraction<T> {
 public:
  Dense(const KernelSpec& spec, const Means& means) : Contraction<T>(spec, means) {
    const Product most = product({}, {0, std::min(kStrip, strips_over())});
    this->units_ = parts_of(strips_over(), kStrip);
    blocks_ = products_.blocks(most.c, most.a.cols);
    this->part_ = lined(products_.packed(blocks_));
  }

  void run(Operands operands, void* workspace) override {
    const bool forward = spec_.pass == PassKind::forward;
    const T* b = forward && spec_.bias ? static_cast<const T*>(operands[2]) : nullptr;
    T* const given[3] = {static_cast<T*>(operands[0]), static_cast<T*>(operands[1]), static_cast<T*>(operands.back())};
    this->for_units(this->aligned(workspace), [&](Index unit, T* packed) {
      const Range strip{unit * kStrip, std::min(strips_over(), (unit + 1) * kStrip)};
      const Product one = product(given, strip);
      const Matrix<T> result{one.c.data, one.c.cols, one.c.rows, 1, one.c.row_stride};  // of y: [f, n]
      this->start(result, b == nullptr ? nullptr : b + strip.begin);
      products_.add(one.a, one.b, one.c, blocks_, packed);
      if (forward) this->finish(result);
    });
  }

 private:
  using Contraction<T>::spec_;
  using Contraction<T>::products_;
  struct Product {  // c = a b
    Matrix<T> a, b, c;
  };
  Index strips_over() const { return spec_.pass == PassKind::backward_data ? spec_.roles.c : spec_.roles.f; }
  // The product for a strip of the result; data: the operands without b.
  Product product(std::span<T* const> data, Range strip) const {
    const Roles& e = spec_.roles;
    const auto at = [&](std::size_t i, Index offset) { return data.empty() ? nullptr : data[i] + offset; };
    const Index first = strip.begin, size = strip.size();
    switch (spec_.pass) {
      case PassKind::forward:  // y[n f] = x[n c] w[f c]^T
        return {{at(0, 0), e.n, e.c, e.c, 1}, {at(1, first * e.c), e.c, size, 1, e.c}, {at(2, first), e.n, size, e.f, 1}};
      case PassKind::backward_data:  // dx[n c] = dy[n f] w[f c]
        return {{at(0, 0), e.n, e.f, e.f, 1}, {at(1, first), e.f, size, e.c, 1}, {at(2, first), e.n, size, e.c, 1}};
      case PassKind::backward_filter:  // dw[f c] = dy[n f]^T x[n c]
        return {{at(1, first), size, e.n, 1, e.f}, {at(0, 0), e.n, e.c, e.c, 1}, {at(2, first * e.c), size, e.c, e.c, 1}};
    }
    return {};
  }
  Blocks blocks_{};
};

// Groups of a convolution and products of a batch, one after the other: each on operands in place, or copied if the group's
// channels are not contiguous over the samples.
template <class T>
class Groups final : public Kernel {
 public:
  Groups(const KernelSpec& spec, std::unique_ptr<Kernel> one)
      : spec_(spec), one_(std::move(one)), of_one_(operands_of(alone(spec))) {
    for (const OperandUse& use : of_one_)
      if (is_copied(use)) copies_ += lined(use.elements);
  }
  static KernelSpec alone(KernelSpec spec) {
    spec.roles.g = 1;
    return spec;
  }
  std::string implementation() const override { return one_->implementation() + " by groups"; }
  std::size_t workspace_bytes() const override {
    return one_->workspace_bytes() + static_cast<std::size_t>(copies_) * sizeof(T) + kAlignment;
  }
  void run(Operands operands, void* workspace) override {
    T* const copies =
        reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(workspace) + kAlignment - 1) / kAlignment * kAlignment);
    void* const rest = copies + copies_;
    for (Index g = 0; g < spec_.roles.g; g++) {
      std::array<void*, 4> own{};
      T* next = copies;
      for (std::size_t k = 0; k < of_one_.size(); k++) {
        const OperandUse& use = of_one_[k];
        T* const all = static_cast<T*>(operands[k]);
        own[k] = all + g * use.elements;
        if (!is_copied(use)) continue;
        own[k] = next;
        next += lined(use.elements);
        if (use.read)
          for_runs(use, all, static_cast<T*>(own[k]), g, [](T* there, T* here, Index n) { std::copy_n(there, n, here); });
      }
      one_->run(std::span(own).first(of_one_.size()), rest);
      if (is_copied(of_one_.back()))
        for_runs(of_one_.back(), static_cast<T*>(operands.back()), static_cast<T*>(own[of_one_.size() - 1]), g,
                 [](T* there, T* here, Index n) { std::copy_n(here, n, there); });
    }
  }

 private:
  // Whether an operand is copied. x and y of a convolution are [n channels rows cols]: samples come before groups.
  bool is_copied(const OperandUse& use) const {
    return spec_.op == KernelOp::conv2d && use.extents.size() == 4 && &use != weights() && spec_.roles.g > 1;
  }
  const OperandUse* weights() const { return &of_one_[spec_.pass == PassKind::backward_filter ? 2 : 1]; }
  // each(elements of group g among all, the same in the copy, number): contiguous in both
  template <class Each>
  void for_runs(const OperandUse& use, T* all, T* copy, Index g, Each&& each) const {
    const Index n = use.extents[0], c = use.extents[1], pixels = use.extents[2] * use.extents[3];
    const bool last = use.format == Format::channels_last;
    const Index count = last ? n * pixels : n, run = last ? c : c * pixels;
    for (Index i = 0; i < count; i++) each(all + (i * spec_.roles.g + g) * run, copy + i * run, run);
  }

  const KernelSpec spec_;
  const std::unique_ptr<Kernel> one_;
  const std::vector<OperandUse> of_one_;
  Index copies_ = 0;  // elements
};

template <class T>
std::unique_ptr<Kernel> contraction_of(const KernelSpec& spec, const Means& means) {
  if (spec.roles.g != 1) return std::make_unique<Groups<T>>(spec, contraction_of<T>(Groups<T>::alone(spec), means));
  if (spec.op == KernelOp::dense) return std::make_unique<Dense<T>>(spec, means);
  return std::make_unique<Convolution<T>>(spec, means);
}

}  // namespace

std::unique_ptr<Kernel> contraction(const KernelSpec& spec, const Means& means) {
  return spec.dtype == DType::f64 ? contraction_of<double>(spec, means) : contraction_of<float>(spec, means);
}

}  // namespace motley::eigen
