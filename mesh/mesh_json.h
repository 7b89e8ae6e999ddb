// SPDX-License-Identifier: Apache-2.0
// A mesh as JSON (docs of the keys stand in the tables).
#pragma once
#include <motley/mesh.h>

#include <optional>

#include "base/json_fields.h"

namespace motley {

// Nothing when it complained.
std::optional<Mesh> read_mesh(Reader& reader, const Json& json, VersionKey version);
Json to_json(const Mesh& mesh);

}  // namespace motley
