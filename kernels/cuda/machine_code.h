// SPDX-License-Identifier: Apache-2.0
// Compiles texts of kernels by NVRTC; needs no GPU.
#pragma once
#include <string>
#include <vector>

namespace motley::cuda {

// Machine code for an architecture ("sm_90"). DeviceError: NVRTC fails. InternalError: it refuses the text.
std::vector<char> compiled(const std::string& text, const std::string& architecture);
// Everything besides the text that decides the machine code.
std::string compiler_of(const std::string& architecture);

}  // namespace motley::cuda
