// SPDX-License-Identifier: Apache-2.0
// One element of a fold's result, or one part of a reduced one; one element of sgd. Host and device, as window_formulas.h. f64
// inside.
#pragma once
#include "kernels/element.h"

namespace motley::cuda {

constexpr int kMostFoldExtents = 10;   // joined
constexpr int kArgumentOperands = 15;  // of a fold's operands, passed as the kernel's arguments (4 KiB in all)
constexpr int kTableOperands = 40;     // entries that one launch of FoldTable writes, passed in the same way

// An operand in a table in the workspace: a sum may have any number of them.
struct FoldOperandAt {
  const void* data = nullptr;
  Index stride[kMostFoldExtents] = {};
};

struct FoldPlan {
  FoldKind kind = FoldKind::copy;
  Combine combine = Combine::set;
  Activation activation = Activation::none;
  double scale = 1;
  int inputs = 0, arguments = 0;  // operands without the result; those of them that are arguments
  int extents = 0, kept = 0;      // the kept extents come first; the reduced ones in index order
  Index size[kMostFoldExtents] = {};
  Index stride[kMostFoldExtents][kArgumentOperands] = {};
  Index result_stride[kMostFoldExtents] = {};
  int class_extent = -1;  // which of these runs over classes
  Index first_class = 0;
  Index elements = 0, terms = 0, parts = 1;  // of the result; reduced to one of them; in so many parts
};

template <class T>
struct Fold {
  FoldPlan p;
  const void* operand[kArgumentOperands];
  const FoldOperandAt* more;  // [inputs - arguments]
  void* result;
  double* partial;  // [parts][elements], where parts > 1

  struct Position {
    Index offset[kArgumentOperands] = {};
    Index result = 0;
    Index at[kMostFoldExtents] = {};
  };
  MOTLEY_HD void place(Position& here, int begin, int end, Index i) const {
    for (int d = end - 1; d >= begin; d--) {
      here.at[d] = i % p.size[d];
      i /= p.size[d];
      for (int k = 0; k < p.arguments; k++) here.offset[k] += here.at[d] * p.stride[d][k];
      here.result += here.at[d] * p.result_stride[d];
    }
  }
  MOTLEY_HD void advance(Position& here) const {  // the reduced extents
    for (int d = p.extents - 1; d >= p.kept; d--) {
      const bool carry = ++here.at[d] == p.size[d];
      const Index steps = carry ? 1 - p.size[d] : 1;
      if (carry) here.at[d] = 0;
      for (int k = 0; k < p.arguments; k++) here.offset[k] += steps * p.stride[d][k];
      if (!carry) return;
    }
  }
  MOTLEY_HD double real(int k, const Position& here) const {
    return static_cast<double>(static_cast<const T*>(operand[k])[here.offset[k]]);
  }
  MOTLEY_HD double real_in_table(int k, const Position& here) const {
    Index offset = 0;
    for (int d = 0; d < p.extents; d++) offset += here.at[d] * more[k].stride[d];
    return static_cast<double>(static_cast<const T*>(more[k].data)[offset]);
  }
  MOTLEY_HD bool is_class(int k, const Position& here) const {
    return p.first_class + here.at[p.class_extent] == static_cast<const std::int32_t*>(operand[k])[here.offset[k]];
  }
  MOTLEY_HD double value(const Position& here) const {
    switch (p.kind) {
      case FoldKind::copy: return real(0, here);
      case FoldKind::square: return real(0, here) * real(0, here);
      case FoldKind::add: {
        double sum = 0;
        for (int k = 0; k < p.arguments; k++) sum += real(k, here);
        for (int k = 0; k < p.inputs - p.arguments; k++) sum += real_in_table(k, here);
        return activate(p.activation, sum);
      }
      case FoldKind::activation: return activate(p.activation, real(0, here));
      case FoldKind::activation_gradient: return real(0, here) * activation_gradient(p.activation, real(1, here));
      case FoldKind::sum_exp: return is_class(2, here) ? 0 : std::exp(real(0, here) - real(1, here));
      case FoldKind::pick_label: return is_class(1, here) ? real(0, here) : 0;
      case FoldKind::cross_entropy: {
        const double m = real(0, here), others = real(1, here), h = real(2, here), label = std::exp(h - m);
        return label > others ? std::log1p(others / label) : std::log(label + others) + m - h;
      }
      case FoldKind::softmax_gradient: {
        const double m = real(1, here), others = real(2, here);
        return (is_class(4, here) ? -others : std::exp(real(0, here) - m)) / (std::exp(real(3, here) - m) + others) * real(5, here);
      }
    }
    return 0;
  }
  MOTLEY_HD double combined(double total, double value) const {
    if (p.combine == Combine::add) return total + value;
    if (p.combine == Combine::max) return value > total || value != value ? value : total;  // a NaN stays
    return value;
  }
  MOTLEY_HD double none() const { return p.combine == Combine::max ? -HUGE_VAL : 0; }

  // i: of parts * elements; a part of the terms in index order.
  MOTLEY_HD void operator()(Index i) const {
    const Index part = i / p.elements, element = i % p.elements;
    const Index begin = p.terms * part / p.parts, end = p.terms * (part + 1) / p.parts;
    Position here;
    place(here, 0, p.kept, element);
    if (begin < end) place(here, p.kept, p.extents, begin);
    double total = none();
    for (Index t = begin; t < end; t++) {
      total = combined(total, p.scale * value(here));
      advance(here);
    }
    if (p.parts > 1)
      partial[i] = total;
    else
      static_cast<T*>(result)[here.result] = static_cast<T>(total);
  }
};

// The parts of one element, in order.
template <class T>
struct FoldParts {
  Fold<T> fold;
  MOTLEY_HD void operator()(Index element) const {
    typename Fold<T>::Position here;
    fold.place(here, 0, fold.p.kept, element);
    double total = fold.none();
    for (Index part = 0; part < fold.p.parts; part++) total = fold.combined(total, fold.partial[part * fold.p.elements + element]);
    static_cast<T*>(fold.result)[here.result] = static_cast<T>(total);
  }
};

// Writes up to kTableOperands entries of Fold::more: in the same queue, so before the fold reads them.
struct FoldTable {
  FoldOperandAt entries[kTableOperands];
  FoldOperandAt* to;
  MOTLEY_HD void operator()(Index i) const { to[i] = entries[i]; }
};

static_assert(sizeof(Fold<double>) <= 4000 && sizeof(FoldTable) <= 4000, "beside a launch's own words within 4 KiB of arguments");

template <class T>
struct AddTo {
  const T* g;
  double* a;
  MOTLEY_HD void operator()(Index i) const { a[i] += static_cast<double>(g[i]); }
};
template <class T>
struct TakeFrom {
  double* a;
  T* g;
  MOTLEY_HD void operator()(Index i) const {
    g[i] = static_cast<T>(a[i]);
    a[i] = 0;
  }
};

template <class T>
struct Sgd {
  double momentum, decay;
  const double* scalars;  // learning rate, factor of g
  const T* g;
  T *v, *w;
  MOTLEY_HD void operator()(Index i) const {
    const double weight = static_cast<double>(w[i]);
    v[i] = static_cast<T>(momentum * static_cast<double>(v[i]) + (scalars[1] * static_cast<double>(g[i]) + decay * weight));
    w[i] = static_cast<T>(weight - scalars[0] * static_cast<double>(v[i]));
  }
};

}  // namespace motley::cuda
