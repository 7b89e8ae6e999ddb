// SPDX-License-Identifier: Apache-2.0
#include "kernels/f64/map_in_strips.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/evaluate.h"
#include "kernels/map_extents.h"
#include "kernels/operands.h"

namespace motley {
namespace {

constexpr Index kStrip = 256;      // positions: a register is 2 KiB, so that those of most formulas stay in the first cache
constexpr Index kShortStrip = 32;  // shorter ones cost more per position than the walk around them

// Loops around the strips, outer to inner, and the position of each.
struct Walk {
  std::vector<MapExtent> extents{};
  std::vector<Index> at{};
  void add(const MapExtent& extent) {
    extents.push_back(extent);
    at.push_back(0);
  }
};

class MapInStrips final : public Kernel {
 public:
  explicit MapInStrips(const KernelSpec& spec)
      : spec_(spec), formula_(plain_of(spec.formula)), results_(result_count(spec)), inputs_(input_count(spec)) {
    check_map(spec);
    std::vector<MapExtent> extents = extents_of(spec);
    join(extents);
    // Along which the strips are: a kept extent (elements of a result may be computed in any order), or the last reduced one (so
    // that sums are added in the reference's order). Of the kept ones the longest, but no extent along which memory is contiguous
    // is left for one along which it is not, unless it is short.
    std::size_t kept = extents.size(), reduced = extents.size();
    const auto better = [&](const MapExtent& a, const MapExtent& b) {
      const bool contiguous = a.result() == 1 && a.size >= kShortStrip, other = b.result() == 1 && b.size >= kShortStrip;
      return contiguous != other ? contiguous : a.size >= b.size;
    };
    for (std::size_t i = 0; i < extents.size(); i++) {
      if (extents[i].size == 1) continue;
      if (extents[i].result() == 0)
        reduced = i;
      else if (kept == extents.size() || better(extents[i], extents[kept]))
        kept = i;
    }
    const bool has_kept = kept < extents.size(), has_reduced = reduced < extents.size();
    reduces_ = has_reduced && (!has_kept || (extents[kept].size < kShortStrip && extents[reduced].size > extents[kept].size));
    const std::size_t strip = reduces_ ? reduced : kept;
    for (std::size_t i = 0; i < extents.size(); i++) {
      if (i == strip) continue;
      (extents[i].result() == 0 && extents[i].size != 1 ? reduced_ : kept_).add(extents[i]);
    }
    strip_ = strip < extents.size() ? extents[strip] : MapExtent{1, std::vector<Index>(spec.operands.size(), 0), inputs_};
    nothing_ = (reduces_ && strip_.size == 0) || is_empty(reduced_);
    for (const MapExtent& e : extents) writes_nothing_ = writes_nothing_ || (e.size == 0 && e.result() != 0);
    writes_nothing_ = writes_nothing_ || (nothing_ && spec.combine == Combine::set);
  }

  std::string implementation() const override { return "motley:strips"; }
  // Per position of a strip: the registers, the sum of the summands, the totals of the results.
  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(kStrip) *
           (static_cast<std::size_t>(formula_.count) * (sizeof(double) + sizeof(std::int32_t)) + results_ * sizeof(double));
  }

  void run(std::span<void* const> operands, void* workspace) override {
    if (writes_nothing_) return;
    Strip strip{operands, static_cast<double*>(workspace)};
    strip.totals = strip.real + static_cast<Index>(formula_.count) * kStrip;
    strip.whole = reinterpret_cast<std::int32_t*>(strip.totals + static_cast<Index>(results_) * kStrip);
    do {
      if (reduces_)
        one_position(strip);
      else
        for (strip.begin = 0; strip.begin < strip_.size; strip.begin += kStrip) {
          strip.count = std::min(kStrip, strip_.size - strip.begin);
          kept_strip(strip);
        }
    } while (advance(kept_));
  }

 private:
  struct Strip {
    std::span<void* const> operands;
    double* real = nullptr;         // registers [instruction kStrip]
    double* totals = nullptr;       // [result kStrip]
    std::int32_t* whole = nullptr;  // integers and conditions [instruction kStrip]
    Index begin = 0, count = 0;     // positions along the strip's extent
  };

  static bool is_empty(const Walk& walk) {
    return std::any_of(walk.extents.begin(), walk.extents.end(), [](const MapExtent& e) { return e.size == 0; });
  }
  // False after the last position: the walk is at its first one again.
  static bool advance(Walk& walk) {
    for (std::size_t d = walk.extents.size(); d-- > 0;) {
      if (++walk.at[d] < walk.extents[d].size) return true;
      walk.at[d] = 0;
    }
    return false;
  }

  Index first_of(const Strip& strip, std::size_t operand) const {
    Index item = strip.begin * strip_.strides[operand];
    for (const Walk* walk : {&kept_, &reduced_})
      for (std::size_t d = 0; d < walk->extents.size(); d++) item += walk->at[d] * walk->extents[d].strides[operand];
    return item;
  }

  // Calls use(j, value as it is stored) for the strip's positions.
  template <class Use>
  void each(const Strip& strip, std::size_t operand, Use&& use) const {
    const Index step = strip_.strides[operand], first = first_of(strip, operand);
    const auto walk = [&](const auto* values) {
      values += first;
      if (step == 1)
        for (Index j = 0; j < strip.count; j++) use(j, values[j]);
      else
        for (Index j = 0; j < strip.count; j++) use(j, values[j * step]);
    };
    const void* const memory = strip.operands[operand];
    switch (spec_.operands[operand].dtype) {
      case DType::f32: return walk(static_cast<const float*>(memory));
      case DType::f64: return walk(static_cast<const double*>(memory));
      case DType::bf16: return walk(static_cast<const Bf16*>(memory));
      case DType::i32: return walk(static_cast<const std::int32_t*>(memory));
    }
  }

  void load(const Strip& strip, int k, double* to) const {
    if (k > 0 || spec_.summands == 1)
      return each(strip, operand_at(spec_, k), [to](Index j, auto v) { to[j] = static_cast<double>(v); });
    std::fill_n(to, strip.count, 0.0);
    for (std::size_t i = 0; i < static_cast<std::size_t>(spec_.summands); i++)
      each(strip, i, [to](Index j, auto v) { to[j] += static_cast<double>(v); });
  }

  void positions(const Strip& strip, int extent, std::int32_t* to) const {
    const Index origin = spec_.origin[static_cast<std::size_t>(extent)];
    Index fixed = 0;
    for (const Walk* walk : {&kept_, &reduced_})
      for (std::size_t d = 0; d < walk->extents.size(); d++)
        if (walk->extents[d].position == extent) fixed = walk->at[d];
    const bool along = strip_.position == extent;
    for (Index j = 0; j < strip.count; j++) to[j] = static_cast<std::int32_t>(origin + (along ? strip.begin + j : fixed));
  }

  // The formula's results at the strip's positions, in its registers.
  void evaluate(const Strip& strip) const {
    const Index n = strip.count;
    for (int i = 0; i < formula_.count; i++) {
      const PlainInstruction s = formula_.code[i];
      double* const to = strip.real + i * kStrip;
      std::int32_t* const into = strip.whole + i * kStrip;
      const double *const a = strip.real + s.a * kStrip, *const b = strip.real + s.b * kStrip, *const c = strip.real + s.c * kStrip;
      const std::int32_t *const wa = strip.whole + s.a * kStrip, *const wb = strip.whole + s.b * kStrip;
      const auto real = [&](auto&& of) {
        for (Index j = 0; j < n; j++) to[j] = of(j);
      };
      const auto whole = [&](auto&& of) {
        for (Index j = 0; j < n; j++) into[j] = of(j);
      };
      switch (s.op) {
        case Opcode::operand:
        case Opcode::scalar: load(strip, s.a, to); break;
        case Opcode::integer:
          each(strip, operand_at(spec_, s.a),
               [&](Index j, auto v) { into[j] = static_cast<std::int32_t>(static_cast<double>(v)); });
          break;
        case Opcode::constant: std::fill_n(to, n, formula_.constants[i]); break;
        case Opcode::position: positions(strip, s.a, into); break;
        case Opcode::add: real([=](Index j) { return a[j] + b[j]; }); break;
        case Opcode::sub: real([=](Index j) { return a[j] - b[j]; }); break;
        case Opcode::mul: real([=](Index j) { return a[j] * b[j]; }); break;
        case Opcode::div: real([=](Index j) { return a[j] / b[j]; }); break;
        case Opcode::less: whole([=](Index j) { return a[j] < b[j] ? 1 : 0; }); break;
        case Opcode::less_equal: whole([=](Index j) { return a[j] <= b[j] ? 1 : 0; }); break;
        case Opcode::equal: whole([=](Index j) { return a[j] == b[j] ? 1 : 0; }); break;
        case Opcode::matches: whole([=](Index j) { return wa[j] == wb[j] ? 1 : 0; }); break;
        case Opcode::precedes: whole([=](Index j) { return wa[j] < wb[j] ? 1 : 0; }); break;
        case Opcode::select:
          real([=](Index j) {
            const double yes = b[j], no = c[j];  // both are read, so that compilers may use vectors
            return wa[j] != 0 ? yes : no;
          });
          break;
        case Opcode::exp: real([=](Index j) { return std::exp(a[j]); }); break;
        case Opcode::expm1: real([=](Index j) { return std::expm1(a[j]); }); break;
        case Opcode::log: real([=](Index j) { return std::log(a[j]); }); break;
        case Opcode::log1p: real([=](Index j) { return std::log1p(a[j]); }); break;
        case Opcode::sqrt: real([=](Index j) { return std::sqrt(a[j]); }); break;
        case Opcode::tanh: real([=](Index j) { return std::tanh(a[j]); }); break;
        case Opcode::erf: real([=](Index j) { return std::erf(a[j]); }); break;
        case Opcode::mix: whole([=](Index j) { return mixed(wa[j], wb[j]); }); break;
        case Opcode::uniform: real([=](Index j) { return uniform_of<double>(wa[j]); }); break;
        case Opcode::whole: std::fill_n(into, n, static_cast<std::int32_t>(formula_.constants[i])); break;
      }
    }
  }

  double first_total() const { return spec_.combine == Combine::max ? -std::numeric_limits<double>::infinity() : 0; }
  void combine(double& total, double value) const {
    if (spec_.combine == Combine::set)
      total = value;
    else if (spec_.combine == Combine::add)
      total += value;
    else if (value > total || std::isnan(value))  // a NaN stays
      total = value;
  }

  // Strips along a kept extent: each position of it has a total of its own.
  void kept_strip(const Strip& strip) {
    std::fill_n(strip.totals, static_cast<Index>(results_) * kStrip, first_total());
    if (!nothing_) {
      do {
        evaluate(strip);
        for (std::size_t k = 0; k < results_; k++) {
          const double* const value = strip.real + formula_.results[k] * kStrip;
          double* const total = strip.totals + static_cast<Index>(k) * kStrip;
          for (Index j = 0; j < strip.count; j++) combine(total[j], value[j]);
        }
      } while (advance(reduced_));
    }
    for (std::size_t k = 0; k < results_; k++) store(strip, k);
  }

  // Strips along the last reduced extent: all of them are added to one position.
  void one_position(Strip& strip) {
    std::array<double, kMostOperands> totals{};
    totals.fill(first_total());
    if (!nothing_) {
      do {
        for (strip.begin = 0; strip.begin < strip_.size; strip.begin += kStrip) {
          strip.count = std::min(kStrip, strip_.size - strip.begin);
          evaluate(strip);
          for (std::size_t k = 0; k < results_; k++) {
            const double* const value = strip.real + formula_.results[k] * kStrip;
            for (Index j = 0; j < strip.count; j++) combine(totals[k], value[j]);
          }
        }
      } while (advance(reduced_));
    }
    strip.begin = 0;
    strip.count = 1;
    for (std::size_t k = 0; k < results_; k++) {
      strip.totals[static_cast<Index>(k) * kStrip] = totals[k];
      store(strip, k);
    }
  }

  void store(const Strip& strip, std::size_t k) const {
    const std::size_t operand = inputs_ + k;
    const Index step = strip_.strides[operand], first = first_of(strip, operand);
    const double* const total = strip.totals + static_cast<Index>(k) * kStrip;
    const auto walk = [&]<class T>(T* to) {
      to += first;
      for (Index j = 0; j < strip.count; j++) to[j * step] = static_cast<T>(spec_.scale * total[j]);
    };
    void* const memory = strip.operands[operand];
    switch (spec_.operands[operand].dtype) {
      case DType::f32: return walk(static_cast<float*>(memory));
      case DType::f64: return walk(static_cast<double*>(memory));
      case DType::bf16: return walk(static_cast<Bf16*>(memory));
      case DType::i32: return walk(static_cast<std::int32_t*>(memory));
    }
  }

  const KernelSpec spec_;
  const PlainFormula formula_;
  const std::size_t results_, inputs_;
  Walk kept_{}, reduced_{};  // without the strip's extent
  MapExtent strip_{};
  bool reduces_ = false;  // the strips are along a reduced extent
  bool nothing_ = false;  // nothing is reduced: the totals are stored as they begin
  bool writes_nothing_ = false;
};

}  // namespace

std::unique_ptr<Kernel> map_in_strips(const KernelSpec& spec) {
  return std::make_unique<MapInStrips>(spec);
}

}  // namespace motley
