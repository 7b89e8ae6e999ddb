// SPDX-License-Identifier: Apache-2.0
// Compiled once per ISA: MOTLEY_SMO is the table's name. Nothing here may call a function of the standard library: the linker would
// keep a single copy of it, perhaps one with instructions of another ISA.
#include "kernels/smo/smo.h"

namespace motley::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kDoubles = 8;
#elif defined(__AVX2__)
constexpr int kDoubles = 4;
#else
constexpr int kDoubles = 2;
#endif
using Doubles = double __attribute__((vector_size(kDoubles * 8)));
using Longs = long long __attribute__((vector_size(kDoubles * 8)));

inline Doubles all(double value) {
  return Doubles{} + value;
}
inline Doubles load(const double* from) {
  Doubles out;
  __builtin_memcpy(&out, from, sizeof out);
  return out;
}
inline Doubles load(const float* from) {
  using Floats = float __attribute__((vector_size(kDoubles * 4)));
  Floats out;
  __builtin_memcpy(&out, from, sizeof out);
  return __builtin_convertvector(out, Doubles);
}
inline void store(double* to, Doubles values) {
  __builtin_memcpy(to, &values, sizeof values);
}

// The greatest value of each lane and the first position of each.
class Greatest {
 public:
  void see(Doubles values, Longs at) {
    const Longs better = values > value_;
    value_ = better ? values : value_;
    at_ = better ? at : at_;
  }
  Found found() const {
    Found out{-__builtin_inf(), -1};
    for (int l = 0; l < kDoubles; l++)
      if (at_[l] >= 0 && (value_[l] > out.value || (value_[l] == out.value && at_[l] < out.at)))
        out = {value_[l], static_cast<Index>(at_[l])};
    return out;
  }

 private:
  Doubles value_ = all(-__builtin_inf());
  Longs at_ = Longs{} - 1;
};

inline Longs positions() {
  Longs out{};
  for (int l = 0; l < kDoubles; l++) out[l] = l;
  return out;
}

template <class T>
Extremes step(double* f, const T* i_row, const T* j_row, double t, const double* up, const double* low, Index n) {
  Greatest least, most;  // of -(f + up), of f + low
  Longs at = positions();
  for (Index k = 0; k < n; k += kDoubles, at += kDoubles) {
    const Doubles now = load(f + k) + all(t) * (load(i_row + k) - load(j_row + k));
    store(f + k, now);
    least.see(-(now + load(up + k)), at);
    most.see(now + load(low + k), at);
  }
  Extremes out{least.found(), most.found()};
  out.up.value = -out.up.value;
  return out;
}

template <class T>
Found gain(const double* f, const T* i_row, const double* diagonal, const double* low, double f_i, double k_ii, Index n) {
  const Doubles least_curvature = all(1e-12), none = all(-__builtin_inf());
  Greatest most;
  Longs at = positions();
  for (Index k = 0; k < n; k += kDoubles, at += kDoubles) {
    const Doubles slope = load(f + k) + load(low + k) - all(f_i);
    const Doubles curvature = all(k_ii) + load(diagonal + k) - all(2.0) * load(i_row + k);
    const Doubles value = slope * slope / (curvature > least_curvature ? curvature : least_curvature);
    most.see(slope > Doubles{} ? value : none, at);
  }
  return most.found();
}

void products(const double* block, const double* vectors, Index features, double* out) {
  for (Index part = 0; part < kSampleBlock; part += kDoubles) {
    Doubles sums[kSampleBlock] = {};
    for (Index c = 0; c < features; c++) {
      const Doubles x = load(block + c * kSampleBlock + part);
      for (Index v = 0; v < kSampleBlock; v++) sums[v] += all(vectors[v * features + c]) * x;
    }
    for (Index v = 0; v < kSampleBlock; v++) store(out + v * kSampleBlock + part, sums[v]);
  }
}

}  // namespace

extern const SmoLoops MOTLEY_SMO;
const SmoLoops MOTLEY_SMO{products, step<float>, step<double>, gain<float>, gain<double>};

}  // namespace motley::cpu
