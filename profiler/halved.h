// SPDX-License-Identifier: Apache-2.0
// A smaller kernel of the same kind, where the memory does not suffice for timing a kernel.
#pragma once
#include <motley/kernel_spec.h>

#include <optional>

namespace motley {

// With half of the samples; of one sample, with half of the filters, then of the channels; a map with half of its largest extent.
// Nothing: it cannot be smaller.
std::optional<KernelSpec> halved(KernelSpec spec);

}  // namespace motley
