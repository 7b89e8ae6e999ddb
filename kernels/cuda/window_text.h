// SPDX-License-Identifier: Apache-2.0
// Texts of one kernel "run" each, a thread per element of the result: pools, convolutions and products by their definition, and
// what is done around a vendor's convolution or product. Arguments: in0, in1, bias, out (what is not there: null), then n, first
// and the number of samples.
#pragma once
#include <motley/kernel_spec.h>

#include <string>

namespace motley::cuda {

// A dense slice [a b c d].
struct Slice {
  Index extents[4] = {0, 0, 0, 0}, strides[4] = {0, 0, 0, 0};
  Index elements = 0;
  bool channels_last = false;
};
Slice slice_of(Format format, const std::vector<Index>& extents);

// What a convolution or a pool reads and writes, without bf16's change of type: x w y.
struct Slices {
  Slice x{}, w{}, y{};
};
Slices slices_of(const KernelSpec& spec);
// What the operands and the result are stored as.
DType input_dtype(const KernelSpec& spec);
DType result_dtype(const KernelSpec& spec);

// A pool; a conv2d; a dense product of g = 1.
std::string window_kernel_text(const KernelSpec& spec);

// out[a b c d] = in0[a b c + below d + right] if that is inside, else 0: another format, a crop, or the inverse of a crop.
struct MoveOptions {
  Slice from{}, to{};
  Index below = 0, right = 0;
};
std::string move_text(const MoveOptions& options, DType dtype);

// out = epilogue(in0 + bias), or with accumulate epilogue(out + in0 + bias): the part that the vendor's convolution or product
// leaves to do. The sum in0 is stored where the result is, or elsewhere in another format or type. bias[b].
struct EpilogueOptions {
  Slice from{}, to{};
  DType sum = DType::f32, result = DType::f32;
  bool bias = false, accumulate = false;
  Formula epilogue{};
};
std::string epilogue_text(const EpilogueOptions& options);

// out = in0 in another type, n elements.
std::string conversion_text(DType from, DType to);

}  // namespace motley::cuda
