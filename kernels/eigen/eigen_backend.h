// SPDX-License-Identifier: Apache-2.0
// The portable CPU backend: contractions as Eigen's products, our own loops for the rest.
#pragma once
#include <motley/backend.h>

namespace motley {

// DeviceError: an unknown ISA, no threads. A process may have any number of these backends, each with a different ISA.
std::unique_ptr<Backend> open_eigen_backend(const Device& device);

}  // namespace motley
