// SPDX-License-Identifier: Apache-2.0
// Layout rules as JSON.
#pragma once
#include <motley/rules.h>

#include <optional>

#include "base/json_fields.h"

namespace motley {

// After a complaint: the valid part of the rules. Whether the rules fit a model and a mesh: check_rules.
std::optional<LayoutRules> read_rules(Reader& reader, const Json& json, VersionKey version);
Json to_json(const LayoutRules& rules);
Json rules_schema(VersionKey version);

}  // namespace motley
