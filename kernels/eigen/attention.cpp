// SPDX-License-Identifier: Apache-2.0
// Processes a block of queries against all keys that count for one of them: their scores are a block of the workspace, which fits a
// cache, so that memory grows with the positions, not with their square.
//   forward   s = q k^T, softmax, y = s v, each row divided by its sum
//   backward  s = q k^T, ds = dy v^T, both replaced by weights and slopes, dq = ds k, dk += ds^T q, dv += s^T dy
// Units of work: blocks of queries (forward), heads (backward, where dk and dv are sums over the queries).
#include "kernels/eigen/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "kernels/eigen/products.h"
#include "kernels/eigen/work.h"
#include "kernels/loops/parallel.h"
#include "kernels/loops/this_cpu.h"
#include "kernels/operands.h"

namespace motley::eigen {

namespace {

constexpr Index kQueries = 64;  // of a block: packing the keys for each costs 1/64 of its products, but slower instructions

template <class T>
Matrix<T> rows_of(T* data, Index rows, Index cols) {
  return {data, rows, cols, cols, 1};
}
template <class T>
Matrix<T> transposed(const Matrix<T>& m) {
  return {m.data, m.cols, m.rows, m.col_stride, m.row_stride};
}

// The softmax between the products, as in Loops.
template <class T>
struct RowLoops {
  void (*rows)(const cpu::AttentionRows<T>& block, T* scores, T* lse, T* factors);
  void (*slopes)(const cpu::AttentionRows<T>& block, T* scores, T* slopes, const T* lse, const T* dots);
};

// f64
bool counts(const cpu::AttentionRows<double>& a, Index row, Index key) {
  return (!a.causal || key < a.first_keys + row) && (a.mask == nullptr || a.mask[key] > 0);
}
void softmax_rows(const cpu::AttentionRows<double>& a, double* s, double* lse, double* factors) {
  for (Index i = 0; i < a.rows; i++, s += a.keys) {
    double most = -HUGE_VAL, sum = 0;
    bool any = false;
    for (Index j = 0; j < a.keys; j++)
      if (counts(a, i, j)) {
        any = true;
        most = std::max(most, s[j] *= a.scale);
      }
    for (Index j = 0; j < a.keys; j++) sum += s[j] = counts(a, i, j) ? std::exp(s[j] - most) : 0;
    factors[i] = any ? 1 / sum : 0;
    if (lse != nullptr) lse[i] = any ? most + std::log(sum) : kNoKey;
  }
}
void softmax_slopes(const cpu::AttentionRows<double>& a, double* s, double* slopes, const double* lse, const double* dots) {
  for (Index i = 0; i < a.rows; i++, s += a.keys, slopes += a.keys)
    for (Index j = 0; j < a.keys; j++) {
      const bool in = counts(a, i, j);
      s[j] = in ? std::exp(s[j] * a.scale - lse[i]) : 0;
      slopes[j] = in ? s[j] * (slopes[j] - dots[i]) * a.scale : 0;
    }
}

RowLoops<float> row_loops(const cpu::Loops& loops, float /*type*/) {
  return {loops.softmax_rows, loops.softmax_slopes};
}
RowLoops<double> row_loops(const cpu::Loops& /*loops*/, double /*type*/) {
  return {softmax_rows, softmax_slopes};
}

template <class T>
class Attention final : public Kernel {
 public:
  Attention(const KernelSpec& spec, const cpu::Loops& loops, int threads)
      : spec_(spec),
        isa_(cpu::isa_of(loops.simd)),
        row_loops_(row_loops(loops, T{})),
        products_(products_of<T>(loops.simd)),
        threads_(flops(spec) >= kFlopsWorthAThread ? threads : 1),
        forward_(spec.pass == PassKind::forward) {
    const Roles& e = spec.roles;
    T* const none = nullptr;
    queries_ = std::clamp<Index>(e.n, 1, kQueries);
    blocks_ = (e.n + queries_ - 1) / queries_;
    units_ = forward_ ? e.g * blocks_ : e.g;
    scores_ = products_.blocks(rows_of(none, queries_, e.f), e.c);
    by_query_ = products_.blocks(rows_of(none, queries_, e.c), e.f);
    by_key_ = products_.blocks(rows_of(none, e.f, e.c), queries_);
    block_ = lined(queries_ * e.f);
    packed_ = (forward_ ? lined(queries_) : block_) + block_;
    part_ = packed_ + lined(std::max({products_.packed(scores_), products_.packed(by_query_), products_.packed(by_key_)}));
  }
  std::string implementation() const override { return "eigen " + isa_ + " by blocks"; }
  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(part_ * std::min<Index>(threads_, units_)) * sizeof(T) + kAlignment;
  }
  void run(std::span<void* const> operands, void* workspace) override {
    const auto at = (reinterpret_cast<std::uintptr_t>(workspace) + kAlignment - 1) / kAlignment * kAlignment;
    const Index parts = std::min<Index>(threads_, units_);
    cpu::for_parts(threads_, parts, [&](Index begin, Index end) {
      for (Index part = begin; part < end; part++)
        for (Index i = units_ * part / parts; i < units_ * (part + 1) / parts; i++) {
          T* own = reinterpret_cast<T*>(at) + part * part_;
          if (forward_)
            forward(operands, i / blocks_, i % blocks_, own);
          else
            backward(operands, i, own);
        }
    });
  }

 private:
  // A block of queries of head g, and the keys that count for some of them.
  struct Block {
    Index first, queries;
    cpu::AttentionRows<T> rows;
  };
  Block block_of(std::span<void* const> operands, Index g, Index number) const {
    const Roles& e = spec_.roles;
    Block b{number * queries_, std::min(queries_, e.n - number * queries_), {}};
    b.rows.rows = b.queries;
    b.rows.keys = keys_of(spec_, b.first + b.queries - 1);
    b.rows.causal = spec_.causal;
    b.rows.first_keys = spec_.causal ? spec_.origin[0] + b.first + 1 - spec_.origin[1] : 0;
    b.rows.scale = static_cast<T>(spec_.scale);
    if (spec_.share > 0) b.rows.mask = operand(operands, forward_ ? 3 : 6) + g / spec_.share * e.f;
    return b;
  }
  static T* operand(std::span<void* const> operands, std::size_t i) { return static_cast<T*>(operands[i]); }
  // Operands of a head: [queries c] of a block, [keys c] of those that count for it.
  Matrix<T> queries(T* data, Index g, const Block& b) const {
    const Index step = head_step(spec_);
    return {data + head_begin(spec_, g, spec_.roles.n) + b.first * step, b.queries, spec_.roles.c, step, 1};
  }
  Matrix<T> keys(T* data, Index g, Index count) const {
    return {data + head_begin(spec_, g, spec_.roles.f), count, spec_.roles.c, head_step(spec_), 1};
  }
  static void clear(const Matrix<T>& m) {
    for (Index i = 0; i < m.rows; i++) std::fill_n(m.data + i * m.row_stride, m.cols, T{0});
  }
  // result = a b
  void multiply(const Matrix<T>& a, const Matrix<T>& b, const Matrix<T>& result, const Blocks& blocks, T* packed) const {
    clear(result);
    products_.add(a, b, result, blocks, packed);
  }

  void forward(std::span<void* const> operands, Index g, Index number, T* memory) const {
    const Roles& e = spec_.roles;
    const Block b = block_of(operands, g, number);
    const Matrix<T> scores = rows_of(memory, b.queries, b.rows.keys);
    T *factors = memory + block_, *packed = memory + packed_;
    multiply(queries(operand(operands, 0), g, b), transposed(keys(operand(operands, 1), g, b.rows.keys)), scores, scores_, packed);
    T* lse = (spec_.made & kMakesLogSum) != 0 ? static_cast<T*>(operands.back()) + g * e.n + b.first : nullptr;
    row_loops_.rows(b.rows, scores.data, lse, factors);
    if ((spec_.made & kMakesOutput) == 0) return;
    const Matrix<T> y = queries(operand(operands, spec_.share > 0 ? 4 : 3), g, b);
    multiply(scores, keys(operand(operands, 2), g, b.rows.keys), y, by_query_, packed);
    for (Index i = 0; i < y.rows; i++)
      for (Index c = 0; c < y.cols; c++) y.data[i * y.row_stride + c] *= factors[i];
  }

  void backward(std::span<void* const> operands, Index g, T* memory) const {
    const Roles& e = spec_.roles;
    std::array<T*, 3> results{};
    std::size_t next = spec_.share > 0 ? 7 : 6;
    for (std::size_t r = 0; r < 3; r++)
      if ((spec_.made >> r & 1) != 0) results[r] = operand(operands, next++);
    for (std::size_t r : {1U, 2U})
      if (results[r] != nullptr) clear(keys(results[r], g, e.f));
    T* packed = memory + packed_;
    for (Index number = 0; number < blocks_; number++) {
      const Block b = block_of(operands, g, number);
      const Matrix<T> q = queries(operand(operands, 0), g, b), k = keys(operand(operands, 1), g, b.rows.keys),
                      v = keys(operand(operands, 2), g, b.rows.keys), dy = queries(operand(operands, 3), g, b);
      const Matrix<T> weights = rows_of(memory, b.queries, b.rows.keys), slopes = rows_of(memory + block_, b.queries, b.rows.keys);
      multiply(q, transposed(k), weights, scores_, packed);
      if (results[0] != nullptr || results[1] != nullptr)
        multiply(dy, transposed(v), slopes, scores_, packed);
      else
        clear(slopes);
      const Index query = g * e.n + b.first;
      row_loops_.slopes(b.rows, weights.data, slopes.data, operand(operands, 4) + query, operand(operands, 5) + query);
      if (results[0] != nullptr) multiply(slopes, k, queries(results[0], g, b), by_query_, packed);
      if (results[1] != nullptr) products_.add(transposed(slopes), q, keys(results[1], g, b.rows.keys), by_key_, packed);
      if (results[2] != nullptr) products_.add(transposed(weights), dy, keys(results[2], g, b.rows.keys), by_key_, packed);
    }
  }

  const KernelSpec spec_;
  const std::string isa_;
  const RowLoops<T> row_loops_;
  const Products<T>& products_;
  const int threads_;
  const bool forward_;
  Index queries_ = 1, blocks_ = 0, units_ = 0;  // queries of a block, blocks of a head
  Blocks scores_{}, by_query_{}, by_key_{};     // of the products that compute these
  Index block_ = 0, packed_ = 0, part_ = 0;     // elements: of a block of scores; start of the packed ones; of a thread's memory
};

}  // namespace

std::unique_ptr<Kernel> attention(const KernelSpec& spec, const cpu::Loops& loops, int threads) {
  check_attention(spec);
  if (spec.dtype == DType::f64) return std::make_unique<Attention<double>>(spec, loops, threads);
  return std::make_unique<Attention<float>>(spec, loops, threads);
}

}  // namespace motley::eigen
