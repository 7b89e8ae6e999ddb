// SPDX-License-Identifier: Apache-2.0
// Runs one kernel on memory images given as numbers, with guards around every operand.
#pragma once
#include <motley/backend.h>

#include <limits>
#include <string>
#include <vector>

namespace motley::testing {

// The elements of an operand in memory order, strided gaps included.
using Image = std::vector<double>;
inline constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();  // what a result holds before it is written

struct RunOptions {
  int alias = -1;                // the operand that is also the result (fold)
  int offset = 0;                // elements by which element 0 is moved off its alignment
  int times = 1;                 // how often the kernel runs; all images are written again in between
  std::string implementation{};  // of the backend's; empty: the one that it takes by itself
};

// images: of every operand in run()'s order (sgd's v and w too); a result's image says what is there before, an empty one
// stands for kNothing; the result's own may be left out. With an alias the result is found there. Returns the images of all
// operands afterwards. std::runtime_error: a guard was overwritten, or an image does not have the operand's size.
std::vector<Image> run_kernel(Backend& backend, const KernelSpec& spec, std::vector<Image> images, const RunOptions& options = {});

// The last operand's image.
Image result_of(Backend& backend, const KernelSpec& spec, std::vector<Image> images, const RunOptions& options = {});

}  // namespace motley::testing
