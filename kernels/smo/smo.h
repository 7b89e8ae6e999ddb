// SPDX-License-Identifier: Apache-2.0
// Loops of sequential minimal optimisation: one source (smo.cpp), compiled once per ISA. The same bits on every ISA and for any
// number of threads: products are summed in the order of the features, without fused multiply-adds.
#pragma once
#include <motley/dims.h>

#include <cstdint>
#include <functional>
#include <span>

#include "kernels/loops/loops.h"

namespace motley::cpu {

// The number of samples in a block; arrays that are indexed by sample are padded to a multiple of it.
constexpr Index kSampleBlock = 8;
constexpr Index in_sample_blocks(Index samples) {
  return (samples + kSampleBlock - 1) / kSampleBlock * kSampleBlock;
}

// A value, and the first position that has it; -1: there is none.
struct Found {
  double value = 0;
  Index at = -1;
};
// Where the least f[k] + up[k] is, and the greatest f[k] + low[k].
struct Extremes {
  Found up{}, low{};
};

// Arrays of n elements, n a multiple of kSampleBlock. up[k] is 0 where sample k may move up, else +infinity; low[k] is 0 where it
// may move down, else -infinity. Rows are kernel values of one sample with the others.
struct SmoLoops {
  // products[v][l] = the sum over c of vectors[v][c] * block[c][l], v and l < kSampleBlock
  void (*products)(const double* block, const double* vectors, Index features, double* products);
  // f[k] += t * (i_row[k] - j_row[k]), then the extremes
  Extremes (*step_f32)(double* f, const float* i_row, const float* j_row, double t, const double* up, const double* low, Index n);
  Extremes (*step_f64)(double* f, const double* i_row, const double* j_row, double t, const double* up, const double* low, Index n);
  // The greatest (f[k] - f_i)^2 / max(k_ii + diagonal[k] - 2 i_row[k], 1e-12) over k with f[k] + low[k] > f_i
  Found (*gain_f32)(const double* f, const float* i_row, const double* diagonal, const double* low, double f_i, double k_ii,
                    Index n);
  Found (*gain_f64)(const double* f, const double* i_row, const double* diagonal, const double* low, double f_i, double k_ii,
                    Index n);
};
const SmoLoops& smo_loops_of(Simd simd);  // the CPU must have this ISA

// Samples as rows of their features that are not 0, in ascending order: entries offsets[r]..offsets[r+1]-1 of row r.
struct SparseRows {
  const Index* offsets = nullptr;
  const std::int32_t* columns = nullptr;
  const double* values = nullptr;
};

// out[k] = the product of x [features] and rows[which[k]].
void sparse_products(const SparseRows& rows, std::span<const Index> which, const double* x, double* out, int threads);

// The products of each vector with each of the samples, in tiles of at most kSampleBlock of both: use(v, vectors, k, samples,
// products [kSampleBlock][kSampleBlock]) is called for the vectors of[v..] and the samples which[k..], by several threads; for one
// sample by one thread, in the order of the vectors. Memory: (64 + threads * 8) * features numbers.
using UseTile = std::function<void(Index v, Index vectors, Index k, Index samples, const double* products)>;
void product_tiles(const SmoLoops& loops, const SparseRows& vectors, std::span<const Index> of, const SparseRows& samples,
                   std::span<const Index> which, Index features, int threads, const UseTile& use);

}  // namespace motley::cpu
