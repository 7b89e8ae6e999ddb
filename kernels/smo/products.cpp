// SPDX-License-Identifier: Apache-2.0
#include <motley/error.h>

#include <algorithm>
#include <vector>

#include "kernels/loops/parallel.h"
#include "kernels/smo/smo.h"

namespace motley::cpu {

extern const SmoLoops kSmoGeneric;
#if defined(__x86_64__)
extern const SmoLoops kSmoSse41, kSmoAvx2, kSmoAvx512;
#endif

const SmoLoops& smo_loops_of(Simd simd) {
  switch (simd) {
#if defined(__x86_64__)
    case Simd::sse41: return kSmoSse41;
    case Simd::avx2: return kSmoAvx2;
    case Simd::avx512: return kSmoAvx512;
#else
    case Simd::sse41:
    case Simd::avx2:
    case Simd::avx512:
#endif
    case Simd::generic: return kSmoGeneric;
  }
  throw InternalError("an unknown ISA");
}

namespace {

constexpr Index kMostVectors = 64;      // expanded at a time
constexpr Index kWorthAThread = 20000;  // multiply-adds, at least: about 10 us, against 1-2 us to wake a team

// The row in memory of zeros: feature c at out[c * stride].
void expand(const SparseRows& rows, Index row, double* out, Index stride) {
  for (Index e = rows.offsets[row]; e < rows.offsets[row + 1]; e++) out[rows.columns[e] * stride] = rows.values[e];
}

}  // namespace

void sparse_products(const SparseRows& rows, std::span<const Index> which, const double* x, double* out, int threads) {
  const auto n = static_cast<Index>(which.size());
  const auto length = [&](Index row) { return rows.offsets[row + 1] - rows.offsets[row]; };
  const Index work = n == 0 ? 0 : n * length(which[static_cast<std::size_t>(n / 2)]);
  for_parts(work < kWorthAThread ? 1 : threads, n, [&](Index begin, Index end) {
    for (Index k = begin; k < end; k++) {
      const Index row = which[static_cast<std::size_t>(k)];
      double sum = 0;
      for (Index e = rows.offsets[row]; e < rows.offsets[row + 1]; e++) sum += rows.values[e] * x[rows.columns[e]];
      out[k] = sum;
    }
  });
}

void product_tiles(const SmoLoops& loops, const SparseRows& vectors, std::span<const Index> of, const SparseRows& samples,
                   std::span<const Index> which, Index features, int threads, const UseTile& use) {
  const auto n = static_cast<Index>(which.size()), all = static_cast<Index>(of.size());
  std::vector<double> expanded(static_cast<std::size_t>(kMostVectors * features));
  for (Index first = 0; first < all; first += kMostVectors) {
    const Index count = std::min(kMostVectors, all - first);
    std::fill(expanded.begin(), expanded.end(), 0.0);
    for (Index v = 0; v < count; v++) expand(vectors, of[static_cast<std::size_t>(first + v)], expanded.data() + v * features, 1);
    for_parts(threads, (n + kSampleBlock - 1) / kSampleBlock, [&](Index begin, Index end) {
      std::vector<double> block(static_cast<std::size_t>(kSampleBlock * features));
      double products[kSampleBlock * kSampleBlock];
      for (Index k = begin * kSampleBlock; k < std::min(n, end * kSampleBlock); k += kSampleBlock) {
        const Index rows = std::min(kSampleBlock, n - k);
        std::fill(block.begin(), block.end(), 0.0);
        for (Index l = 0; l < rows; l++) expand(samples, which[static_cast<std::size_t>(k + l)], block.data() + l, kSampleBlock);
        for (Index v = 0; v < count; v += kSampleBlock) {
          loops.products(block.data(), expanded.data() + v * features, features, products);
          use(first + v, std::min(kSampleBlock, count - v), k, rows, products);
        }
      }
    });
  }
}

}  // namespace motley::cpu
