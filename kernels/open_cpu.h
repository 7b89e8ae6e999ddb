// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/backend.h>

namespace motley {

// Opens a device of kind cpu: with its `library`, or with the first that is built. Errors as in open_backend().
std::unique_ptr<Backend> open_cpu(const Device& device);

}  // namespace motley
