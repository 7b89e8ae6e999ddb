// SPDX-License-Identifier: Apache-2.0
// What verify() of training and of inference share.
#pragma once
#include <span>

#include "train/dump.h"
#include "train/verify.h"

namespace motley {

// separate: one for each pass, as nothing is that is compared: what fusing gets wrong shows without any cut too.
enum class Kernels : std::uint8_t { fused, separate };

inline constexpr double kF64 = 1e-11, kF32Values = 1e-5, kF32Weights = 1e-4, kOwnDistances = 4;  // INTERFACE section 3
// Parameters are changed by so much of their values to see how far f64's own rounding goes in a network; and what it may explain.
inline constexpr double kNudges[] = {0x1p-46, -0x1p-46, 0x1p-45}, kF64Most = 1e-7;
// The same of f32, one after the other, as they are first: one run's rounding says little of what an optimizer makes of a gradient
// that is nearly 0.
// Last also every value that a kernel stores: a network may make differences of values that plain loops happen to compute without
// any rounding (three equal ones, of which a norm takes the variance).
struct Nudge {
  double parameters = 0, stored = 0;
};
inline constexpr Nudge kF32Nudges[] = {{0}, {0x1p-23}, {-0x1p-23}, {0x1p-22}, {0x1p-23, 0x1p-23}};
inline constexpr double kBf16Factor = 0x1p14;  // in bf16 by so much more
// Where a run in bf16 and the unsharded f64 one differ by at most so much of a tensor's largest value, they take the same
// decisions: eight times what one rounding changes.
inline constexpr double kBf16Decisions = 0x1p-6;
// So many times as far as plain kernels may a device's be off in f32: beyond that they compute something else, without any cut too.
inline constexpr double kPlainDistances = 16;
// So many times as far as without any cut may each gradient be.
inline constexpr double kGradientDistances = 8;

// Changed by so much of their values, up or down.
std::vector<double> nudged(std::vector<double> values, double by);
Batch first_batch(const VerifyInput& in, Index batch);
// What differences of one tensor are divided by: its largest value (below 1e-30: nothing). Of several tensors: of one that is zero
// but for rounding the largest value of all, or that of what is added; else at least so much of the largest as rounding of it may
// be.
struct Scale {
  double all = 0;        // largest value of all tensors
  double cancelled = 0;  // of all, those that have cancelled by what is added into them
  RunRecord::Summed summed{};
  double largest_of_all() const;
  bool is_rounding(double most) const;  // most: the tensor's largest value
  double of(double most) const;
};
// So much of the absolute difference as is `excused` does not count. NaN where a value is missing or not finite.
double apart(const std::vector<double>& values, const std::vector<double>& truth, const Scale& scale = {}, double excused = 0);
void dump_inputs(Dump& dump, const std::string& folder, const Passes& passes, const VerifyInput& in, DType dtype);

using Distances = std::map<std::string, double>;  // of each tensor, relative to its largest value
Distances gradient_distances(const RunRecord& run, const RunRecord& truth);
Farthest farthest_gradient(const Distances& cut, const Distances& own);

bool is_within_bounds(const VerifyReport& report);  // of gradients and weights, without a look at how far rounding goes
bool stores_bf16(const Step& step);
Difference larger(Difference a, const Difference& b);  // of each the larger one, or what is not a number

}  // namespace motley
