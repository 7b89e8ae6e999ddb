// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <motley/backend.h>

namespace motley {

// A device of kind cpu: by its `library`, or by the first that is built. Errors as open_backend's.
std::unique_ptr<Backend> open_cpu(const Device& device);

}  // namespace motley
