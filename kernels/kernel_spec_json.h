// SPDX-License-Identifier: Apache-2.0
// KernelSpec as JSON, separate from KernelSpec itself: a backend needs no JSON.
#pragma once
#include <motley/kernel_spec.h>

#include "base/json.h"

namespace motley {

// One object; only what differs from the defaults, keys in declaration order.
Json to_json_value(const KernelSpec& spec);
// Complains about an unknown key, a wrong type, a word or a number out of range.
void read_kernel_spec(Reader& reader, const Json& json, KernelSpec& out);

}  // namespace motley
