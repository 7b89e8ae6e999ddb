// SPDX-License-Identifier: Apache-2.0
#include "bench/support/hand_loops.h"

#include <cmath>
#include <cstring>
#if defined(__SSE4_1__)
#include <immintrin.h>
#endif

#define MOTLEY_VECTOR _Pragma("GCC ivdep")

namespace motley::bench {
namespace {
#include "kernels/loops/math.inc"
#include "kernels/loops/vector.inc"

constexpr float kRate = 0.01f;

template <class F>
[[gnu::always_inline]] inline void each(Index n, F&& f) {
  MOTLEY_VECTOR
  for (Index i = 0; i < n; i++) f(i);
}

void relu(float* const* o, Index n) {
  const float* x = o[0];
  float* y = o[1];
  each(
      n, [=](Index i) __attribute__((always_inline)) { y[i] = x[i] <= 0.0f ? 0.0f : x[i]; });
}
void relu_gradient(float* const* o, Index n) {
  const float *dy = o[0], *y = o[1];
  float* dx = o[2];
  each(
      n, [=](Index i) __attribute__((always_inline)) {
        const float g = dy[i];
        dx[i] = 0.0f < y[i] ? g : 0.0f;
      });
}
void add(float* const* o, Index n) {
  const float *a = o[0], *b = o[1];
  float* y = o[2];
  each(
      n, [=](Index i) __attribute__((always_inline)) { y[i] = a[i] + b[i]; });
}
void add_four(float* const* o, Index n) {  // rounded once, as motley adds more than two
  const float *a = o[0], *b = o[1], *c = o[2], *d = o[3];
  float* y = o[4];
  each(
      n, [=](Index i) __attribute__((always_inline)) {
        const double sum = static_cast<double>(a[i]) + static_cast<double>(b[i]) + static_cast<double>(c[i]);
        y[i] = static_cast<float>(sum + static_cast<double>(d[i]));
      });
}
void gelu(float* const* o, Index n) {
  const float* x = o[0];
  float* y = o[1];
  each(
      n, [=](Index i) __attribute__((always_inline)) { y[i] = 0.5f * x[i] * (1.0f + erf_of(0.70710678f * x[i])); });
}
void gelu_gradient(float* const* o, Index n) {
  const float *dy = o[0], *x = o[1];
  float* dx = o[2];
  each(
      n, [=](Index i) __attribute__((always_inline)) {
        const float v = x[i];
        dx[i] = dy[i] * (0.5f * (1.0f + erf_of(0.70710678f * v)) + v * 0.39894228f * exp_of(-0.5f * v * v));
      });
}
void silu(float* const* o, Index n) {
  const float* x = o[0];
  float* y = o[1];
  each(
      n, [=](Index i) __attribute__((always_inline)) { y[i] = x[i] / (1.0f + exp_of(-x[i])); });
}
void tanh_loop(float* const* o, Index n) {
  const float* x = o[0];
  float* y = o[1];
  each(
      n, [=](Index i) __attribute__((always_inline)) { y[i] = tanh_of(x[i]); });
}
// operands: rate, factor, g, v, w; v, w
void sgd(float* const* o, Index n) {
  const float* g = o[2];
  float *v = o[5], *w = o[6];
  each(
      n, [=](Index i) __attribute__((always_inline)) {
        v[i] = 0.9f * v[i] + (g[i] + 1e-4f * w[i]);
        w[i] -= kRate * v[i];
      });
}
// operands: rate, factor, corrections of mean and root, g, m, v, w; m, v, w
void adam(float* const* o, Index n) {
  const float* g = o[4];
  float *m = o[8], *v = o[9], *w = o[10];
  each(
      n, [=](Index i) __attribute__((always_inline)) {
        m[i] = 0.9f * m[i] + 0.1f * g[i];
        v[i] = 0.999f * v[i] + 0.001f * (g[i] * g[i]);
        w[i] -= kRate * (m[i] / (sqrt_of(v[i]) + 1e-8f));
      });
}
// Of batches of kNormChannels, which are next to each other; operands: x, scale, weight, center, bias; y
void norm(float* const* o, Index n) {
  const float *scale = o[1], *weight = o[2], *center = o[3], *bias = o[4];
  for (Index first = 0; first < n; first += kNormChannels) {
    const float* x = o[0] + first;
    float* y = o[5] + first;
    each(
        kNormChannels, [=](Index i) __attribute__((always_inline)) { y[i] = (x[i] - center[i]) * scale[i] * weight[i] + bias[i]; });
  }
}
// operands: x, origin (f64); sums of x - origin and of its squares
void norm_statistics(float* const* o, Index n) {
  const auto* origin = reinterpret_cast<const double*>(o[1]);
  double sums[kNormChannels] = {}, squares[kNormChannels] = {};
  for (Index first = 0; first < n; first += kNormChannels) {
    const float* x = o[0] + first;
    each(
        kNormChannels, [ =, &sums, &squares ](Index i) __attribute__((always_inline)) {
          const double d = static_cast<double>(x[i]) - origin[i];
          sums[i] += d;
          squares[i] += d * d;
        });
  }
  std::memcpy(o[2], sums, sizeof sums);
  std::memcpy(o[3], squares, sizeof squares);
}
// operands: g, x, scale, weight, mean of g times normal, center, mean of g; gradient
void norm_gradient(float* const* o, Index n) {
  const float *scale = o[2], *weight = o[3], *mean_normal = o[4], *center = o[5], *mean = o[6];
  for (Index first = 0; first < n; first += kNormChannels) {
    const float *g = o[0] + first, *x = o[1] + first;
    float* dx = o[7] + first;
    each(
        kNormChannels, [=](Index i) __attribute__((always_inline)) {
          dx[i] = scale[i] * (g[i] * weight[i] - (x[i] - center[i]) * scale[i] * mean_normal[i] - mean[i]);
        });
  }
}
// Not compiled with motley: what is interpreted.
void scaled_difference(float* const* o, Index n) {
  const float *a = o[0], *b = o[1];
  float* y = o[2];
  each(
      n, [=](Index i) __attribute__((always_inline)) { y[i] = (a[i] - b[i]) * 0.3f; });
}
void squares(float* const* o, Index n) {
  const float *a = o[0], *b = o[1];
  float* y = o[2];
  each(
      n, [=](Index i) __attribute__((always_inline)) { y[i] = a[i] * a[i] + b[i] * b[i] - 0.5f; });
}
void exp_of_difference(float* const* o, Index n) {
  const float *a = o[0], *b = o[1];
  float* y = o[2];
  each(
      n, [=](Index i) __attribute__((always_inline)) { y[i] = exp_of(a[i] - b[i]) * b[i]; });
}

// ---- rows
// The sum of n values in f64, `value` makes a vector's of its first element.
template <class F>
[[gnu::always_inline]] inline double sum_of(const float* x, Index n, F&& value) {
  constexpr Index kStep = kWidth / 2, kBlock = 4;
  Doubles sums[kBlock] = {};
  for (Index i = 0; i < n; i += kBlock * kStep)
    for (Index j = 0; j < kBlock; j++) sums[j] += value(x + i + j * kStep);
  const Doubles all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  double total = 0;
  for (Index j = 0; j < kStep; j++) total += all[j];
  return total;
}
void layer_norm(HandRow at, Index rows, Index n) {
  auto [x, y, weight, bias] = at;
  for (Index r = 0; r < rows; r++, x += n, y += n) {
    const auto mean = static_cast<float>(sum_of(x, n, [](const float* v) { return wide(v); }) / static_cast<double>(n));
    const double squares = sum_of(x, n, [mean](const float* v) {
      const Doubles d = wide(v) - static_cast<double>(mean);
      return d * d;
    });
    const float scale = 1.0f / std::sqrt(static_cast<float>(squares / static_cast<double>(n)) + 1e-5f);
    MOTLEY_VECTOR
    for (Index i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
  }
}
void rms_norm(HandRow at, Index rows, Index n) {
  auto [x, y, weight, bias] = at;
  for (Index r = 0; r < rows; r++, x += n, y += n) {
    const double squares = sum_of(x, n, [](const float* v) {
      const Doubles d = wide(v);
      return d * d;
    });
    const float scale = 1.0f / std::sqrt(static_cast<float>(squares / static_cast<double>(n)) + 1e-5f);
    MOTLEY_VECTOR
    for (Index i = 0; i < n; i++) y[i] = x[i] * scale * weight[i];
  }
}
void softmax(HandRow at, Index rows, Index n) {
  auto [x, y, weight, bias] = at;
  for (Index r = 0; r < rows; r++, x += n, y += n) {
    float most[32];
    std::memcpy(most, x, sizeof most);
    for (Index i = 32; i < n; i += 32) {
      MOTLEY_VECTOR
      for (Index j = 0; j < 32; j++) most[j] = x[i + j] <= most[j] ? most[j] : x[i + j];
    }
    for (Index j = 1; j < 32; j++) most[0] = most[j] <= most[0] ? most[0] : most[j];
    MOTLEY_VECTOR
    for (Index i = 0; i < n; i++) y[i] = exp_of(x[i] - most[0]);
    const auto scale = static_cast<float>(1 / sum_of(y, n, [](const float* v) { return wide(v); }));
    MOTLEY_VECTOR
    for (Index i = 0; i < n; i++) y[i] *= scale;
  }
}

}  // namespace

const HandLoops& MOTLEY_HAND_LOOPS();
const HandLoops& MOTLEY_HAND_LOOPS() {
  static const HandLoops loops{MOTLEY_HAND_ISA,
                               {{"relu", relu},
                                {"relu gradient", relu_gradient},
                                {"add", add},
                                {"add four", add_four},
                                {"gelu", gelu},
                                {"gelu gradient", gelu_gradient},
                                {"silu", silu},
                                {"tanh", tanh_loop},
                                {"sgd", sgd},
                                {"adam", adam},
                                {"norm", norm},
                                {"norm statistics", norm_statistics},
                                {"norm gradient", norm_gradient},
                                {"fused: (a - b) * c", scaled_difference},
                                {"fused: a a + b b - c", squares},
                                {"fused: exp(a - b) b", exp_of_difference}},
                               {{"layer_norm", layer_norm}, {"rms_norm", rms_norm}, {"softmax", softmax}}};
  return loops;
}

}  // namespace motley::bench
