// SPDX-License-Identifier: Apache-2.0
// The law of every backend: for every KernelSpec it computes what the reference computes in f64.
#pragma once
#include <motley/backend.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/kernel_runner.h"

namespace motley::testing {

// exact: small integers in every operand, every partial sum below 2^24: f32 results equal the f64 reference bit for bit
//        (no exp, tanh, ...; means divide evenly).
// tolerance: random reals; per element |result - reference| <= bound. u = 2^-24, |.| = the same sum over absolute values:
//        conv2d, dense          (terms + 8) u |.|          terms: products added per result, the bias too
//        max_pool2d forward     0
//        pools otherwise        (terms + 8) u |.|
//        an epilogue            and 2^-19 (1 + |.|)
//        map                    what its formula's instructions may be off, one after the other, each rounding once
enum class LawMode { exact, tolerance };

// One case: computed from (seed, number, mode) alone, so that a failing one can be run again by itself.
struct LawCase {
  KernelSpec spec{};
  std::vector<Image> images{};  // a result's is empty: kNothing
  RunOptions options{};
};
LawCase law_case(std::uint64_t seed, int number, LawMode mode);

// Runs cases 0..cases-1: f32, every op, pass, format (mixed too), stride, dilation, padding (uneven, negative, wider than the
// window), even windows, extents of 0, maps of every formula that an op makes, and of random ones, over strided views, some in
// place. Each kernel runs twice. Returns "" where the law holds; else per kind of kernel the first failing case and how many there
// are. A refusal (DeviceError) is a failure. $MOTLEY_LAW_OP: only the cases of this op ("conv2d"). dtype f64: the same cases in
// f64, u = 2^-53. bf16: with operands and results in bf16, which are rounded once more, u = 2^-8.
std::string backend_law(Backend& backend, std::uint64_t seed, int cases, LawMode mode, DType dtype = DType::f32);

// supports() says whether compile() throws: of the law's cases, and of such cases with other types, and maps of up to 20 extents,
// 16 operands and 16 results. "" or the first that breaks it.
std::string supports_law(Backend& backend, std::uint64_t seed, int cases);

// A NaN in x is in exactly those results whose windows reach it, through bias and these epilogues (not given: none, and relu) too:
// convolutions of every implementation that the backend has, each by itself. "" or every implementation that loses it (or spreads
// it), with the first element that differs. spreads: a NaN may be in other results too (tensor cores multiply channels of other
// groups by 0), but never lost.
enum class NanSpread : std::uint8_t { refused, accepted };
std::string nan_law(Backend& backend, std::vector<Formula> epilogues = {}, NanSpread spreads = NanSpread::refused);

// Sums of so many operands in f32, over contiguous, strided, broadcast and in-place views: of reals of very unlike magnitudes the
// same bits as the reference's one loop in the operands' order; of small integers also reduced by a sum and by a maximum. "" or
// what differs.
std::string sums_law(Backend& backend, const std::vector<int>& operands);
std::vector<KernelSpec> specs_of_sums_law(const std::vector<int>& operands);

}  // namespace motley::testing
