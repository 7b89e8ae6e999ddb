// SPDX-License-Identifier: Apache-2.0
// KernelSpec as JSON, apart from KernelSpec itself: a backend needs no JSON.
#pragma once
#include <motley/kernel_spec.h>

#include "base/json.h"

namespace motley {

// One object; only what differs from the defaults, keys in declaration order.
Json to_json_value(const KernelSpec& spec);
// UserError naming file, line and path: an unknown key, a wrong type, a word or a number out of range.
KernelSpec kernel_spec_from_json(const Json& json);

}  // namespace motley
