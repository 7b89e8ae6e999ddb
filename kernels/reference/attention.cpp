// SPDX-License-Identifier: Apache-2.0
// s[i j] = scale * sum over c of q[i c] * k[j c] for the keys that count; y[i c] = sum over j of softmax(s[i])[j] * v[j c], and its
// gradients from the softmax's log-sum-exp. In memory consecutive queries and keys of a head are head_step apart.
#include <algorithm>

#include "kernels/operands.h"
#include "kernels/reference/reference.h"

namespace motley::reference {
namespace {

// One head of one sample.
template <class T>
struct Head {
  const KernelSpec& spec;
  const T *q, *k, *mask;  // mask: null if there is none
  Index step = head_step(spec);

  bool counts(Index j) const { return mask == nullptr || static_cast<double>(mask[j]) > 0; }
  double score(Index i, Index j) const { return spec.scale * product(q + i * step, k + j * step); }
  double product(const T* a, const T* b) const {
    double sum = 0;
    for (Index c = 0; c < spec.roles.c; c++) sum += static_cast<double>(a[c]) * static_cast<double>(b[c]);
    return sum;
  }
};
template <class T>
Head<T> head_of(const KernelSpec& spec, Operands operands, std::size_t mask, Index g) {
  const Roles& e = spec.roles;
  const auto in = [&](std::size_t i) { return static_cast<const T*>(operands[i]); };
  return {spec, in(0) + head_begin(spec, g, e.n), in(1) + head_begin(spec, g, e.f),
          spec.share > 0 ? in(mask) + g / spec.share * e.f : nullptr};
}

// workspace: holds the weights of one query.
template <class T>
void attention_forward(const KernelSpec& spec, Operands operands, void* workspace) {
  const Roles& e = spec.roles;
  double* weights = static_cast<double*>(workspace);
  T* const y = (spec.made & kMakesOutput) != 0 ? static_cast<T*>(operands[spec.share > 0 ? 4 : 3]) : nullptr;
  T* const lse = (spec.made & kMakesLogSum) != 0 ? static_cast<T*>(operands.back()) : nullptr;
  for (Index g = 0; g < e.g; g++) {
    const Head<T> head = head_of<T>(spec, operands, 3, g);
    const T* v = static_cast<const T*>(operands[2]) + head_begin(spec, g, e.f);
    for (Index i = 0; i < e.n; i++) {
      const Index keys = keys_of(spec, i);
      double most = -HUGE_VAL, sum = 0;
      bool any = false;  // key that counts
      for (Index j = 0; j < keys; j++)
        if (head.counts(j)) any = true, most = std::max(most, weights[j] = head.score(i, j));
      for (Index j = 0; j < keys; j++) sum += weights[j] = head.counts(j) ? std::exp(weights[j] - most) : 0;
      if (lse != nullptr) lse[g * e.n + i] = static_cast<T>(any ? most + std::log(sum) : kNoKey);
      for (Index c = 0; c < e.c && y != nullptr; c++) {
        double out = 0;
        for (Index j = 0; j < keys; j++) out += weights[j] * static_cast<double>(v[j * head.step + c]);
        y[head_begin(spec, g, e.n) + i * head.step + c] = static_cast<T>(any ? out / sum : 0);
      }
    }
  }
}

// workspace: holds dk and dv of one head, dq of one query.
template <class T>
void attention_backward(const KernelSpec& spec, Operands operands, void* workspace) {
  const Roles& e = spec.roles;
  double *dk = static_cast<double*>(workspace), *dv = dk + e.f * e.c, *dq = dv + e.f * e.c;
  std::array<T*, 3> results{};
  std::size_t next = spec.share > 0 ? 7 : 6;
  for (std::size_t r = 0; r < 3; r++)
    if ((spec.made >> r & 1) != 0) results[r] = static_cast<T*>(operands[next++]);
  const auto store = [&](T* to, const double* from, Index rows) {
    for (Index i = 0; i < rows; i++)
      for (Index c = 0; c < e.c; c++) to[i * head_step(spec) + c] = static_cast<T>(from[i * e.c + c]);
  };
  for (Index g = 0; g < e.g; g++) {
    const Head<T> head = head_of<T>(spec, operands, 6, g);
    const Index by_query = head_begin(spec, g, e.n), by_key = head_begin(spec, g, e.f), step = head.step;
    const T *v = static_cast<const T*>(operands[2]) + by_key, *dy = static_cast<const T*>(operands[3]) + by_query;
    std::fill_n(dk, 2 * e.f * e.c, 0.0);
    for (Index i = 0; i < e.n; i++) {
      const auto lse = static_cast<double>(static_cast<const T*>(operands[4])[g * e.n + i]),
                 dot = static_cast<double>(static_cast<const T*>(operands[5])[g * e.n + i]);
      std::fill_n(dq, e.c, 0.0);
      for (Index j = 0; j < keys_of(spec, i); j++) {
        if (!head.counts(j)) continue;
        const double weight = std::exp(head.score(i, j) - lse),
                     slope = weight * (head.product(dy + i * step, v + j * step) - dot) * spec.scale;
        for (Index c = 0; c < e.c; c++) {
          dq[c] += slope * static_cast<double>(head.k[j * step + c]);
          dk[j * e.c + c] += slope * static_cast<double>(head.q[i * step + c]);
          dv[j * e.c + c] += weight * static_cast<double>(dy[i * step + c]);
        }
      }
      if (results[0] != nullptr) store(results[0] + by_query + i * step, dq, 1);
    }
    if (results[1] != nullptr) store(results[1] + by_key, dk, e.f);
    if (results[2] != nullptr) store(results[2] + by_key, dv, e.f);
  }
}

}  // namespace

Run attention(const KernelSpec& spec) {
  check_attention(spec);
  return spec.pass == PassKind::forward ? by_dtype(spec, attention_forward<float>, attention_forward<double>)
                                        : by_dtype(spec, attention_backward<float>, attention_backward<double>);
}

}  // namespace motley::reference
