// SPDX-License-Identifier: Apache-2.0
// Convolutions as products of matrices: the columns [c r s, p q] of one image's rows p, as many at a time as fit kColumns.
//   forward          y[f, p q]     = w[f, c r s] columns
//   backward_data    columns       = w^T dy, each added where it was taken from
//   backward_filter  dw[f, c r s] += dy columns^T
// Groups one after the other. dense: a product for each of its batch. Sums in f64, in an order that the sizes decide.
#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "kernels/f64/f64_backend.h"
#include "kernels/f64/products.h"
#include "kernels/reference/reference.h"

namespace motley::f64 {

namespace {

constexpr Index kColumns = Index{1} << 19;  // elements of a block of columns: 4 MiB
constexpr Index kLine = 8;                  // a matrix begins on a cache line

using reference::Operands;

class Convolution final : public Kernel {
 public:
  explicit Convolution(const KernelSpec& spec)
      : spec_(spec),
        taps_(spec.roles.c * spec.roles.r * spec.roles.s),
        rows_(std::clamp<Index>(kColumns / std::max<Index>(1, taps_ * spec.roles.q), 1, std::max<Index>(1, spec.roles.p))) {}

  std::size_t workspace_bytes() const override {
    const Roles& e = spec_.roles;
    const Index image = spec_.pass == PassKind::backward_data ? e.c * e.h * e.w : 0;
    return static_cast<std::size_t>(lined(e.f * taps_) + lined(taps_ * rows_ * e.q) + lined(e.f * rows_ * e.q) + lined(image)) *
           sizeof(double);
  }
  std::string implementation() const override { return std::string("eigen ") + products().isa; }

  void run(Operands operands, void* workspace) override {
    const Roles& e = spec_.roles;
    auto* at = static_cast<double*>(workspace);
    auto take = [&](Index elements) { return std::exchange(at, at + lined(elements)); };
    weights_ = take(e.f * taps_);
    columns_ = take(taps_ * rows_ * e.q);
    results_ = take(e.f * rows_ * e.q);
    image_ = at;
    for (Index g = 0; g < e.g; g++) switch (spec_.pass) {
        case PassKind::forward: forward(operands, g); break;
        case PassKind::backward_data: backward_data(operands, g); break;
        case PassKind::backward_filter: backward_filter(operands, g); break;
      }
  }

 private:
  static Index lined(Index elements) { return (elements + kLine - 1) / kLine * kLine; }
  Matrix weights() const { return {weights_, spec_.roles.f, taps_}; }
  Matrix columns(Index rows) const { return {columns_, taps_, rows * spec_.roles.q}; }
  Matrix results(Index rows) const { return {results_, spec_.roles.f, rows * spec_.roles.q}; }

  // each(first, rows): blocks of an image's rows of y.
  template <class Each>
  void for_blocks(Each&& each) const {
    for (Index p = 0; p < spec_.roles.p; p += rows_) each(p, std::min(rows_, spec_.roles.p - p));
  }
  // each(row of the weights' matrix, f, c, r, s)
  template <class Each>
  void for_weights(Each&& each) const {
    const Roles& e = spec_.roles;
    Index i = 0;
    for (Index f = 0; f < e.f; f++)
      for (Index c = 0; c < e.c; c++)
        for (Index r = 0; r < e.r; r++)
          for (Index s = 0; s < e.s; s++) each(i++, f, c, r, s);
  }
  // each(column of one tap and one row of y, c, h, s): h is the row of x that it reads; below 0: padding
  template <class Each>
  void for_column_rows(Index first, Index rows, Each&& each) const {
    const Roles& e = spec_.roles;
    double* to = columns_;
    for (Index c = 0; c < e.c; c++)
      for (Index r = 0; r < e.r; r++)
        for (Index s = 0; s < e.s; s++)
          for (Index p = first; p < first + rows; p++, to += e.q) {
            const Index h = reference::row_of(spec_, p, r);
            each(to, c, h < e.h ? h : -1, s);
          }
  }
  // Of group g: its first channel, its first filter.
  Index c0(Index g) const { return g * spec_.roles.c; }
  Index f0(Index g) const { return g * spec_.roles.f; }
  void read_weights(void* operand, Index g) const {
    const auto w = reference::w_slice<double>(operand, spec_);
    for_weights([&](Index i, Index f, Index c, Index r, Index s) { weights_[i] = w(f0(g) + f, c, r, s); });
  }
  void read_columns(const reference::Slice<double>& x, Index g, Index n, Index first, Index rows) const {
    const Roles& e = spec_.roles;
    for_column_rows(first, rows, [&](double* to, Index c, Index h, Index s) {
      for (Index q = 0; q < e.q; q++) {
        const Index w = reference::col_of(spec_, q, s);
        to[q] = h >= 0 && w >= 0 && w < e.w ? x(n, c0(g) + c, h, w) : 0.0;
      }
    });
  }
  void read_results(const reference::Slice<double>& y, Index g, Index n, Index first, Index rows) const {
    double* to = results_;
    for (Index f = f0(g); f < f0(g + 1); f++)
      for (Index p = first; p < first + rows; p++)
        for (Index q = 0; q < spec_.roles.q; q++) *to++ = y(n, f, p, q);
  }

  void forward(Operands operands, Index g) const {
    const auto x = reference::x_slice<double>(operands[0], spec_);
    const auto y = reference::y_slice<double>(operands.back(), spec_);
    const double* b = spec_.bias ? static_cast<const double*>(operands[2]) : nullptr;
    read_weights(operands[1], g);
    for (Index n = 0; n < spec_.roles.n; n++)
      for_blocks([&](Index first, Index rows) {
        if (spec_.accumulate)
          read_results(y, g, n, first, rows);
        else
          std::fill_n(results_, spec_.roles.f * rows * spec_.roles.q, 0.0);
        read_columns(x, g, n, first, rows);
        products().plain(weights(), columns(rows), results(rows));
        const double* from = results_;
        for (Index f = f0(g); f < f0(g + 1); f++)
          for (Index p = first; p < first + rows; p++)
            for (Index q = 0; q < spec_.roles.q; q++, from++) y(n, f, p, q) = apply(epilogue_, b != nullptr ? *from + b[f] : *from);
      });
  }

  void backward_data(Operands operands, Index g) const {
    const Roles& e = spec_.roles;
    const auto dy = reference::y_slice<double>(operands[0], spec_);
    const auto dx = reference::x_slice<double>(operands[2], spec_);
    read_weights(operands[1], g);
    for (Index n = 0; n < e.n; n++) {
      std::fill_n(image_, e.c * e.h * e.w, 0.0);
      for_blocks([&](Index first, Index rows) {
        read_results(dy, g, n, first, rows);
        std::fill_n(columns_, taps_ * rows * e.q, 0.0);
        products().first_transposed(weights(), results(rows), columns(rows));
        for_column_rows(first, rows, [&](const double* from, Index c, Index h, Index s) {
          for (Index q = 0; q < e.q && h >= 0; q++)
            if (const Index w = reference::col_of(spec_, q, s); w >= 0 && w < e.w) image_[(c * e.h + h) * e.w + w] += from[q];
        });
      });
      const double* from = image_;
      for (Index c = c0(g); c < c0(g + 1); c++)
        for (Index h = 0; h < e.h; h++)
          for (Index w = 0; w < e.w; w++) dx(n, c, h, w) = *from++;
    }
  }

  void backward_filter(Operands operands, Index g) const {
    const auto x = reference::x_slice<double>(operands[0], spec_);
    const auto dy = reference::y_slice<double>(operands[1], spec_);
    const auto dw = reference::w_slice<double>(operands[2], spec_);
    std::fill_n(weights_, spec_.roles.f * taps_, 0.0);
    for (Index n = 0; n < spec_.roles.n; n++)
      for_blocks([&](Index first, Index rows) {
        read_results(dy, g, n, first, rows);
        read_columns(x, g, n, first, rows);
        products().second_transposed(results(rows), columns(rows), weights());
      });
    for_weights([&](Index i, Index f, Index c, Index r, Index s) { dw(f0(g) + f, c, r, s) = weights_[i]; });
  }

  const KernelSpec spec_;
  const PlainFormula epilogue_ = plain_of(spec_.epilogue);
  const Index taps_;                                                                        // c r s
  const Index rows_;                                                                        // of y in a block
  double *weights_ = nullptr, *columns_ = nullptr, *results_ = nullptr, *image_ = nullptr;  // in the workspace of this run
};

class Dense final : public Kernel {
 public:
  explicit Dense(const KernelSpec& spec) : spec_(spec) {}
  std::size_t workspace_bytes() const override { return 0; }
  std::string implementation() const override { return std::string("eigen ") + products().isa; }

  void run(Operands operands, void*) override {
    const Roles& e = spec_.roles;
    for (Index g = 0; g < e.g; g++) product(operands, g);
  }

 private:
  void product(Operands operands, Index g) const {
    const Roles& e = spec_.roles;
    auto matrix = [&](std::size_t i, Index rows, Index cols) {
      return Matrix{static_cast<double*>(operands[i]) + g * rows * cols, rows, cols};
    };
    const std::size_t last = operands.size() - 1;
    switch (spec_.pass) {
      case PassKind::forward: {
        const Matrix y = zeros(matrix(last, e.n, e.f));
        products().second_transposed(matrix(0, e.n, e.c), matrix(1, e.f, e.c), y);
        const double* b = spec_.bias ? static_cast<const double*>(operands[2]) : nullptr;
        for (Index i = 0; i < e.n * e.f; i++) y.data[i] = apply(epilogue_, b != nullptr ? y.data[i] + b[i % e.f] : y.data[i]);
        return;
      }
      case PassKind::backward_data:
        return products().plain(matrix(0, e.n, e.f), matrix(1, e.f, e.c), zeros(matrix(last, e.n, e.c)));
      case PassKind::backward_filter:
        return products().first_transposed(matrix(1, e.n, e.f), matrix(0, e.n, e.c), zeros(matrix(last, e.f, e.c)));
    }
  }
  static Matrix zeros(const Matrix& m) {
    std::fill_n(m.data, m.rows * m.cols, 0.0);
    return m;
  }
  const KernelSpec spec_;
  const PlainFormula epilogue_ = plain_of(spec_.epilogue);
};

}  // namespace

std::unique_ptr<Kernel> contraction(const KernelSpec& spec) {
  if (spec.op == KernelOp::dense) return std::make_unique<Dense>(spec);
  return std::make_unique<Convolution>(spec);
}

}  // namespace motley::f64
