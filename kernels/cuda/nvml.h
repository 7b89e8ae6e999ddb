// SPDX-License-Identifier: Apache-2.0
// Clock and power of one GPU, from NVIDIA's management library if it is installed. Declared here: toolkits do not always have its
// header, and a program linked with it would not start without a driver.
#pragma once
#include <string>

namespace motley::cuda {

// "1980 MHz, 412 W, 54 C"; unknown values are left out. bus: "0000:1B:00.0", as CUDA names it: device numbers differ between the
// two libraries.
std::string condition_of(const std::string& bus);

}  // namespace motley::cuda
